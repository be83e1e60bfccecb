"""MCP clients as pairs of a name and a job, for the driver."""

import shutil
from pathlib import Path

import bundles
import conformance

HERE = Path(__file__).resolve().parent
SHARED = ["expect.mjs", "session.mjs", "expectations.json"]

# The inspector starts a process for every request, on a busy machine a second each.
CLIENT_SECONDS = 180


def jobs(options, failure):
    worker = str(options.cache / f"python-{options.python[0]}" / "bin" / "python")
    node = str(options.cache / "mcp-node" / "node_modules" / "node" / "bin" / "node")
    yield from conformance_jobs(options, failure, worker, node)
    for name, command, eras in clients(options, node):
        for era in eras:
            for transport in ["stdio", "http"]:
                yield f"mcp {name} {transport} {era}", client_job(worker, command, transport, era)
    python = str(options.cache / f"mcp-python-fastmcp-{options.fastmcp}" / "bin" / "python")
    for transport in ["stdio", "http"]:
        yield f"mcp fastmcp {options.fastmcp} skill helpers {transport}", helper_job(python, transport)


def conformance_jobs(options, failure, worker, node):
    package = options.cache / "mcp-node" / "node_modules" / "@modelcontextprotocol" / "conformance"
    program = str(package / "dist" / "index.js")

    def job(run):
        def job(bench):
            server, bus = bench.start_server()
            start_worker(bench, worker, "worker_conformance.py", bus)
            bundles.add(bench, bus)
            run(conformance.Suite(bench, failure, node, program), f"{bench.http}/mcp")
            bench.stop_server(server)

        return job

    for revision in conformance.REVISIONS:
        yield f"mcp conformance {revision}", job(lambda suite, url, revision=revision: suite.revision(url, revision))
    yield "mcp conformance skills extension", job(lambda suite, url: suite.extension(url))


def clients(options, node):
    """Yields name, command without era, transport and target, and the supported eras of the protocol."""
    both = ["legacy", "modern"]
    for name, version in [("mcp", options.mcp_python), ("fastmcp", options.fastmcp)]:
        python = str(options.cache / f"mcp-python-{name}-{version}" / "bin" / "python")
        yield f"python {name} {version}", [python, str(HERE / "client.py"), name], both
    for name, program, version, eras in [
        ("sdk", "sdk.mjs", options.mcp_sdk, ["legacy"]),
        ("client", "sdk2.mjs", options.mcp_client, both),
    ]:
        yield f"node {name} {version}", [node, beside(options, program)], eras
    launcher = options.cache / "mcp-node/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    yield f"inspector {options.inspector}", [node, str(HERE / "inspector.mjs"), str(launcher)], both


def beside(options, program):
    """Copies a program beside its packages, because Node resolves them relative to the file."""
    for name in [program, *SHARED]:
        shutil.copy(HERE / name, options.cache / "mcp-node")
    return str(options.cache / "mcp-node" / program)


def client_job(worker, command, transport, era):
    def job(bench):
        server, bus = bench.start_server()
        start_worker(bench, worker, "worker_clients.py", bus)
        target = [f"{bench.http}/mcp"] if transport == "http" else [bench.server_binary, "mcp", "--url", bus]
        client = bench.start("client", [*command, era, transport, *target])
        client.finish(CLIENT_SECONDS)
        bench.count(client)
        bench.stop_server(server)

    return job


def helper_job(python, transport):
    """Returns the job of FastMCP's skill helpers."""
    def job(bench):
        server, bus = bench.start_server()
        folder = bundles.add(bench, bus)
        stdio = [bench.server_binary, "mcp", "--url", bus, "--profile", "skills"]
        target = [f"{bench.http}/mcp/skills"] if transport == "http" else stdio
        client = bench.start("client", [python, str(HERE / "fastmcp_skills.py"), str(folder), transport, *target])
        client.finish(CLIENT_SECONDS)
        bench.count(client)
        bench.stop_server(server)

    return job


def start_worker(bench, python, program, bus):
    worker = bench.start("worker", [python, str(HERE / program), bus])
    worker.wait_until(lambda: "ready\n" in worker.stdout(), 60, "ready line")
