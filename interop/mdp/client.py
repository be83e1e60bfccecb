"""A client on the Python package modeldriveprotocol-client: exposes what `mdp_jobs.py` reads, and follows its commands.

    client.py URL TOKEN

prints `ready` when it is registered. Then each line of standard input is something to do, after which it is printed
again: `change` exposes one skill more and withdraws another, `reconnect` connects and registers anew, `leave` ends.
"""

import asyncio
import json
import sys

from modeldriveprotocol import AuthContext, ClientInfo, MdpClient

REVIEW = "# Review\n\nReads a change and says what is wrong.\n\nDetails in files.\n"


def describe_request(request, context):
    """Returns the arguments of a resolver as a document."""
    given = {
        "params": request.params,
        "queries": request.queries,
        "scope": request.headers.get("x-review-scope"),
        "authorization": request.headers.get("authorization"),
        "method": context.method,
        "path": context.path,
    }
    return json.dumps(given, sort_keys=True)


async def slow(_request, _context):
    await asyncio.sleep(0.05)
    return "# Slow\n"


def failing(_request, _context):
    raise ValueError("on purpose")


def expose(client):
    client.expose_skill("/workspace/review/skill.md", REVIEW)
    client.expose_skill("/workspace/review/files/skill.md", "# Files\n\nOne by one.\n")
    client.expose_skill("/skill.md", "# Root\n")
    client.expose_skill("/goods/:id/skill.md", describe_request, content_type="application/json")
    client.expose_skill("/goods/special/skill.md", "# Special\n")
    client.expose_skill("/data/skill.md", lambda _request, _context: {"rows": [1, 2]})
    client.expose_skill("/slow/skill.md", slow)
    client.expose_skill("/failing/skill.md", failing)
    client.expose_prompt("/ask/prompt.md", "Ask about the review.")
    client.expose_endpoint("/goods/:id", "POST", describe_request, description="Changes goods.")


async def main(url, token):
    info = ClientInfo(id="python", name="Python", description="A client of interop.", version="2.2.0")
    client = MdpClient(url, info, auth=AuthContext(token=token))
    expose(client)
    await client.connect()
    await client.register()
    print("ready", flush=True)
    while command := (await asyncio.to_thread(sys.stdin.readline)).strip():
        match command:
            case "change":
                client.expose_skill("/later/skill.md", "# Later\n")
                client.unexpose("/slow/skill.md")
                await client.sync_catalog()
            case "reconnect":
                await client.connect()
                await client.register()
            case "leave":
                await client.disconnect()
        print(command, flush=True)


asyncio.run(main(*sys.argv[1:]))
