"""The Python clients of MCP, unmodified, against a running server.

    client.py mcp|fastmcp legacy|modern http URL
    client.py mcp|fastmcp legacy|modern stdio COMMAND...

The last line of standard output is `checks N`. The first check that fails ends the run.
"""

import asyncio
import contextlib
import sys
import traceback

import expect
from mcp.client.subscriptions import listen
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceTemplateReference

DEADLINE = 20


class Session:
    """Operations of `expectations.json`. Results have the wire format."""

    def __init__(self, library, era, notifications):
        self.library, self.era, self.notifications = library, era, notifications
        self.cannot = {"list-skills": "the SDK has no calls for the skills extension"}

    def method(self, name):
        return getattr(self.library, name)

    async def list_resources(self):
        pages, resources = await self.pages("list_resources", "resources")
        return {"pages": pages, "resources": resources, "uris": [resource["uri"] for resource in resources]}

    async def list_templates(self):
        return {"resourceTemplates": (await self.pages("list_resource_templates", "resourceTemplates"))[1]}

    async def list_prompts(self):
        return {"prompts": (await self.pages("list_prompts", "prompts"))[1]}

    async def list_tools(self):
        tools = (await self.pages("list_tools", "tools"))[1]
        return {"tools": tools, "names": [tool["name"] for tool in tools]}

    async def pages(self, name, key):
        number, items, cursor = 0, [], None
        while number == 0 or cursor:
            page = wire(await self.method(name)(cursor=cursor))
            items += page[key]
            cursor, number = page.get("nextCursor"), number + 1
        return number, items

    async def read(self, uri):
        return await answer(self.method("read_resource")(uri))

    async def get_prompt(self, name, arguments):
        return await answer(self.method("get_prompt")(name, arguments))

    async def complete(self, template, argument, value):
        reference = ResourceTemplateReference(type="ref/resource", uri=template)
        return await answer(self.method("complete")(reference, {"name": argument, "value": value}))

    async def call_tool(self, name, arguments):
        return await answer(self.method("call_tool")(name, arguments))

    async def watch(self, change, until, uris=(), lists=()):
        async with self.watching(uris, lists):
            done = await self.call_tool("interop__change", change)
            if done.get("isError") or "error" in done:
                raise AssertionError(f"interop__change: {done}")
            async with asyncio.timeout(DEADLINE):
                while True:
                    seen = await self.notifications.get()
                    if seen["method"] == until["method"] and seen.get("params", {}).get("uri") == until.get("uri"):
                        return {"seen": True}

    @contextlib.asynccontextmanager
    async def watching(self, uris, lists):
        session = self.library.session
        if self.era == "legacy":
            for uri in uris:
                await session.subscribe_resource(uri)
            yield
            for uri in uris:
                await session.unsubscribe_resource(uri)
        else:
            changed = {f"{kind}_list_changed": True for kind in lists}
            async with listen(session, resource_subscriptions=list(uris), **changed):
                yield


class FastMCP(Session):
    """FastMCP's `…_mcp` calls return the wire format; the others unwrap it."""

    def __init__(self, library, era, notifications):
        super().__init__(library, era, notifications)
        modern_only = {"list-skills": "FastMCP has the skills extension only in the modern era"}
        self.cannot = modern_only if era == "legacy" else {}

    def method(self, name):
        return getattr(self.library, f"{name}_mcp")

    async def list_resources(self):
        gathered = [str(resource.uri) for resource in await self.library.list_resources()]
        result = await super().list_resources()
        if gathered != result["uris"]:
            raise AssertionError("FastMCP's own list_resources differs from the pages")
        return result

    async def list_skills(self):
        return {"skills": (await self.pages("list_skills", "skills"))[1]}


def wire(result):
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


async def answer(call):
    try:
        return wire(await call)
    except MCPError as error:
        return {"error": {"code": error.error.code, "message": error.error.message}}


def mcp_client(mode, transport, target, on_message):
    from mcp import Client, StdioServerParameters

    server = target[0] if transport == "http" else StdioServerParameters(command=target[0], args=target[1:])
    return Client(server, mode=mode, message_handler=on_message)


def fastmcp_client(mode, transport, target, on_message):
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
    from fastmcp.skills import SkillsClientExtension

    if transport == "http":
        server = StreamableHttpTransport(target[0])
    else:
        server = StdioTransport(target[0], target[1:], keep_alive=False)
    return Client(server, mode=mode, message_handler=on_message, extensions=[SkillsClientExtension()])


CLIENTS = {"mcp": (mcp_client, Session), "fastmcp": (fastmcp_client, FastMCP)}


async def main(name, era, transport, *target):
    notifications = asyncio.Queue()

    async def on_message(message):
        if not isinstance(message, Exception):
            notifications.put_nowait(wire(message))

    connect, session = CLIENTS[name]
    mode = "legacy" if era == "legacy" else "auto"
    async with connect(mode, transport, target, on_message) as library:
        negotiated = library.session.protocol_version
        if (negotiated == "2026-07-28") != (era == "modern"):
            raise AssertionError(f"negotiated {negotiated}, wanted the {era} era")
        # Raised inside, it would be wrapped in nested exception groups.
        try:
            return f"checks {await expect.run(session(library, era, notifications), era)}"
        except Exception:
            traceback.print_exc()
            return None


outcome = asyncio.run(main(*sys.argv[1:]))
sys.exit(1) if outcome is None else print(outcome)
