"""Run every interoperability client, each against a server of its own.

A client of the bus is a program that takes a phase and a bus URL, and whose last line of output is `checks N`:

    write    on a fresh server: register, read back, watch the changes
    read     the server was stopped and started on the same data: what was written is there
    stay     the server is stopped and started, on the same port, while the client is connected

Clients of MCP are in `mcp/`, of ACP in `acp/`, of MDP in `mdp/`, of the gateway in `gateway/`, hostile ones in `attack/`,
the first use in `newcomer/`, the browser in `console/`, installers in `distribution/`.
`interop/run` installs and builds what this needs and then calls it.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

from ports import free_port, wait_until_free

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "mcp"), str(HERE / "acp"), str(HERE / "mdp"), str(HERE / "gateway"), str(HERE / "newcomer"), str(HERE / "console"), str(HERE / "distribution")]
EXAMPLES = HERE.parent / "examples"

RUST_CLIENTS = {"0.11.3": "sdk-0-11", "0.25.0": "sdk-0-25", "0.26.0-rc.4": "sdk-0-26"}

# These keep the SDK's default, a second connection for telemetry. The others disable it.
TELEMETRY = {("python", "0.25.0"), ("node", "0.22.1"), ("rust", "0.25.0")}
SCENARIO_TELEMETRY = TELEMETRY - {("node", "0.22.1")}

# The contract's own example connects to this address only.
EXAMPLE_BUS = "127.0.0.1:49134"

QUICKSTART_OUTPUT = [
    "iii://weather/weather::units\n\n# Units\n\nTemperatures are in °C, wind is in m/s.\n",
    "/forecast city=Lisbon\n\nDo I need an umbrella in Lisbon today?\n",
]

# Deadlines, not expectations: each of these takes a moment, unless the machine is busy with something else.
START_SECONDS = 60
STOP_SECONDS = 30
PHASE_SECONDS = 180
COMPARE_SECONDS = 300


class Failure(Exception):
    """An expectation that does not hold."""


class Process:
    """Child process whose output goes to files in `folder`."""

    def __init__(self, name, command, folder, env, cwd=None):
        self.name = name
        self.stdout_path = folder / f"{name}.stdout"
        self.stderr_path = folder / f"{name}.stderr"
        with self.stdout_path.open("wb") as stdout, self.stderr_path.open("wb") as stderr:
            self.child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=stdout, stderr=stderr, env=env, cwd=cwd
            )

    def stdout(self):
        return self.stdout_path.read_text(errors="replace")

    def stderr(self):
        return self.stderr_path.read_text(errors="replace")

    def wait_until(self, ready, seconds, what):
        """Returns the first truthy result of `ready`, unless the process ends or the time is up before."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if result := ready():
                return result
            if self.child.poll() is not None:
                raise Failure(f"{self.name} ended with status {self.child.returncode} before {what}")
            time.sleep(0.01)
        raise Failure(f"{self.name}: no {what} within {seconds} s")

    def finish(self, seconds):
        try:
            status = self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} did not end within {seconds} s") from None
        if status != 0:
            raise Failure(f"{self.name} ended with status {status}")

    def stop(self, how, seconds):
        self.child.send_signal(how)
        self.finish(seconds)

    def kill(self):
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()
        self.child.stdin.close()


class Bench:
    """One run: a scratch folder, the processes started in it, and the passed checks."""

    def __init__(self, server):
        self.server_binary = server
        self.folder = Path(tempfile.mkdtemp(prefix="interop-"))
        self.processes = []
        self.checks = 0
        self.left_out = Counter()
        self.http = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.kill()
        shutil.rmtree(self.folder)

    def start(self, name, command, telemetry=False, cwd=None, **env):
        if not telemetry:
            env["OTEL_ENABLED"] = "false"
        number = len(self.processes) + 1
        process = Process(f"{number}-{name}", command, self.folder, clean_environment() | env, cwd)
        self.processes.append(process)
        return process

    def start_server(self, bus="127.0.0.1:0", http="127.0.0.1:0", arguments=(), data="data", **env):
        """Starts a server and returns it with its bus URL. Servers of one bench share their data by default."""
        data = str(self.folder / data)
        command = [self.server_binary, "serve", "--bus", bus, "--http", http, "--data-dir", data, *arguments]
        server = self.start("server", command, **env)
        url = server.wait_until(lambda: address("ws", server.stderr()), START_SECONDS, "bus address")
        http = server.wait_until(lambda: address("http", server.stderr()), START_SECONDS, "HTTP address")
        server.wait_until(lambda: answers(f"{http}/readyz"), START_SECONDS, "answer on /readyz")
        self.http = http
        return server, url

    def stop_server(self, server):
        server.stop(signal.SIGTERM, STOP_SECONDS)
        if "panicked at" in server.stderr():
            raise Failure(f"{server.name} panicked")

    def run(self, name, command, seconds=PHASE_SECONDS, **options):
        process = self.start(name, command, **options)
        process.finish(seconds)
        return process

    def count(self, process):
        """Adds the checks that a client reports; reporting none is a failure."""
        match = re.search(r"^checks ([1-9]\d*)$", process.stdout(), re.MULTILINE)
        if not match:
            raise Failure(f"{process.name} reports no checks")
        self.checks += int(match[1])
        # Operations that a client's library lacks are reported, not counted.
        self.left_out.update(re.findall(r"^left out, (.+?): ", process.stdout(), re.MULTILINE))

    def output(self):
        parts = []
        for process in self.processes:
            for stream, text in [("stdout", process.stdout()), ("stderr", process.stderr())]:
                if text.strip():
                    parts.append(f"--- {process.name}, {stream}\n{text.rstrip()}")
        return "\n".join(parts)


