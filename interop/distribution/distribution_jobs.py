"""Installers of clients read the registry: git, `npx skills` and Claude Code, unmodified.

Debian's git clones, fetches and checks what it got; the others install a skill with the lines that their users type.
"""

import concurrent.futures
import json
import os
import shutil
import subprocess
from pathlib import Path

SECONDS = 180
NODE = Path(__file__).resolve().parent.parent / ".cache" / "distribution-node" / "node_modules" / "node" / "bin"

SKILL = """---
name: {name}
description: Does {name} for the tests of installers.
---

# {name}

{text}
"""


def jobs(options, failure):
    yield "distribution git", lambda bench: git_job(bench, failure)
    folder = options.cache / "distribution-node" / "node_modules" / ".bin"
    yield f"distribution npx skills {options.npx_skills_22}", lambda bench: npx_job(bench, folder, failure)
    yield f"distribution claude-code {options.claude_code_22}", lambda bench: claude_job(bench, folder, failure)


class Site:
    """A server with skills, and commands that are run against it."""

    def __init__(self, bench, failure, **env):
        self.bench, self.failure = bench, failure
        self.data = bench.folder / "data"
        self.server, _ = bench.start_server(**env)
        self.home = bench.folder / "home"
        self.home.mkdir(exist_ok=True)

    def env(self, **more):
        # Clients need a newer Node than Debian's, which a package brings.
        quiet = {"PATH": f"{NODE}:{os.environ['PATH']}", "DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1", "CI": "1", "GIT_TERMINAL_PROMPT": "0"}
        return os.environ | quiet | {"HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1"} | more

    def attempt(self, *command, cwd=None, **env):
        return subprocess.run([str(word) for word in command], cwd=cwd or self.bench.folder, env=self.env(**env),
                              capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL)

    def run(self, *command, cwd=None, **env):
        result = self.attempt(*command, cwd=cwd, **env)
        if result.returncode != 0:
            raise self.failure(f"{command} ended with {result.returncode}\n{result.stdout}\n{result.stderr}")
        return result.stdout

    def check(self, holds, what):
        if not holds:
            raise self.failure(what)
        self.bench.checks += 1

    def skills(self, *arguments):
        return self.run(self.bench.server_binary, *arguments, "--data-dir", self.data)

    def write(self, name, text):
        folder = self.bench.folder / "source" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "SKILL.md").write_text(SKILL.format(name=name, text=text))
        (folder / "scripts").mkdir(exist_ok=True)
        script = folder / "scripts" / "run.sh"
        script.write_text("#!/bin/sh\necho " + name + "\n")
        script.chmod(0o755)
        (folder / "data.bin").write_bytes(bytes(range(256)) * 2000)
        return folder

    def add(self, name, text, *arguments):
        folder = self.write(name, text)
        self.skills("add", folder, *arguments)
        return folder

    def key(self, uid):
        return json.loads(self.skills("key", "create", "--uid", uid, "--json"))["key"]


def same_files(site, folder, clone, has_modes=True):
    expected = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    found = sorted(path.relative_to(clone) for path in clone.rglob("*") if path.is_file())
    site.check(found == expected, f"{clone} has {found}, not {expected}")
    for path in expected:
        left, right = folder / path, clone / path
        site.check(left.read_bytes() == right.read_bytes(), f"{path} differs")
        if has_modes:
            site.check(os.access(left, os.X_OK) == os.access(right, os.X_OK), f"the mode of {path} differs")


