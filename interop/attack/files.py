"""Attacks 01 and 07: hostile registries, folders and bundles that write to disk."""

import io
import os
import shutil
import tarfile
import threading
from pathlib import Path

from .client import Worker
from .registry import HostileRegistry, bundle_registry, contract_registry

DOCUMENT = "---\nname: {name}\ndescription: Text.\n---\n\n# A\n\nText.\n"
SECRET = "the-secret-of-somebody-else"
ADD_RACES = 30

# Names equal to `.git` on some file system, names that Windows refuses, and lookalike names.
FORBIDDEN_NAMES = [
    ".git/config", ".GIT/config", "a/.git/hooks/pre-commit", ".git./config", ".git /config", "git~1/config", "GIT~1/config",
    ".g\u200cit/config", "\uff0egit/config", ".g\u0131t/x\u202ec.md", "CON", "con.txt", "a/nul.txt", "LPT1.md", "a:b", "SKILL.md:stream",
    "x\u202egpj.md", "x\u2066.md", "trailing.", "trailing ", "a" * 256,
]


def run(report, server):
    report.attack("01a", "sync of ids that lead outside", lambda check: sync_ids(check, server))
    report.attack("01b", "sync of file paths that lead outside", lambda check: sync_paths(check, server))
    report.attack("01c", "export of file paths that lead outside", lambda check: export_paths(check, server))
    report.attack("01d", "sync and export through links", lambda check: through_links(check, server))
    report.attack("01e", "add of a file that becomes a link", lambda check: add_race(check, server))
    report.attack("07a", "bundles with .git and names of devices", lambda check: bundle_names(check, server))
    report.attack("07b", "archive with .git", lambda check: archive_with_git(check, server))
    report.attack("07c", "sync and export of .git from a registry", lambda check: synced_git(check, server))


class Workspace:
    """A project in a home directory, with files that must not change."""

    def __init__(self, server):
        self.root = server.folder / f"place-{len(list(server.folder.iterdir()))}"
        self.home = self.root / "home"
        self.project = self.home / "work" / "project"
        self.project.mkdir(parents=True)
        (self.home / ".bashrc").write_text("mine\n")
        self.target = self.project / "skills"
        self.before = self.outside()

    def outside(self):
        """Returns every path outside the target folder with its content."""
        inside = str(self.target)
        return {str(path): path.read_bytes() if path.is_file() else b"" for path in sorted(self.root.rglob("*"))
                if not str(path).startswith(inside)}

    def changed(self):
        after = self.outside()
        return sorted({path for path in {*after, *self.before} if after.get(path) != self.before.get(path)})

    def inside(self):
        return sorted(str(path.relative_to(self.target)) for path in self.target.rglob("*")) if self.target.exists() else []

    def skills(self, server, *arguments):
        return server.command(*arguments, cwd=self.project, home=self.home)


def sync_ids(check, server):
    workspace = Workspace(server)
    ids = ["../../../../home/.ssh2", "../escaped", str(workspace.home / "absolute"), "a/../../up", "..", ".", "a/b",
           ".bashrc", "a\\..\\b", "\u2025/x", "a\0b", "good"]
    ids += [f"{'../' * depth}{workspace.home.name}/deep{depth}" for depth in range(1, 5)]
    with HostileRegistry(contract_registry(ids)) as registry:
        for arguments in [[], ["--force"]]:
            ran = workspace.skills(server, "--url", registry.url, "sync", str(workspace.target), *arguments)
            check.that("panicked" not in ran.stderr, "sync panicked")
    check.that(not workspace.changed(), f"written outside: {workspace.changed()[:3]}")
    check.that(not Path("/absolute").exists(), "written to /")
    odd = [path for path in workspace.inside() if not path.startswith(("good", ".skills-sync"))]
    check.that(not odd, f"ids that are none were written: {odd[:3]}")
    check.that("good/SKILL.md" in workspace.inside(), "the legal skill is missing")
    named = [name for name in ("../escaped", "a/b") if name in ran.stderr + ran.stdout]
    check.that(named, "dropped rows are not reported")


def hostile_paths(workspace):
    return ["../../../.ssh/authorized_keys", "../up.md", str(workspace.home / "absolute.md"), "a/../../../up2.md", "..",
            "a/./b.md", "a//b.md", "b\\..\\c.md", "nul\0x.md"]


def sync_paths(check, server):
    workspace = Workspace(server)
    files = {"SKILL.md": DOCUMENT.format(name="bad")} | {path: "owned" for path in hostile_paths(workspace)}
    good = {"SKILL.md": DOCUMENT.format(name="good"), "notes.md": "fine"}
    with HostileRegistry(bundle_registry({"bad": files, "good": good})) as registry:
        for arguments in [[], ["--force"]]:
            ran = workspace.skills(server, "--url", registry.url, "sync", str(workspace.target), *arguments)
            check.that("panicked" not in ran.stderr, "sync panicked")
    check.that(not workspace.changed(), f"written outside: {workspace.changed()[:3]}")
    check.that("good/SKILL.md" in workspace.inside(), f"the legal skill is missing: {ran.stderr[:200]}")
    odd = [path for path in workspace.inside() if ".." in path or "up" in path]
    check.that(not odd, f"written: {odd[:3]}")


