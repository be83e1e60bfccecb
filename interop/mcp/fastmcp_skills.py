"""The skill helpers of FastMCP, unmodified, against the profile `skills` of a running server.

    fastmcp_skills.py FOLDER http URL
    fastmcp_skills.py FOLDER stdio COMMAND...

FOLDER holds the skills that were added, each in a folder of its name. The last line of standard output is `checks N`.
"""

import asyncio
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

# The helpers are deprecated in favour of methods of the client, which are run too.
warnings.simplefilter("ignore")

from fastmcp import Client  # noqa: E402
from fastmcp.client.transports import StdioTransport  # noqa: E402
from fastmcp.utilities import skills  # noqa: E402


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Run:
    def __init__(self, client, folder):
        self.client, self.folder, self.checks = client, folder, 0

    def check(self, what, got, wanted):
        if got != wanted:
            raise AssertionError(f"{what}: {got!r} instead of {wanted!r}")
        self.checks += 1

    async def helpers(self, names):
        listed = await skills.list_skills(self.client)
        self.check("the skills", sorted(skill.name for skill in listed), names)
        self.check("a description", [skill.description for skill in listed if skill.name == "code-review"],
                   ["How to review a change."])
        for name in names:
            manifest = await skills.get_skill_manifest(self.client, name)
            sizes = {path: len(content) for path, content in files(self.folder / name).items()}
            self.check(f"the manifest of {name}", {file.path: file.size for file in manifest.files}, sizes)
        with tempfile.TemporaryDirectory() as target:
            await skills.sync_skills(self.client, target)
            for name in names:
                self.check(f"the files of {name}", files(Path(target) / name), files(self.folder / name))

    async def methods(self, names):
        """The methods of newer clients."""
        if not hasattr(self.client, "list_skill_resources"):
            return
        resources = await self.client.list_skill_resources()
        uris = sorted(str(resource.uri) for resource in resources)
        self.check("the resources", uris, [f"skill://{name}/SKILL.md" for name in names])
        for uri, name in zip(uris, names):
            skill = await self.client.read_skill(uri)
            with tempfile.TemporaryDirectory() as target:
                skill.to_directory(Path(target) / name)
                self.check(f"the files of {name}", files(Path(target) / name), files(self.folder / name))


async def main(folder, transport, *target):
    server = target[0] if transport == "http" else StdioTransport(target[0], list(target[1:]))
    folder = Path(folder)
    names = sorted(path.name for path in folder.iterdir())
    async with Client(server) as client:
        # Raised inside, it would be wrapped in an exception group.
        try:
            run = Run(client, folder)
            await run.helpers(names)
            await run.methods(names)
            return f"checks {run.checks}"
        except Exception:
            traceback.print_exc()
            return None


outcome = asyncio.run(main(*sys.argv[1:]))
sys.exit(1) if outcome is None else print(outcome)