def clean_environment():
    """Returns the environment without variables that would select another bus."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("III_")}
    # A failed check prints expected and actual values; a backtrace would bury them.
    return inherited | {"RUST_LIB_BACKTRACE": "0"}


def address(scheme, text):
    # The last line may not be complete.
    match = re.search(rf"\b{scheme}://\S+:\d+", text[:text.rfind("\n") + 1])
    return match and match[0]


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=1) as response:
            return response.status == 200
    except (urllib.error.URLError, OSError):
        return False


def scenario(bench, client, telemetry):
    """Writes, restarts, reads, then restarts under a connected client."""
    server, url = bench.start_server()
    bench.count(bench.run("write", [*client, "write", url], telemetry=telemetry))
    bench.stop_server(server)

    server, url = bench.start_server(bus=f"127.0.0.1:{free_port()}")
    bench.count(bench.run("read", [*client, "read", url], telemetry=telemetry))

    stayer = bench.start("stay", [*client, "stay", url], telemetry=telemetry)
    stayer.wait_until(lambda: "ready\n" in stayer.stdout(), PHASE_SECONDS, "ready line")
    bench.stop_server(server)
    server, _ = bench.start_server(bus=url.removeprefix("ws://"))
    stayer.child.stdin.write(b"restarted\n")
    stayer.child.stdin.flush()
    stayer.finish(PHASE_SECONDS)
    bench.count(stayer)
    bench.stop_server(server)


def contract_example(bench, example, client):
    """Runs the contract's own Rust example, unmodified; another worker checks what it publishes."""
    wait_until_free(EXAMPLE_BUS)
    server, url = bench.start_server(bus=EXAMPLE_BUS)
    worker = bench.start("example", [example])
    bench.count(bench.run("seed", [client, "seed", url]))
    worker.stop(signal.SIGINT, STOP_SECONDS)
    bench.stop_server(server)


def quickstart(bench, command, telemetry):
    server, url = bench.start_server()
    output = bench.run("quickstart", command, telemetry=telemetry, III_URL=url).stdout()
    for wanted in QUICKSTART_OUTPUT:
        if wanted not in output:
            raise Failure(f"the quickstart did not print:\n{wanted}")
        bench.checks += 1
    bench.stop_server(server)


def skills_ref(bench, python):
    """Compares verdicts on generated skills with those of the package skills-ref."""
    command = [python, str(HERE / "skills-ref" / "compare.py"), "--binary", bench.server_binary]
    bench.count(bench.run("skills-ref", command, seconds=COMPARE_SECONDS))


def copied(source, folder):
    """Copies a file beside the packages of a version, because Node resolves imports relative to the file."""
    return shutil.copy(source, folder)


def jobs(options):
    """Yields pairs of a name and a job."""
    if "iii" in options.groups:
        yield from iii_jobs(options)
    if "mcp" in options.groups:
        # Imported here, because it is in a folder with the files it copies.
        import jobs as mcp

        yield from mcp.jobs(options, Failure)
    if "acp" in options.groups:
        import acp_jobs

        yield from acp_jobs.jobs(options)
    if "mdp" in options.groups:
        import mdp_jobs

        yield from mdp_jobs.jobs(options, Failure)
    if "gateway" in options.groups:
        import gateway_jobs

        yield from gateway_jobs.jobs(options, Failure)
    if "console" in options.groups:
        import console_jobs

        yield from console_jobs.jobs(options, Failure)
    if "distribution" in options.groups:
        import clawhub_jobs
        import distribution_jobs
        import plugin_jobs

        for module in distribution_jobs, clawhub_jobs, plugin_jobs:
            yield from module.jobs(options, Failure)
    if "attack" in options.groups:
        from attack import jobs as attack_jobs

        yield from attack_jobs.jobs(options, Failure)
    if "newcomer" in options.groups:
        import newcomer_jobs

        yield from newcomer_jobs.jobs(options, Failure)
    if "skills-ref" in options.groups:
        python = str(options.cache / f"skills-ref-{options.skills_ref}" / "bin" / "python")
        yield f"skills-ref {options.skills_ref}", lambda bench: skills_ref(bench, python)