def git_job(bench, failure):
    site = Site(bench, failure)
    url, folder = f"{bench.http}/git/all.git", bench.folder
    first = site.add("pdf", "One.")
    site.add("sheet", "One.")
    head = lambda clone: site.run("git", "rev-parse", "HEAD", cwd=folder / clone).strip()
    count = lambda clone: int(site.run("git", "rev-list", "--count", "HEAD", cwd=folder / clone))

    for version in "0", "1", "2":
        site.run("git", "-c", f"protocol.version={version}", "clone", url, f"v{version}")
        site.run("git", "fsck", "--strict", cwd=folder / f"v{version}")
        site.check(head(f"v{version}") == head("v0"), "the protocols disagree")
        same_files(site, first, folder / f"v{version}" / "skills" / "pdf")
    same_files(site, first, folder / "v2" / "dist" / "pdf" / "skills" / "pdf")
    commits = count("v2")

    for version in "0", "2":
        name = f"shallow{version}"
        site.run("git", "-c", f"protocol.version={version}", "clone", "--depth", "1", url, name)
        site.run("git", "fsck", "--strict", cwd=folder / name)
        site.check(count(name) == 1, "a shallow clone has one commit")

    site.add("pdf", "Two.")
    for name, version in ("v0", "0"), ("v1", "1"), ("v2", "2"), ("shallow0", "0"), ("shallow2", "2"):
        before = head(name)
        site.run("git", "-c", f"protocol.version={version}", "pull", "--ff-only", cwd=folder / name)
        site.check(head(name) != before, f"{name} got nothing new")
        site.run("git", "fsck", "--strict", cwd=folder / name)
    site.check(count("v2") == commits + 1, "a change is a commit")
    # Packs of the change alone: the binary file of the skill is not sent again.
    packs = sorted(path.stat().st_size for path in (folder / "v2" / ".git" / "objects").rglob("*") if path.is_file())
    loose = sum(path.stat().st_size for path in (folder / "v2" / ".git" / "objects").glob("??/*"))
    site.check(packs and loose < 10_000, f"the fetch brought {loose} bytes")
    for name, version in ("shallow0", "0"), ("shallow2", "2"):
        site.run("git", "-c", f"protocol.version={version}", "fetch", "--unshallow", cwd=folder / name)
        site.check(count(name) == commits + 1, "the whole history")
        site.run("git", "fsck", "--strict", cwd=folder / name)

    # Versions are tags, labels are branches, any commit is fetched by its id.
    site.skills("label", "pdf@1", "stable")
    remote = f"{bench.http}/git/skill/pdf.git"
    refs = dict(reversed(line.split("\t")) for line in site.run("git", "ls-remote", remote).splitlines())
    names = ["HEAD", "refs/heads/main", "refs/heads/stable", "refs/tags/v1", "refs/tags/v2"]
    site.check(sorted(refs) == names, f"the refs are {sorted(refs)}")
    site.run("git", "clone", "--depth", "1", "--branch", "v2", remote, "tagged")
    text = (folder / "tagged" / "skills" / "pdf" / "SKILL.md").read_text()
    site.check("Two." in text, "the tag has the text of its version")
    site.run("git", "init", "-q", "by-id")
    site.run("git", "fetch", "--depth", "1", url, site.run("git", "rev-parse", "HEAD~1", cwd=folder / "v2").strip(),
             cwd=folder / "by-id")
    site.run("git", "fsck", "--strict", cwd=folder / "by-id")

    # Clones at once share what is compressed, in packs of several depths.
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        def clone(number):
            depth = ["--depth", "1"] if number % 4 == 3 else []
            site.run("git", "clone", "--bare", *depth, url, f"at-once-{number}")
            return site.run("git", "fsck", "--strict", cwd=folder / f"at-once-{number}")
        site.check(len(list(pool.map(clone, range(16)))) == 16, "16 clones at once")

    views(site)
    refused_files(site, url)
    same_log(site, url)


