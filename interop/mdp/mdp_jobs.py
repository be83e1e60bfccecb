"""The clients of the Model Drive Protocol: pairs of a name and what to run, for the driver.

A client connects, registers and prints `ready`; what it exposes is then read over plain HTTP, as any host would, and
driven by hosts on the SDKs of MCP.
"""

import json
import shutil
import time
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent

TOKEN = "of-the-drive-0123456789"
SECONDS = 30
MARKDOWN = "text/markdown; charset=utf-8"
REVIEW = "# Review\n\nReads a change and says what is wrong.\n\nDetails in files.\n"


def jobs(options, failure):
    hosts = list(mcp_hosts(options))
    python = [str(options.cache / f"mdp-python-{options.mdp_client}" / "bin" / "python"), str(HERE / "client.py")]
    yield f"mdp python client {options.mdp_client} ws", lambda bench: Run(bench, failure, "python", hosts).all(python, "ws")
    rust = [str(options.rust / "mdp-2-2")]
    yield "mdp rust client 2.2.0 http", lambda bench: Run(bench, failure, "rust", hosts).all(rust, "http")


def mcp_hosts(options):
    """Yields commands without client, profile, transport and target."""
    folder = options.cache / "mdp-node"
    # Node resolves packages relative to the file, so copy it beside them.
    shutil.copy(HERE / "host.mjs", folder)
    yield ["node", str(folder / "host.mjs")]
    yield [str(options.cache / f"mcp-python-mcp-{options.mcp_python}" / "bin" / "python"), str(HERE / "host.py")]


class Run:
    """One client against one server."""

    def __init__(self, bench, failure, client_id, hosts):
        self.bench = bench
        self.failure = failure
        self.client_id = client_id
        self.hosts = hosts

    def all(self, command, scheme):
        server, bus = self.bench.start_server(arguments=["--mdp-token", TOKEN])
        http = self.bench.http
        url = http.replace("http", scheme, 1)
        client = self.bench.start("client", [*command, url, TOKEN])
        client.wait_until(lambda: "ready\n" in client.stdout(), SECONDS, "ready line")
        self.reads()
        self.drives(bus)
        self.tell(client, "change")
        self.waits_for("/skills/{id}/later", 200)
        if scheme == "ws":
            self.waits_for("/skills/{id}/slow", 404)
            # The client notices the restart and reconnects on request.
            self.bench.stop_server(server)
            server, _ = self.bench.start_server(arguments=["--mdp-token", TOKEN], http=http.removeprefix("http://"))
            self.tell(client, "reconnect")
            self.waits_for("/skills/{id}/later", 200)
        self.tell(client, "leave")
        self.waits_for("/skills/{id}/later", 404)
        self.bench.stop_server(server)

    def reads(self):
        self.waits_for("/skills/{id}/workspace/review", 200)
        for path in [
            "/skills/{id}/workspace/review", "/{id}/skills/workspace/review",
            "/skills/{id}/workspace/review/skill.md", "/skills/{id}/workspace%2Freview",
        ]:
            self.check(path, self.get(path)[:2], (200, REVIEW))
        status, _, headers = self.get("/skills/{id}/workspace/review")
        self.check("the type of a skill", headers["content-type"], MARKDOWN)
        self.check("a known skill", self.get("/skills/{id}/workspace/review", {"If-None-Match": headers["etag"]})[0], 304)
        self.check("HEAD", self.get("/skills/{id}/workspace/review", method="HEAD")[:2], (200, ""))
        self.check("a deeper document", self.get("/skills/{id}/workspace/review/files")[1], "# Files\n\nOne by one.\n")
        self.check("the root", self.get("/skills/{id}")[1], "# Root\n")
        self.check("a prompt is no skill", self.get("/skills/{id}/ask/prompt.md")[0], 404)
        self.check("nothing there", self.get("/skills/{id}/nothing")[0], 404)
        self.check("malformed", self.get("/skills/{id}/%zz")[0], 400)
        if self.client_id == "python":
            self.reads_dynamic()

    def drives(self, bus):
        stdio = ["stdio", self.bench.server_binary, "mcp", "--url", bus]
        for host in self.hosts:
            for profile, target in [
                ("full", ["http", f"{self.bench.http}/mcp"]), ("mdp", ["http", f"{self.bench.http}/mcp/mdp"]),
                ("full", stdio), ("mdp", [*stdio, "--profile", "mdp"]),
            ]:
                ran = self.bench.run("host", [*host, self.client_id, profile, *target], SECONDS)
                self.bench.count(ran)

    def reads_dynamic(self):
        headers = {"X-Review-Scope": "all", "Authorization": "Bearer mine"}
        status, body, answered = self.get("/skills/{id}/goods/sku-7?q=a+b&q=c", headers)
        given = {"params": {"id": "sku-7"}, "queries": {"q": "c"}, "scope": "all", "authorization": None,
                 "method": "GET", "path": "/goods/sku-7/skill.md"}
        self.check("what a resolver is given", (status, json.loads(body)), (200, given))
        self.check("the type that it says", answered["content-type"], "application/json")
        self.check("the more special path", self.get("/skills/{id}/goods/special")[1], "# Special\n")
        status, body, answered = self.get("/skills/{id}/data")
        self.check("data", (status, json.loads(body)), (200, {"data": {"rows": [1, 2]}}))
        self.check("the type of data", answered["content-type"], "application/json; charset=utf-8")
        self.check("what takes its time", self.get("/skills/{id}/slow")[:2], (200, "# Slow\n"))
        status, body, _ = self.get("/skills/{id}/failing")
        error = {"code": "handler_error", "message": "on purpose"}
        self.check("what fails", (status, json.loads(body)), (502, {"error": error}))

    def get(self, path, headers=None, method="GET"):
        url = self.bench.http + path.replace("{id}", self.client_id)
        request = urllib.request.Request(url, headers=headers or {}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as response:
                return response.status, response.read().decode(), response.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(), error.headers

    def check(self, what, got, wanted):
        if got != wanted:
            raise self.failure(f"{what}: {got!r} instead of {wanted!r}")
        self.bench.checks += 1

    def waits_for(self, path, status):
        """Polls until a path has a status, because the server acknowledges no client message."""
        end = time.monotonic() + SECONDS
        while (got := self.get(path)[0]) != status and time.monotonic() < end:
            time.sleep(0.01)
        self.check(path, got, status)

    def tell(self, client, command):
        client.child.stdin.write(f"{command}\n".encode())
        client.child.stdin.flush()
        client.wait_until(lambda: f"{command}\n" in client.stdout(), SECONDS, f"end of {command!r}")
