"""Attacks on the command line: terminal escapes, credentials for other servers, closed pipes."""

import json
import os
import pty
import select
import socket
import subprocess
import time

from ports import wait_until_free

from .client import LiveClient, Worker
from .registry import HostileRegistry, Refused, StrangersRegistry, content, contract_registry

ESCAPES = "\x1b]52;c;b3duZWQ=\x07\x1b]0;owned\x07\x1b[2J\x1b[H\x1b]8;;http://evil.example\x1b\\x\x1b]8;;\x1b\\\x9b31m\x90q\x9c\r\x08\x7f"
TEXT = f"# Title {ESCAPES}\n\nText {ESCAPES} more.\n"
CREDENTIALS = {"III_TOKEN": "token-for-my-own-bus-0123456789", "SKILLS_KEY": "us-key-of-mine-0123456789"}
DEFAULT_PORT = 49134
TERMINAL_SECONDS = 60


def run(report, server):
    report.attack("12a", "terminal escapes", lambda check: terminal(check, server))
    report.attack("12a2", "terminal escapes from a hostile registry", lambda check: hostile_terminal(check, server))
    report.attack("12d", "credentials for a foreign listener", lambda check: credentials(check, server))
    report.attack("12e", "credentials for a named address", lambda check: named(check, server))
    if os.geteuid() == 0:
        report.attack("12s", "registry of another user at the default address", lambda check: stranger(check, server))
        report.attack("12t", "data directory of another user", lambda check: planted(check, server))
    else:
        report.left_out("processes and files of another user (they need root)")
    report.attack("12u", "another registry of the same user at the default address", lambda check: project(check, server))
    report.attack("12j", "export --kv | head", lambda check: closed_pipe(check, server))
    report.attack("12q", "program in the source of a skill", lambda check: source_programs(check, server))
    report.attack("12r", "file and local network in the source of a skill", lambda check: source_files(check, server))


def on_terminal(server, *arguments, **env):
    """Runs `skills …` on a pseudo-terminal and returns its output."""
    leader, follower = pty.openpty()
    environment = {"PATH": os.environ["PATH"], "HOME": str(server.folder), "TERM": "xterm", **env}
    child = subprocess.Popen([server.binary, *arguments], stdin=follower, stdout=follower, stderr=follower,
                             cwd=server.folder, env=environment)
    os.close(follower)
    said = b""
    end = time.monotonic() + TERMINAL_SECONDS
    try:
        while time.monotonic() < end:
            if select.select([leader], [], [], 0.1)[0]:
                said += os.read(leader, 1 << 16)
            elif child.poll() is not None:
                break
    except OSError:
        # The terminal closes when the last process that holds it ends.
        pass
    finally:
        child.kill()
        child.wait()
        os.close(leader)
    return said


def is_neutral(check, name, said):
    """Checks for control sequences: colours are allowed; moving, renaming, copying and clearing are not."""
    text = said.decode(errors="replace")
    for escape, what in [("\x1b]", "OSC"), ("\x1b[2J", "clear"), ("\x1b[H", "cursor"), ("\x07", "bell"), ("\x9b", "C1 CSI"),
                         ("\x90", "DCS"), ("\x08", "backspace"), ("\x1bP", "DCS"), ("\x7f", "delete")]:
        check.that(escape not in text, f"{name}: {what}")
    check.that("\r" not in text.replace("\r\n", ""), f"{name}: carriage return")