def views(site):
    """A key sees its private skill in its clone, and no other caller does; a revoked key is refused."""
    bench, folder = site.bench, site.bench.folder
    ann, bob = site.key("ann"), site.key("bob")
    private = folder / "private"
    private.mkdir()
    (private / "SKILL.md").write_text(SKILL.format(name="secret", text="Private."))
    site.run(bench.server_binary, "add", private, "--tier", "private", "--data-dir", site.data, SKILLS_KEY=ann)
    address = bench.http.removeprefix("http://")
    for uid, key, has_it in ("ann", ann, True), ("bob", bob, False):
        site.run("git", "clone", f"http://x:{key}@{address}/git/mine.git", f"mine-{uid}")
        found = (folder / f"mine-{uid}" / "skills" / "secret").exists()
        site.check(found == has_it, f"the view of {uid}")
    anonymous = site.attempt("git", "ls-remote", f"{bench.http}/git/mine.git")
    site.check(anonymous.returncode != 0, "a key is needed")
    commit = site.run("git", "rev-parse", "HEAD", cwd=folder / "mine-ann").strip()
    stolen = site.attempt("git", "fetch", "origin", commit, cwd=folder / "mine-bob")
    site.check(stolen.returncode != 0 and "not our ref" in stolen.stderr, "a commit of another view")
    keys = json.loads(site.skills("key", "list", "--json"))
    keys = keys.get("keys", keys) if isinstance(keys, dict) else keys
    for entry in keys:
        if entry["uid"] == "ann":
            site.skills("key", "revoke", entry["id"])
    revoked = site.attempt("git", "fetch", cwd=folder / "mine-ann")
    site.check(revoked.returncode != 0, "a revoked key is refused")


# Names that git reads in every folder of a repository, on some file system, and names that look like them.
GIT_NAMES = [".gitattributes", ".gitmodules", ".GITMODULES", ".GitAttributes", "gitmod~1", "GITATT~4", "gi7eba~1", "GI7D29~9",
             "gi7e~123", "~1234567", ".git\u200cmodules", "\ufeff.gitattributes", ".gitmodules/inner",
             "gitmod~5", "gi7eba~12", "gitmodules", ".gitmodules.md", ".gitignore", ".mailmap"]
# Content that git refuses as either of them.
REFUSED = "[submodule \"../x\"]\n\turl = -u./payload\n* " + "x" * 3000 + "\n"


def refused_files(site, url):
    """Files that git refuses are in no tree: a checked clone, fetch or push of all skills succeeds."""
    folder = site.bench.folder
    skill = site.write("hostile", "One.")
    for number, name in enumerate(GIT_NAMES):
        path = skill / str(number) / name
        path.parent.mkdir(parents=True)
        path.write_text(REFUSED)
    site.skills("add", skill)
    checked = ["-c", "transfer.fsckObjects=true"]
    for options in ["--depth", "1"], ["-c", "protocol.version=0"], []:
        name = f"checked-{len(options)}-{options[-1] if options else ''}"
        site.run("git", *checked, "clone", *options, url, name)
        site.run("git", "fsck", "--strict", cwd=folder / name)
    site.run("git", *checked, "fetch", url, cwd=folder / "v2")
    site.run("git", "init", "-q", "--bare", "host")
    site.run("git", "config", "receive.fsckObjects", "true", cwd=folder / "host")
    site.run("git", "push", folder / "host", "HEAD:refs/heads/main", cwd=folder / name)
    # Each name by itself, as git judges it.
    clone = folder / name / "skills" / "hostile"
    for number, name in enumerate(GIT_NAMES):
        judge = folder / f"judge-{number}"
        site.run("git", "init", "-q", judge)
        blob = subprocess.run(["git", "hash-object", "-w", "--stdin"], cwd=judge, input=REFUSED, env=site.env(),
                              capture_output=True, text=True, check=True).stdout.strip()
        kind, inner = "blob", name
        if "/" in name:
            inner, leaf = name.split("/")
            blob = tree(site, judge, "blob", blob, leaf)
            kind = "tree"
        commit = site.run("git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit-tree", "-m", "x",
                          tree(site, judge, kind, blob, inner), cwd=judge).strip()
        site.run("git", "update-ref", "refs/heads/main", commit, cwd=judge)
        refused = site.attempt("git", "fsck", "--strict", cwd=judge).returncode != 0
        site.check(not (refused and (clone / str(number) / name).exists()), f"git refuses {name!r}, which is in the tree")
    # Those that mean nothing to git stay.
    kept = {name for number, name in enumerate(GIT_NAMES) if (clone / str(number) / name).exists()}
    site.check(kept == set(GIT_NAMES[-6:]), f"the tree has {kept}")


def tree(site, repository, kind, id, name):
    mode = {"blob": "100644", "tree": "040000"}[kind]
    entry = f"{mode} {kind} {id}\t{name}\0"
    return subprocess.run(["git", "mktree", "-z"], cwd=repository, input=entry, env=site.env(), capture_output=True, text=True,
                          check=True).stdout.strip()