def iii_jobs(options):
    cache, rust = options.cache, options.rust
    for version in options.python:
        python = str(cache / f"python-{version}" / "bin" / "python")
        client, example = [python, str(HERE / "python" / "client.py")], [python, str(EXAMPLES / "quickstart.py")]
        yield from jobs_of("python", version, client, example)
    for version in options.node:
        folder = cache / f"node-{version}"
        client = ["node", copied(HERE / "node" / "client.mjs", folder)]
        example = ["node", copied(EXAMPLES / "quickstart.mjs", folder)]
        yield from jobs_of("node", version, client, example)
    for version, name in RUST_CLIENTS.items():
        example = [str(rust / "quickstart")] if version == "0.25.0" else None
        yield from jobs_of("rust", version, [str(rust / name)], example)
    seed = str(rust / "examples" / "seed")
    client = str(rust / RUST_CLIENTS["0.11.3"])
    yield "rust   iii-sdk 0.11.3 contract example", lambda bench: contract_example(bench, seed, client)


def jobs_of(language, version, client, example):
    name = f"{language:6} iii-sdk {version}"
    telemetry = (language, version) in SCENARIO_TELEMETRY
    yield name, lambda bench: scenario(bench, client, telemetry)
    if example:
        # As a reader runs it, with telemetry, on the version it names.
        telemetry_too = (language, version) in TELEMETRY
        yield f"{name} quickstart", lambda bench: quickstart(bench, example, telemetry_too)


def run(name, job, server):
    started = time.monotonic()
    with Bench(server) as bench:
        try:
            job(bench)
            verdict, details = "ok", ""
        except Failure as failure:
            verdict, details = "FAIL", f"{failure}\n{bench.output()}"
        seconds = time.monotonic() - started
        print(f"{verdict:4} {name:42} {bench.checks:4} checks {seconds:6.1f} s", flush=True)
        for reason, count in bench.left_out.items():
            print(f"     {count} left out: {reason}", flush=True)
        if details:
            print("     " + details.replace("\n", "\n     "), flush=True)
    return verdict == "ok"


def parse_arguments():
    parser = argparse.ArgumentParser(description="Run the interoperability clients.")
    parser.add_argument("--server", required=True, help="the server's binary")
    parser.add_argument("--cache", required=True, type=Path, help="where the Python and Node packages are")
    groups = ["iii", "mcp", "acp", "mdp", "gateway", "console", "distribution", "attack", "skills-ref", "newcomer"]
    parser.add_argument("--groups", nargs="+", required=True, choices=groups,
                        help="clients of the bus, of MCP, of ACP, of MDP, of the gateway, hostile ones, skills-ref, the README")
    parser.add_argument("--rust", type=Path, help="where the Rust clients are")
    parser.add_argument("--python", nargs="+", required=True, help="versions of the Python SDK")
    parser.add_argument("--node", nargs="+", required=True, help="versions of the Node SDK")
    parser.add_argument("--mcp-python", required=True, help="version of the Python package mcp")
    parser.add_argument("--fastmcp", required=True, help="version of the Python package fastmcp")
    parser.add_argument("--mcp-sdk", required=True, help="version of @modelcontextprotocol/sdk")
    parser.add_argument("--mcp-client", required=True, help="version of @modelcontextprotocol/client")
    parser.add_argument("--inspector", required=True, help="version of @modelcontextprotocol/inspector")
    parser.add_argument("--acp-sdk", required=True, help="version of @agentclientprotocol/sdk")
    parser.add_argument("--mdp-client", required=True, help="version of the Python package modeldriveprotocol-client")
    parser.add_argument("--skills-ref", required=True, help="version of the Python package skills-ref")
    parser.add_argument("--schemathesis", required=True, help="version of the Python package schemathesis")
    parser.add_argument("--npx-skills", required=True, help="version of the npm package skills")
    parser.add_argument("--npx-skills-22", required=True, help="version of it for Node 22")
    parser.add_argument("--codex", required=True, help="version of @openai/codex")
    parser.add_argument("--copilot", required=True, help="version of @github/copilot")
    parser.add_argument("--clawhub", required=True, help="version of the npm package clawhub")
    parser.add_argument("--gemini", required=True, help="version of @google/gemini-cli")
    parser.add_argument("--claude-code", required=True, help="version of @anthropic-ai/claude-code")
    parser.add_argument("--claude-code-22", required=True, help="version of it for Node 22")
    parser.add_argument("--only", nargs="*", default=[], help="words that a client's name must contain")
    return parser.parse_args()


def main():
    options = parse_arguments()
    every = list(jobs(options))
    chosen = [(name, job) for name, job in every if all(word in name for word in options.only)]
    passed = sum(run(name, job, options.server) for name, job in chosen)
    if len(chosen) < len(every):
        print(f"{len(every) - len(chosen)} left out by {' '.join(options.only)!r}")
    print(f"{passed} passed, {len(chosen) - passed} failed")
    return 0 if chosen and passed == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