def terminal(check, server):
    worker = Worker(server.bus)
    check.that(worker.register("escape", TEXT, {"notes.md": TEXT}) is None, "cannot be registered")
    worker.serve("esc::say", lambda _: {"content": TEXT})
    worker.call("prompts::register", {"name": "escape", "description": f"Says {ESCAPES}", "function_id": "esc::say"})
    client = LiveClient(server.http)
    client.register("esc", [{"type": "skill", "path": "/x/skill.md", "description": f"Live {ESCAPES}"}])
    client.serve(lambda call: {"type": "callClientResult", "requestId": call["requestId"], "ok": False,
                               "error": {"code": "handler_error", "message": ESCAPES}})
    url = ["--url", server.bus]
    for arguments in [["show", "escape"], ["read", "iii://escape"], ["read", "iii://escape/notes.md"], ["read", "iii://x/esc::say"],
                      ["prompt", "get", "escape"], ["prompt", "list"], ["list"], ["search", "Title"], ["read", "iii://skills"],
                      ["read", "iii://esc/x/skill.md"], ["read", f"iii://{ESCAPES}"], ["show", ESCAPES.strip()]]:
        said = on_terminal(server, *url, *arguments)
        check.that(said, f"{arguments[0]}: no output")
        is_neutral(check, " ".join(arguments[:2])[:24], said)
    raw = server.command(*url, "read", "iii://escape")
    check.that(raw.stdout.startswith("# Title \x1b]52"), "a pipe does not get the bytes as they are")
    client.close()


def hostile_terminal(check, server):
    def fail(_):
        raise Refused(f"code{ESCAPES}", f"message {ESCAPES}")

    functions = contract_registry(["fine"], TEXT)
    failing = {name: fail for name in functions}
    for name, table in [("answers", functions | {"prompts::mcp-get": lambda _: {"description": ESCAPES, "messages": [
            {"role": "user", "content": {"type": "text", "text": TEXT}}]}}), ("errors", failing)]:
        with HostileRegistry(table) as registry:
            for arguments in [["list"], ["show", "fine"], ["read", "iii://fine"], ["prompt", "get", "x"], ["sync", "out"]]:
                is_neutral(check, f"{name} of {arguments[0]}", on_terminal(server, "--url", registry.url, *arguments))


def leaked(registry):
    said = "\n".join(registry.heads) + str(registry.calls)
    return [name for name, value in CREDENTIALS.items() if value in said]


def credentials(check, server):
    """Another user's process on the default port gets no credentials, and the command says why."""
    wait_until_free(f"127.0.0.1:{DEFAULT_PORT}")
    try:
        registry = HostileRegistry(contract_registry(["fine"]) | {"skills::resources-read": lambda _: content("x")}, DEFAULT_PORT)
    except OSError as error:
        check.that(False, f"the attack could not be made: port {DEFAULT_PORT} cannot be listened on ({error})")
        return
    # Without a store of its own the command has only the default address.
    elsewhere = server.folder / "elsewhere"
    elsewhere.mkdir()
    with registry:
        ran = server.command("list", cwd=elsewhere, home=elsewhere, **CREDENTIALS)
        check.that(not leaked(registry), f"sent: {leaked(registry)}")
        check.that("III_TOKEN" in ran.stderr or "SKILLS_KEY" in ran.stderr, f"does not say why: {ran.stderr[:160]!r}")


def named(check, server):
    with HostileRegistry(contract_registry(["fine"])) as registry:
        server.command("--url", registry.url, "list", **CREDENTIALS)
        check.that("III_TOKEN" in leaked(registry), "the token is not sent to the address that was named")
    with HostileRegistry(contract_registry(["fine"])) as registry:
        server.command("list", III_URL=registry.url, **CREDENTIALS)
        check.that("III_TOKEN" in leaked(registry), "the token is not sent to III_URL")


def home_with(server, name, skill=None):
    """Makes a home directory, with a skill in its default data directory."""
    home = server.folder / name
    home.mkdir()
    if skill:
        add(server, home, skill)
    return home


def add(server, home, skill, cwd=None):
    path = home / f"{skill}.md"
    path.write_text(f"# {skill}\n\nText.\n")
    return server.command("add", str(path), cwd=cwd or home, home=home)