def same_log(site, url):
    """A server on a copy of the data has the same commits."""
    bench = site.bench
    here = site.run("git", "ls-remote", url)
    bench.stop_server(site.server)
    shutil.copytree(site.data, bench.folder / "copy")
    server, _ = bench.start_server(data="copy")
    site.check(site.run("git", "ls-remote", f"{bench.http}/git/all.git") == here, "equal logs, equal ids")
    bench.stop_server(server)


def npx_job(bench, folder, failure):
    site = Site(bench, failure)
    source = site.add("pdf", "One.")
    site.add("sheet", "One.")
    for name, address in ("git", f"{bench.http}/git/all.git"), ("skill", f"{bench.http}/skill/pdf"), ("root", bench.http):
        project = bench.folder / f"project-{name}"
        project.mkdir()
        site.run(folder / "skills", "add", address, "--skill", "pdf", "--agent", "claude-code", "--yes", "--copy", cwd=project)
        installed = next(project.rglob("SKILL.md"), None)
        site.check(installed is not None, f"nothing is installed from {address}")
        site.check(installed.read_bytes() == (source / "SKILL.md").read_bytes(), f"{address}: another document")
        data = installed.parent / "data.bin"
        site.check(data.read_bytes() == (source / "data.bin").read_bytes(), f"{address}: another file")
    lockfiles(site, folder)
    bench.stop_server(site.server)


def lockfiles(site, folder):
    """Both programs read the lockfile of the other, and leave it as it is."""
    bench = site.bench
    source = site.write("sheet", "Two.")
    # Paths of more than 100 bytes, names whose order depends on the collation, and files that `npx skills` leaves out.
    long = Path("d" * 60, "e" * 60, "f.md")
    for path in long, Path("_a.md"), Path("A.md"), Path("a-b.md"), Path("metadata.json"), Path("__pycache__", "a.pyc"):
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_text(f"{path.name}\n")
    site.skills("add", source)
    own = lambda project, *words: site.run(bench.server_binary, *words, cwd=project, SKILLS_DATA_DIR=bench.folder / "none")
    npx = lambda project, *words: site.run(folder / "skills", *words, cwd=project)
    options = ["--skill", "sheet", "--agent", "claude-code", "--yes", "--copy"]
    for name, address in ("git", f"{bench.http}/git/all.git"), ("site", f"{bench.http}/skill/sheet"):
        project = bench.folder / f"lock-{name}"
        project.mkdir()
        npx(project, "add", address, *options)
        lock = project / "skills-lock.json"
        text, installed = lock.read_bytes(), project / ".claude" / "skills" / "sheet"
        site.check((installed / long).read_text() == "f.md\n", f"{name}: a long path was cut")
        site.check("0 outdated" in own(project, "outdated"), f"{name}: the hash of the source is another one")
        own(project, "install", "--frozen")
        own(project, "verify")
        own(project, "lock")
        site.check(lock.read_bytes() == text, f"{name}: the lockfile was changed")
        # Over discovery `npx skills` loses executable bits.
        same_files(site, source, installed, has_modes=name == "git")

        # A change is seen and installed by both.
        (source / "A.md").write_text(f"changed for {name}\n")
        site.skills("add", source)
        site.check("1 outdated" in own(project, "outdated"), f"{name}: the change is not seen")
        npx(project, "update", "--yes")
        site.check((installed / "A.md").read_text() == f"changed for {name}\n", f"{name}: npx did not update")
        site.check("0 outdated" in own(project, "outdated"), f"{name}: the lockfile is not the updated one")
        own(project, "install", "--frozen")
        (source / "A.md").write_text(f"changed again for {name}\n")
        site.skills("add", source)
        own(project, "update", "--yes")
        site.check((installed / "A.md").read_text() == f"changed again for {name}\n", f"{name}: update changed nothing")
        own(project, "verify")
        text = lock.read_bytes()
        npx(project, "update", "--yes")
        site.check(lock.read_bytes() == text, f"{name}: npx changes the lockfile after an update")
        digests(site, own, npx, project, name, address, source)


