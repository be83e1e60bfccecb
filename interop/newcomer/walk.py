"""Walks through the README from an empty home directory, on a pseudo-terminal, and compares every block of output.

    walk.py SKILLS_BINARY [PAGE]

Runs each command of each `console` block of the page in one shell, in order. A block shows commands after `$ ` and their
output. Ports are free ones of this machine; times and
secrets are not compared. `--record` prints the blocks as they are now.
The last line of standard output is `checks N`.
"""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "interop"))
from ports import free_port  # noqa: E402

SECONDS = 120
COLUMNS, LINES = 100, 40
BUS, HTTP = "49134", "47372"
MARK = "\x01end of output\x01"

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[=>]")
SECRET = re.compile(r"(/ui/link/)([0-9a-f]{64}|…)")
TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?( ?(Z|UTC|[+-]\d\d:?\d\d))?")


def blocks(page):
    """Yields commands with their expected output."""
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        command, output = None, []
        for line in block.splitlines():
            if line.startswith("$ "):
                if command is not None:
                    yield command, output
                command, output = line[2:], []
            else:
                output.append(line)
        yield command, output


class Terminal:
    """A shell on a pseudo-terminal, in an empty home directory."""

    def __init__(self, binary, home):
        programs = home / "bin"
        programs.mkdir()
        shutil.copy(binary, programs / "skills")
        work = home / "work"
        work.mkdir()
        self.ports = {BUS: str(free_port()), HTTP: str(free_port())}
        environment = {
            "HOME": str(home), "PATH": f"{programs}:/usr/bin:/bin", "TERM": "xterm", "LANG": "C.UTF-8", "PS1": "",
            "COLUMNS": str(COLUMNS), "LINES": str(LINES), "SKILLS_BUS": f"127.0.0.1:{self.ports[BUS]}",
            "SKILLS_HTTP": f"127.0.0.1:{self.ports[HTTP]}", "III_URL": "",
            # The default, named: otherwise a bus of another test at the default address is used.
            "SKILLS_DATA_DIR": str(home / ".local/share/skills"),
        }
        main, side = pty.openpty()
        self.main = main
        # Without job control, which would report the end of the server.
        self.shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"], stdin=subprocess.PIPE, stdout=side, stderr=side, cwd=work,
            env=environment, start_new_session=True,
        )
        os.close(side)

    def local(self, text):
        for known, used in self.ports.items():
            text = text.replace(known, used)
        return text

    def run(self, command):
        """Runs a command and returns the lines of its output. A server in the background is waited for."""
        line = self.local(command)
        if line.startswith("skills serve"):
            # From here on commands use this server.
            wait = f"until curl -sf http://127.0.0.1:{self.ports[HTTP]}/readyz > /dev/null; do sleep 0.1; done"
            line = f"{line} {wait}; export III_URL=ws://127.0.0.1:{self.ports[BUS]}"
        self.shell.stdin.write(f"{line}\nprintf '{MARK}'\n".encode())
        self.shell.stdin.flush()
        text, end = "", time.monotonic() + SECONDS
        while MARK not in text:
            if time.monotonic() > end:
                raise AssertionError(f"{command}: not done after {SECONDS} s: {text}")
            if select.select([self.main], [], [], 1)[0]:
                text += os.read(self.main, 65536).decode(errors="replace")
        text = ANSI.sub("", text.split(MARK)[0]).replace("\r", "")
        for known, used in self.ports.items():
            text = text.replace(used, known)
        return [line.rstrip() for line in text.rstrip().splitlines()]

    def close(self):
        os.killpg(self.shell.pid, signal.SIGTERM)
        self.shell.wait()


def comparable(lines):
    # The width of a column depends on the times in it.
    lines = [re.sub(" +", " ", TIME.sub("TIME", SECRET.sub(r"\1SECRET", line))).rstrip() for line in lines]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def matches(got, shown):
    """A shown line `…` stands for any lines, and one that ends in `…` for any rest of the line."""
    got, shown = comparable(got), comparable(shown)
    while shown:
        line = shown.pop(0)
        if line.strip() == "…":
            return not shown or any(matches(got[at:], shown) for at in range(len(got) + 1))
        if not got:
            return False
        is_same = got[0].startswith(line[:-1]) if line.endswith("…") else got[0] == line
        if not is_same:
            return False
        got.pop(0)
    return not got


def main(binary, page="README.md"):
    is_recording = "--record" in sys.argv
    checks, started = 0, time.monotonic()
    with tempfile.TemporaryDirectory() as home:
        terminal = Terminal(binary, Path(home))
        try:
            for command, shown in blocks((ROOT / page).read_text()):
                got = terminal.run(command)
                if is_recording:
                    print(f"$ {command}", *got, sep="\n")
                elif not matches(got, shown):
                    sys.exit(f"{page}: $ {command}\nshows:\n" + "\n".join(shown) + "\nprints:\n" + "\n".join(got))
                checks += 1
        finally:
            terminal.close()
    print(f"{checks} commands in {time.monotonic() - started:.1f} s", file=sys.stderr)
    print(f"checks {checks}")


main(*[argument for argument in sys.argv[1:] if argument != "--record"])
