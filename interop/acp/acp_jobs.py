"""ACP clients as pairs of a name and a job, for the driver."""

import shutil
from pathlib import Path

HERE = Path(__file__).resolve().parent

CLIENT_SECONDS = 60


def jobs(options):
    # Node resolves packages relative to the file, so copy it beside them.
    client = shutil.copy(HERE / "client.mjs", options.cache / "acp-node")
    worker = [str(options.cache / f"python-{options.python[0]}" / "bin" / "python"), str(HERE / "worker.py")]
    for mode in ["default", "opt-in", "always"]:
        yield f"acp node sdk {options.acp_sdk} {mode}", client_job(client, worker, mode)


def client_job(client, worker, mode):
    def job(bench):
        server, bus = bench.start_server()
        content = bench.start("worker", [*worker, bus])
        content.wait_until(lambda: "ready\n" in content.stdout(), 60, "ready line")
        process = bench.start("client", ["node", client, bench.server_binary, bus, mode])
        process.finish(CLIENT_SECONDS)
        bench.count(process)
        bench.stop_server(server)

    return job
