"""Attacks 05: a configuration that cannot be read stops the server instead of opening it."""

import contextlib
import re
import subprocess
import time

from .client import http

TOKEN = "4711081500"

# Unusable security settings, and files that are not YAML.
UNUSABLE = {
    "number as http_token": f"http_token: {TOKEN}\n",
    "number as mdp token": f"mdp:\n  token: {TOKEN}\n",
    "list as http_token": f"http_token: [{TOKEN}]\n",
    "empty http_token": "http_token: \"\"\n",
    "tab": f"state_timeout_ms: 1000\n\thttp_token: \"{TOKEN}\"\n",
    "duplicate key": f"http_token: \"{TOKEN}\"\nhttp_token: \"other\"\n",
    "duplicate nested key": f"mdp:\n  token: \"{TOKEN}\"\n  token: \"other\"\n",
    "no YAML": f"http_token: \"{TOKEN}\n  : [\n",
    "no mapping": f"- http_token: \"{TOKEN}\"\n",
    "several documents": f"state_timeout_ms: 1000\n---\nhttp_token: \"{TOKEN}\"\n",
    "number as allow_host": "allow_host: 5\n",
    "origin that is none": "allow_origin: [5]\n",
    "unusable allow_upstream": "execution:\n  allow_upstream: 5\n",
    "unusable https_only": "execution:\n  https_only: maybe\n",
    "unusable sections": "sections: 5\n",
}
# Settings without influence on security remain warnings.
USABLE = {
    "unknown setting": "colour: blue\n",
    "unusable timeout": "state_timeout_ms: soon\n",
    "unusable scope": "scopes: 5\n",
    "empty file": "",
}


def run(report, server):
    report.attack("05a", "unusable security settings", lambda check: stops(check, server, ["serve"]))
    report.attack("05b", "the same attached to an engine", lambda check: stops(check, server, []))
    report.attack("05c", "configuration file that is missing", lambda check: missing(check, server))
    report.attack("05d", "other settings stay warnings", lambda check: warnings(check, server))


def start(server, arguments, seconds=60):
    """Runs `skills …` and returns exit status (None if it still runs after `seconds`) and stderr."""
    if arguments[0] == "serve":
        data = server.folder / f"config-{time.monotonic_ns()}"
        arguments = [*arguments, "--bus", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data-dir", str(data)]
    child = subprocess.Popen([server.binary, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, cwd=server.folder, env={"PATH": "/usr/bin:/bin"})
    try:
        _, said = child.communicate(timeout=seconds)
        return child.returncode, said
    except subprocess.TimeoutExpired:
        child.kill()
        return None, child.communicate()[1]


def stops(check, server, command):
    # Nothing listens there: attached mode reports configuration errors before it connects.
    attached = [] if command else ["--url", "ws://127.0.0.1:9"]
    for name, text in UNUSABLE.items():
        path = server.folder / "bad.yaml"
        path.write_text(text)
        status, said = start(server, [*command, *attached, "--config", str(path)])
        check.that(status == 1, f"{name}: " + ("runs" if status is None else f"exit {status}"))
        check.that(TOKEN not in said, f"{name}: the token is printed")
        if status == 1:
            check.that("hint:" in said, f"{name}: no hint")
            check.that(re.search(r"line \d+|:\d+:\d+|column \d+", said), f"{name}: no line and column")
    check.note(f"{len(UNUSABLE)} files")


def missing(check, server):
    for command in [["serve"], ["--url", "ws://127.0.0.1:9"]]:
        status, said = start(server, [*command, "--config", str(server.folder / "missing.yaml")])
        check.that(status == 1, f"{command[0]}: " + ("runs" if status is None else f"exit {status}"))
        check.that("hint:" in said and "missing.yaml" in said, f"{command[0]}: {said[:120]!r}")


def warnings(check, server):
    for name, text in USABLE.items():
        other = server.another(config=text)
        with contextlib.suppress(OSError):
            check.that(http(other.http, "GET", "/healthz").status == 200, f"{name}: does not serve")
        if text and name != "unusable scope":
            check.that("WARN" in other.log() or "warning" in other.log().lower(), f"{name}: no warning")
        other.stop()
