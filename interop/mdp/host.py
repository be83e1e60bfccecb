"""A host on the Python package mcp, unmodified, that drives a live client through the server.

    host.py CLIENT full|mdp http URL
    host.py CLIENT full|mdp stdio COMMAND...

The package holds whatever a tool gives against the schema that the tool declares, and fails if it does not fit. The
last line of standard output is `checks N`. The first check that fails ends the run.
"""

import asyncio
import sys
import traceback

from mcp import Client, StdioServerParameters

FOUR = ["listClients", "listPaths", "callPath", "callPaths"]
REVIEW = "# Review\n\nReads a change and says what is wrong.\n\nDetails in files.\n"


class Run:
    def __init__(self, host, client_id):
        self.host, self.client_id, self.checks = host, client_id, 0

    def check(self, what, got, wanted):
        if got != wanted:
            raise AssertionError(f"{what}: {got!r} instead of {wanted!r}")
        self.checks += 1

    async def call(self, name, **arguments):
        return (await self.host.call_tool(name, arguments)).model_dump(mode="json", by_alias=True, exclude_none=True)

    async def given(self, name, **arguments):
        return (await self.call(name, **arguments))["structuredContent"]

    async def tools(self, profile):
        names = [tool.name for tool in (await self.host.list_tools()).tools]
        if profile == "mdp":
            self.check("the tools of the profile", names, FOUR)
        clients = (await self.given("listClients"))["clients"]
        mine = next(client for client in clients if client["id"] == self.client_id)
        self.check("the client", mine["status"], "online")
        paths = await self.given("listPaths", clientId=self.client_id, depth=9)
        listed = [path["path"] for path in paths["paths"]]
        self.check("all paths", listed, [path["path"] for path in mine["paths"]])
        get = {"method": "GET", "path": "/workspace/review/skill.md"}
        answer = await self.given("callPath", clientId=self.client_id, **get)
        self.check("callPath", answer, {"ok": True, "data": REVIEW})
        results = (await self.given("callPaths", clientIds=[self.client_id, "nobody"], **get))["results"]
        self.check("callPaths", [result["ok"] for result in results], [True, False])
        missing = await self.call("callPath", clientId="nobody", **get)
        self.check("nobody there", missing["isError"], True)
        self.check("the words", missing["content"][0]["text"], 'Client "nobody" is not connected')

    async def content(self):
        read = await self.host.read_resource(f"iii://{self.client_id}/workspace/review/skill.md")
        self.check("a live skill", read.contents[0].text, REVIEW)
        prompt = await self.host.get_prompt(f"{self.client_id}-ask", {})
        self.check("a prompt", prompt.messages[0].content.text, "Ask about the review.")


async def main(client_id, profile, transport, *target):
    server = target[0] if transport == "http" else StdioServerParameters(command=target[0], args=list(target[1:]))
    async with Client(server) as host:
        # Raised inside, it would be wrapped in an exception group.
        try:
            run = Run(host, client_id)
            await run.tools(profile)
            if profile == "full":
                await run.content()
            return f"checks {run.checks}"
        except Exception:
            traceback.print_exc()
            return None


outcome = asyncio.run(main(*sys.argv[1:]))
sys.exit(1) if outcome is None else print(outcome)