def digests(site, own, npx, project, name, address, source):
    """The digest of the lockfile survives `npx skills`, and differs where its hash is the same."""
    lock = project / "skills-lock.json"
    entry = lambda: json.loads(lock.read_text())["skills"]["sheet"]
    digest = entry()["bundleDigest"]
    other = address.replace("/skill/sheet", "/skill/pdf")
    npx(project, "add", other, "--skill", "pdf", "--agent", "claude-code", "--yes", "--copy")
    site.check(entry()["bundleDigest"] == digest, f"{name}: npx dropped the digest of an entry that it did not change")
    # A script split out of a text: the same content for npx, another for this program.
    whole, script = source / "split.md", source / "split.sh"
    for step in "whole", "split":
        whole.write_text("Read split.sh#!/bin/sh\n" if step == "whole" else "Read ")
        if step == "split":
            script.write_text("#!/bin/sh\n")
        site.skills("add", source)
        if step == "whole":
            own(project, "update", "--yes")
            hash = entry()["computedHash"]
    site.check("1 outdated" in own(project, "outdated", "sheet"), f"{name}: the split is not seen")
    # An update of npx may leave a link to the other folder.
    for folder in ".claude", ".agents":
        shutil.rmtree(project / folder, ignore_errors=True)
    (project / ".claude").mkdir()
    frozen = site.attempt(site.bench.server_binary, "install", "--frozen", cwd=project, SKILLS_DATA_DIR=site.bench.folder / "none")
    written = [path for path in project.rglob("split.sh")]
    site.check(frozen.returncode != 0 and not written, f"{name}: the split is installed: {frozen.stderr}")
    npx(project, "update", "--yes")
    site.check(entry()["computedHash"] == hash, f"{name}: npx sees the split")
    # An entry that npx writes anew has no digest until the next install.
    script.unlink()
    whole.write_text("Changed.\n")
    site.skills("add", source)
    npx(project, "update", "--yes")
    npx(project, "add", address, "--skill", "sheet", "--agent", "claude-code", "--yes", "--copy")
    site.check("bundleDigest" not in entry(), f"{name}: npx kept the digest of other content")
    verified = site.attempt(site.bench.server_binary, "verify", cwd=project, SKILLS_DATA_DIR=site.bench.folder / "none")
    site.check("hash of npx skills only" in verified.stderr, f"{name}: {verified.stderr}")
    own(project, "install")
    site.check("bundleDigest" in entry(), f"{name}: an install adds no digest")
    own(project, "verify")


def claude_job(bench, folder, failure):
    site = Site(bench, failure)
    source = site.add("pdf", "One.")
    claude = folder / "claude"
    remote = f"{bench.http}/git/all.git"
    site.run("git", "clone", remote, "clone")
    site.run(claude, "plugin", "validate", bench.folder / "clone")
    site.bench.checks += 1
    for address in remote, f"{bench.http}/.claude-plugin/marketplace.json":
        site.run(claude, "plugin", "marketplace", "add", address)
        site.run(claude, "plugin", "install", "pdf@skills")
        found = [path for path in Path(site.home, ".claude", "plugins", "cache").rglob("SKILL.md")]
        site.check(any(path.read_bytes() == (source / "SKILL.md").read_bytes() for path in found),
                   f"{address}: the skill is not in the cache of plugins")
        # A change reaches the client with a higher version.
        changed = site.add("pdf", f"Changed for {address}.")
        site.run(claude, "plugin", "marketplace", "update", "skills")
        site.run(claude, "plugin", "update", "pdf@skills")
        found = [path for path in Path(site.home, ".claude", "plugins", "cache").rglob("SKILL.md")]
        site.check(any(path.read_bytes() == (changed / "SKILL.md").read_bytes() for path in found),
                   f"{address}: the update is not installed")
        site.run(claude, "plugin", "uninstall", "pdf@skills")
        site.run(claude, "plugin", "marketplace", "remove", "skills")
        shutil.rmtree(Path(site.home, ".claude"), ignore_errors=True)
    bench.stop_server(site.server)
