"""Expose a skill, a deeper document, a dynamic skill and a prompt from this process.

pip install modeldriveprotocol-client==2.2.0
python mdp.py
"""

import asyncio
import os

from modeldriveprotocol import AuthContext, ClientInfo, MdpClient

client = MdpClient(
    os.environ.get("MDP_URL", "ws://127.0.0.1:47372"),
    ClientInfo(id="desk", name="Desk"),
    # Where the server asks for a token.
    auth=AuthContext(token=os.environ["MDP_TOKEN"]) if "MDP_TOKEN" in os.environ else None,
)
client.expose_skill(
    "/workspace/review/skill.md",
    "# Review\n\nHow changes are reviewed here.\n\nRead files/skill.md for the files that matter.\n",
)
client.expose_skill("/workspace/review/files/skill.md", "# Files\n\nBegin with the tests.\n")
client.expose_skill(
    "/tickets/:id/skill.md",
    lambda request, _context: f"# Ticket {request.params['id']}\n\nWhat to know about it.\n",
)
client.expose_prompt(
    "/greet/prompt.md",
    lambda request, _context: {
        "messages": [{"role": "user", "content": f"Greet {request.queries['who']}."}]
    },
    description="Greet somebody.",
    input_schema={"properties": {"who": {"description": "Whom"}}, "required": ["who"]},
)


async def main():
    await client.connect()
    await client.register()
    print("desk is here", flush=True)
    # What it exposes is there for as long as it is.
    await asyncio.Event().wait()


asyncio.run(main())