def stranger(check, server):
    """A listener of another user at the default address gets and gives nothing."""
    own, new = home_with(server, "own", "mine"), home_with(server, "new")
    asked = [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"}, {"jsonrpc": "2.0", "id": 2, "method": "resources/list"}]
    wait_until_free(f"127.0.0.1:{DEFAULT_PORT}")
    functions = contract_registry(["evil"]) | {"skills::register": lambda _: {"id": "x", "registered_at": "now"}}
    with StrangersRegistry(functions, DEFAULT_PORT) as registry:
        for arguments in [["list"], ["list", "--json"], ["sync", "out"]]:
            ran = server.command(*arguments, cwd=own, home=own)
            check.that(ran.returncode == 0 and "mine" in ran.stdout, f"own {arguments[0]}: {ran.stderr[:160]!r}")
            check.that("evil" not in ran.stdout, f"own {arguments[0]}: the stranger's skill")
        check.that(add(server, own, "second").returncode == 0, "own add fails")
        for arguments in [["list"], ["list", "--json"], ["sync", "out"], ["read", "iii://evil"]]:
            ran = server.command(*arguments, cwd=new, home=new)
            check.that(ran.returncode != 0 and "evil" not in ran.stdout, f"new {arguments[0]}: {ran.stdout[:160]!r}")
            check.that("another user" in ran.stderr and "--url" in ran.stderr, f"new {arguments[0]}: {ran.stderr[:200]!r}")
        ran = server.command("import", "--from-state", cwd=new, home=new)
        check.that("unproven_server" in ran.stderr or "another user" in ran.stderr, f"engine: {ran.stderr[:160]!r}")
        ran = add(server, new, "first")
        check.that(ran.returncode == 0 and "another user" in ran.stderr, f"new add: {ran.stderr[:160]!r}")
        check.that("first" in server.command("list", cwd=new, home=new).stdout, "the new store does not hold what was added")
        third = home_with(server, "third")
        text = "".join(json.dumps(message) + "\n" for message in asked)
        ran = server.command("mcp", cwd=third, home=third, input=text)
        check.that("iii://skills" in ran.stdout and "evil" not in ran.stdout, f"mcp: {ran.stdout[-200:]!r}")
        check.that("another user" in ran.stderr, f"mcp: {ran.stderr[:160]!r}")
        named = server.command("--url", f"ws://127.0.0.1:{DEFAULT_PORT}", "list", cwd=new, home=new)
        check.that("evil" in named.stdout, f"an address that was named: {named.stderr[:160]!r}")
    handshakes = len(registry.heads)
    check.that(handshakes == 1, f"{handshakes} handshakes reached it, 1 was to the named address")


def planted(check, server):
    """`./data` of another user is not chosen; one that is named is."""
    place, home = server.folder / "shared", home_with(server, "victim", "mine")
    place.mkdir()
    (place / "evil.md").write_text("# evil\n\nText.\n")
    server.command("--data-dir", "data", "add", "evil.md", cwd=place)
    for path in [place / "data", *(place / "data").iterdir()]:
        os.chown(path, StrangersRegistry.USER, StrangersRegistry.USER)
    ran = server.command("list", cwd=place, home=home)
    check.that("mine" in ran.stdout and "evil" not in ran.stdout, f"chosen: {ran.stdout[:160]!r}")
    check.that("another user" in ran.stderr and "--data-dir data" in ran.stderr, f"says {ran.stderr[:160]!r}")
    check.that("evil" in server.command("--data-dir", "data", "list", cwd=place, home=home).stdout, "cannot be named")
    (place / "data").rename(place / "elsewhere")
    (place / "data").symlink_to(home / ".local/share/skills")
    os.chown(place / "data", StrangersRegistry.USER, StrangersRegistry.USER, follow_symlinks=False)
    ran = server.command("list", cwd=place, home=home)
    check.that("another user" in ran.stderr, f"a link of another user: {ran.stderr[:160]!r}")


def project(check, server):
    """A server of the same user is used only without an own store, and named on stderr."""
    own, new = home_with(server, "owner", "mine"), home_with(server, "fresh")
    wait_until_free(f"127.0.0.1:{DEFAULT_PORT}")
    with HostileRegistry(contract_registry(["project"]), DEFAULT_PORT) as registry:
        ran = server.command("list", cwd=own, home=own)
        check.that("mine" in ran.stdout and not ran.stderr, f"own: {ran.stdout[:120]!r} {ran.stderr[:120]!r}")
        check.that(not registry.heads, "the own store does not come first")
        ran = server.command("list", cwd=new, home=new)
        check.that("project" in ran.stdout, f"new: {ran.stderr[:160]!r}")
        check.that(ran.stderr.count("\n") == 1 and f"127.0.0.1:{DEFAULT_PORT}" in ran.stderr, f"new says {ran.stderr[:160]!r}")
        ran = server.command("list", "--json", cwd=new, home=new)
        check.that(json.loads(ran.stdout)["skills"][0]["id"] == "project", f"new as JSON: {ran.stdout[:160]!r}")
        check.that(json.loads(ran.stderr)["notice"]["kind"] == "registry", f"new as JSON says {ran.stderr[:160]!r}")


def closed_pipe(check, server):
    data = server.folder / "exported"
    for index in range(200):
        path = server.folder / f"s{index}.md"
        path.write_text(f"# S{index}\n\n" + "text " * 2000)
    server.command("--data-dir", str(data), "add", *[str(server.folder / f"s{index}.md") for index in range(200)])
    child = subprocess.Popen([server.binary, "--data-dir", str(data), "export", "--kv"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, cwd=server.folder)
    check.that(child.stdout.readline(), "no first line")
    child.stdout.close()
    said = child.stderr.read().decode(errors="replace")
    status = child.wait(TERMINAL_SECONDS)
    check.that(not said, f"said {said[:120]!r}")
    check.that(status in (0, -13, 141), f"exit {status}")


def update_from(server, source, **env):
    """Runs `update` in every form against a registry that names a source, and returns what was registered and said."""
    registered, said = [], ""
    row = {"id": "a", "bytes": 4, "registered_at": "2026-01-01T00:00:00.000000Z", "files": [], "source": source}
    functions = contract_registry(["a"]) | {
        "skills::capabilities": lambda _: {"functions": ["skills::catalog", "skills::files"]},
        "skills::catalog": lambda _: {"skills": [row], "next": None},
        "skills::register": lambda data: registered.append(data) or {"id": "a", "registered_at": row["registered_at"]},
    }
    with HostileRegistry(functions) as registry:
        for arguments in [["update"], ["update", "--yes"], ["update", "a", "--yes"]]:
            ran = server.command("--url", registry.url, *arguments, **env)
            said += ran.stdout + ran.stderr
    return registered, said


def source_programs(check, server):
    mark = server.folder / "started"
    for location in [f"ext::sh -c touch% {mark} x://y", f"ext::sh -c touch% {mark}", f"ssh://-oProxyCommand=touch {mark}/y",
                     f"git@-oProxyCommand=touch {mark}:y", f"--upload-pack=touch {mark}"]:
        update_from(server, {"kind": "git", "location": location})
        check.that(not mark.exists(), f"{location[:40]} started a program")
    worker = Worker(server.bus)
    _, error = worker.call("skills::register", {"id": "evil", "skill": "# E\n", "source": {
        "kind": "git", "location": f"ext::sh -c touch% {mark} x://y"}})
    check.that(error is not None, "a worker stores it")
    worker.close()


def source_files(check, server):
    secret = server.folder / "id_rsa"
    secret.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nsecret\n")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        port = listener.getsockname()[1]
        for source in [{"kind": "path", "location": str(secret)}, {"kind": "path", "location": str(server.folder)},
                       {"kind": "git", "location": f"file://{server.folder}"},
                       {"kind": "url", "location": f"http://127.0.0.1:{port}/a.zip"},
                       {"kind": "git", "location": f"https://127.0.0.1:{port}/a"}]:
            registered, said = update_from(server, source)
            check.that(not registered, f"{source['kind']} was uploaded")
            check.that("PRIVATE KEY" not in said, f"{source['kind']} was printed")
        try:
            listener.accept()
            check.that(False, "a local server was connected to")
        except TimeoutError:
            pass