def export_paths(check, server):
    workspace = Workspace(server)
    for path in hostile_paths(workspace):
        files = {"SKILL.md": DOCUMENT.format(name="bad"), path: "owned"}
        with HostileRegistry(bundle_registry({"bad": files})) as registry:
            ran = workspace.skills(server, "--url", registry.url, "export", "bad", str(workspace.target), "--force")
            check.that("panicked" not in ran.stderr, "export panicked")
            check.that(not workspace.changed(), f"{path!r} wrote {workspace.changed()[:2]}")
            shutil.rmtree(workspace.target, ignore_errors=True)


def through_links(check, server):
    workspace = Workspace(server)
    victim = workspace.home / "victim"
    victim.mkdir()
    workspace.target.mkdir()
    (workspace.target / "good").symlink_to(victim)
    workspace.before = workspace.outside()
    good = {"SKILL.md": DOCUMENT.format(name="good"), "deep/notes.md": "fine"}
    with HostileRegistry(bundle_registry({"good": good})) as registry:
        for arguments in [[], ["--force"]]:
            workspace.skills(server, "--url", registry.url, "sync", str(workspace.target), *arguments)
        check.that(not workspace.changed(), f"sync wrote through a link: {workspace.changed()[:2]}")
        exported = workspace.project / "exported"
        exported.mkdir()
        (exported / "deep").symlink_to(victim)
        workspace.skills(server, "--url", registry.url, "export", "good", str(exported), "--force")
        check.that(not list(victim.iterdir()), "export wrote through a link")


def add_race(check, server):
    """Replaces a file by a link while `add` runs: it is refused, or read as the original file."""
    workspace = Workspace(server)
    secret = workspace.home / "secret"
    secret.write_text(SECRET)
    bundle = workspace.project / "race"
    bundle.mkdir()
    (bundle / "SKILL.md").write_text(DOCUMENT.format(name="race"))
    # Many files between listing and opening widen the window.
    for number in range(200):
        (bundle / f"a{number:03}.md").write_text("x" * 2000)
    link, plain, name = bundle / "z-link.tmp", bundle / "z-plain.tmp", bundle / "z.md"
    stop = threading.Event()

    def exchange():
        while not stop.is_set():
            plain.write_text("plain")
            os.replace(plain, name)
            link.symlink_to(secret)
            os.replace(link, name)

    leaked = 0
    worker = Worker(server.bus)
    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        for _ in range(ADD_RACES):
            workspace.skills(server, "--url", server.bus, "add", str(bundle))
            result, _ = worker.call("skills::resources-read", {"uri": "iii://race/z.md"})
            leaked += SECRET in str(result)
    finally:
        stop.set()
        thread.join()
    check.that(leaked == 0, f"the link was followed in {leaked} of {ADD_RACES} runs")
    check.note(f"{ADD_RACES} runs")


def bundle_names(check, server):
    worker = Worker(server.bus)
    taken = [path for path in FORBIDDEN_NAMES if worker.register("names", "# A\n\nText.\n", {path: "x"}) is None]
    check.that(not taken, f"taken over the bus: {taken}")
    for number, path in enumerate(FORBIDDEN_NAMES[:8]):
        folder = Workspace(server).project / f"folder{number}"
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "SKILL.md").write_text(DOCUMENT.format(name=folder.name))
        (folder / path).write_text("x")
        Workspace(server).skills(server, "--url", server.bus, "add", str(folder))
        files, _ = worker.call("skills::files", {"id": folder.name})
        stored = [row["path"] for row in (files or {}).get("files", [])]
        check.that(path not in stored, f"add stored {path}")
    check.note(f"{len(FORBIDDEN_NAMES)} names")


def archive_with_git(check, server):
    workspace = Workspace(server)
    worker = Worker(server.bus)
    for number, path in enumerate([".git/config", ".Git/config", "git~1/config", "sub/.git/hooks/x"]):
        archive = workspace.project / f"arch{number}.tar.gz"
        with tarfile.open(archive, "w:gz") as out:
            for name, text in [("SKILL.md", DOCUMENT.format(name=f"arch{number}")), (path, "[core]\nfsmonitor = x\n")]:
                data = text.encode()
                info = tarfile.TarInfo(name)
                info.size = len(data)
                out.addfile(info, io.BytesIO(data))
        workspace.skills(server, "--url", server.bus, "add", str(archive))
        files, _ = worker.call("skills::files", {"id": f"arch{number}"})
        stored = [row["path"] for row in (files or {}).get("files", [])]
        check.that(not any("git" in one.lower() for one in stored), f"stored {stored}")


def synced_git(check, server):
    for path in [".git/config", ".GIT/config", "git~1/config", "nul.txt", ".g\u200cit/config"]:
        workspace = Workspace(server)
        files = {"SKILL.md": DOCUMENT.format(name="repo"), path: "[core]\nfsmonitor = touch /tmp/x\n", "fine.md": "x"}
        with HostileRegistry(bundle_registry({"repo": files})) as registry:
            workspace.skills(server, "--url", registry.url, "sync", str(workspace.target), "--force")
            workspace.skills(server, "--url", registry.url, "export", "repo", str(workspace.target / "out"), "--force")
        written = [one for one in workspace.inside() if one.endswith(path.rpartition("/")[2]) and one != "fine.md"]
        check.that(not written, f"written: {written}")
