"""The nginx, Caddy and Compose examples of docs/scale.md: real proxies in front of three servers.

The examples run as printed, with other addresses and a certificate. Clients connect from loopback addresses of their own,
so that the proxies spread them over the servers.
"""

import contextlib
import http.server
import json
import os
import re
import shlex
import ssl
import subprocess
import threading

import yaml
from attack import client as plain
from attack.client import Gone, LiveClient, Mcp, http as request
from ports import free_port

from postgres.checks import run_checks
from postgres.server import wait_for
from postgres.servers import start_all, stop_all

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NAME = "skills.example.com"
NAMES = ("a:47372", "b:47372", "c:47372")
SOURCES = [f"127.2.0.{number}" for number in range(1, 13)]
SKILL = "skill://always/SKILL.md"


def example(language, words):
    """Returns the code block of docs/scale.md in a language that contains some words."""
    with open(os.path.join(ROOT, "docs", "scale.md")) as file:
        blocks = re.findall(rf"```{language}\n(.*?)```", file.read(), re.DOTALL)
    (block,) = [block for block in blocks if words in block]
    return block


def replace(text, old, new):
    assert old in text, f"the example has no {old!r}:\n{text}"
    return text.replace(old, new)


class Front:
    """A proxy as a process of its own."""

    def __init__(self, folder, command):
        self.log = os.path.join(folder, f"{command[0]}.log")
        environment = {**os.environ, "HOME": folder, "XDG_DATA_HOME": folder, "XDG_CONFIG_HOME": folder}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder)

    def stop(self):
        """Ends it. Caddy waits for open streams."""
        self.process.terminate()
        try:
            self.process.wait(3)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def create_certificate(folder):
    """Creates a certificate for the public name. Returns its file and that of its key."""
    certificate, key = os.path.join(folder, "certificate.pem"), os.path.join(folder, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
                    "2", "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}", "-keyout", key, "-out", certificate],
                   check=True, capture_output=True)
    return certificate, key


@contextlib.contextmanager
def tls_to(name, certificate):
    """Lets the clients of `attack.client` connect to `https://name:port`, which is this machine."""
    context = ssl.create_default_context(cafile=certificate)
    connect = plain.connect

    def connect_with_tls(url, source=None, seconds=plain.SECONDS):
        if not url.startswith(f"https://{name}:"):
            return connect(url, source, seconds)
        port = plain.split(url)[1]
        return context.wrap_socket(connect(f"http://127.0.0.1:{port}", source, seconds), server_hostname=name)

    plain.connect = connect_with_tls
    try:
        yield
    finally:
        plain.connect = connect


def start_nginx(folder, port, servers, certificate, key):
    text = example("nginx", "upstream")
    for name, server in zip(NAMES, servers, strict=True):
        text = replace(text, f"server {name};", f"server {server.http};")
    text = replace(text, "listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;")
    text = replace(text, f"/etc/ssl/{NAME}.pem", certificate)
    text = replace(text, f"/etc/ssl/{NAME}.key", key)
    account = "user root;" if os.geteuid() == 0 else ""
    temporary = " ".join(f"{kind}_temp_path {folder}/{kind};"
                         for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    path = os.path.join(folder, "nginx.conf")
    with open(path, "w") as file:
        file.write(f"{account} daemon off; worker_processes 2; pid {folder}/nginx.pid; events {{}}\n"
                   f"http {{ access_log off; {temporary}\n{text}\n}}\n")
    return Front(folder, ["nginx", "-e", "stderr", "-p", folder, "-c", path])


def start_caddy(folder, port, servers, certificate, key, unready):
    text = example("caddy", "reverse_proxy")
    for name, server in zip(NAMES, servers, strict=True):
        text = replace(text, f" {name}", f" {server.http}")
    # One more, which is not ready.
    text = replace(text, f" {servers[0].http}", f" {servers[0].http} {unready}")
    text = replace(text, f"{NAME} {{\n", f"https://{NAME}:{port} {{\n    bind 127.0.0.1\n    tls {certificate} {key}\n")
    path = os.path.join(folder, "Caddyfile")
    with open(path, "w") as file:
        file.write("{\n    admin off\n    auto_https disable_redirects\n}\n" + text)
    return Front(folder, ["caddy", "run", "--adapter", "caddyfile", "--config", path])


class Unready(http.server.ThreadingHTTPServer):
    """Server that is never ready, and remembers what it was asked."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self):
            self.server.asked.append((self.path, self.headers["Host"]))
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST = answer

        def log_message(self, *_):
            pass

    def __init__(self):
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.asked = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.server_port}"


class Session:
    """Session of MCP through a proxy, with a standing stream of notifications."""

    def __init__(self, url, source):
        self.mcp, self.updates, self.is_open = Mcp(url, source=source), 0, threading.Event()
        opened = self.mcp.open()
        assert opened.status == 200 and self.mcp.session, (source, opened.status, opened.body)

    def ask(self, method, params=None):
        answer = self.mcp.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}})
        assert answer.status == 200 and b'"error"' not in answer.body, (method, answer.status, answer.body)
        return answer.body

    def check(self):
        """Sends requests, each on a connection of its own. One that reaches another server is refused there."""
        for _ in range(5):
            self.ask("ping")
            assert b"There." in self.ask("resources/read", {"uri": SKILL})

    def server(self, servers):
        """Returns the server that has the session; no other one knows it."""
        message, having = {"jsonrpc": "2.0", "id": 1, "method": "ping"}, []
        for server in servers:
            direct = Mcp(f"http://{server.http}")
            direct.session = self.mcp.session
            answer = direct.post(message)
            assert answer.status in (200, 404), (answer.status, answer.body)
            having += [server] * (answer.status == 200)
        assert len(having) == 1, f"{len(having)} servers have the session"
        return having[0]

    def listen(self):
        """Opens the standing stream and reads it in a thread."""
        self.ask("resources/subscribe", {"uri": SKILL})
        headers = [("Accept", "text/event-stream"), *(pair for pair in self.mcp.headers() if pair[0] != "Accept")]
        self.stream = plain.connect(self.mcp.url, self.mcp.source, 60)
        self.stream.sendall(plain.head(self.mcp.url, "GET", "/mcp", headers))
        threading.Thread(target=self.read, daemon=True).start()
        assert self.is_open.wait(10), "the stream does not begin"

    def read(self):
        with contextlib.suppress(Gone, OSError), self.stream.makefile("rb") as lines:
            for line in lines:
                if line.startswith(b"HTTP/1.1 200"):
                    self.is_open.set()
                elif b"notifications/resources/updated" in line:
                    self.updates += 1


def check_proxy(url, servers, seconds):
    """Checks what docs/scale.md promises of a proxy in front of three servers. The proxy may need some seconds to notice
    that a server was killed."""
    wait_for("the proxy serves", lambda: request(url, "GET", "/readyz").json().get("status") == "ready", 20)
    refused = request(url, "GET", "/v1/skills", [("Host", "other.example")])
    assert b"always" not in refused.body, (refused.status, refused.body)

    sessions = [Session(url, source) for source in SOURCES]
    homes = [session.server(servers) for session in sessions]
    assert len(set(homes)) == len(servers), "the clients are not spread over the servers"
    for session in sessions:
        session.check()
        session.listen()
    # A change at one server reaches the streams of all.
    assert servers[0].worker().register("always", "# Always\n\nThere. Changed.") is None
    for session in sessions:
        wait_for("the notification arrives", lambda s=session: s.updates > 0, 10)

    # A WebSocket, and requests of the same client, which reach the server that it is connected to.
    lives = [LiveClient(url, source=source) for source in SOURCES[:4]]
    for number, (live, source) in enumerate(zip(lives, SOURCES)):
        assert not live.refused, live.refused
        live.register(f"live{number}", [{"type": "skill", "path": "/go/skill.md"}])
        listed = Mcp(url, source=source).tool("listClients", {})
        assert listed.status == 200 and f"live{number}".encode() in listed.body, listed.body

    # New requests go on when a server is killed, and sessions of the other servers too.
    dead = homes[0]
    dead.kill()
    alive = [server for server in servers if server is not dead]
    # The first client is one of the server that was killed.
    wait_for("requests go on", lambda: Mcp(url, source=SOURCES[0]).open().status == 200, seconds)
    for source in SOURCES:
        session = Session(url, source)
        session.check()
        session.server(alive)
        assert Mcp(url, source=source).read(SKILL).status == 200
        assert request(url, "GET", "/readyz", source=source).json()["status"] == "ready"
    for session, home in zip(sessions, homes):
        if home is not dead:
            session.check()


@contextlib.contextmanager
def three_servers(program, database, folder):
    servers = start_all(program, database, folder, config=f"allow_host: [{NAME}]\n")
    try:
        assert servers[0].worker().register("always", "# Always\n\nThere.") is None
        for server in servers:
            wait_for("the skill is everywhere", lambda s=server: Mcp(f"http://{s.http}").read(SKILL).status == 200)
        yield servers
    finally:
        stop_all(servers)


def run_behind(program, database, folder, start, seconds=0.01):
    certificate, key = create_certificate(folder)
    port = free_port()
    with three_servers(program, database, folder) as servers, tls_to(NAME, certificate):
        front = start(folder, port, servers, certificate, key)
        try:
            check_proxy(f"https://{NAME}:{port}", servers, seconds)
        except BaseException:
            with open(front.log) as log:
                print(*(line for line in log if '"info"' not in line), sep="")
            raise
        finally:
            front.stop()


def nginx_as_documented(program, database, folder):
    run_behind(program, database, folder, start_nginx)


def caddy_as_documented(program, database, folder):
    unready = Unready()
    try:
        # Up to 2.11.1 it repeats no request with a body (github.com/caddyserver/caddy/issues/7546) until it has checked again.
        run_behind(program, database, folder, lambda *options: start_caddy(*options, unready.address), seconds=3)
        hosts = {host for path, host in unready.asked if path == "/readyz"}
        assert hosts == {NAME}, f"Caddy checks servers as {hosts}, which they refuse"
        others = [path for path, _ in unready.asked if path != "/readyz"]
        assert not others, f"a server that is not ready got {others}"
    finally:
        unready.shutdown()


def compose_as_documented(program, database, folder):
    """Docker cannot be assumed, so the file is compared with the program, the Dockerfile and the Caddyfile."""
    compose, caddyfile = yaml.safe_load(example("yaml", "services:")), example("caddy", "reverse_proxy")
    services = compose["services"]
    said = subprocess.run([program, "serve", "--help"], check=True, text=True, capture_output=True).stdout
    said = " ".join(said.split())
    with open(os.path.join(ROOT, "Dockerfile")) as file:
        image = file.read()

    def has_health_check(service):
        return "healthcheck" in service or service["image"] == "skills" and "HEALTHCHECK" in image

    for name, service in services.items():
        assert service["restart"] == "unless-stopped", name
        needed = service.get("depends_on", {})
        for other in needed:
            assert other in services and has_health_check(services[other]), f"{other} has no health check"
        if isinstance(needed, dict):
            assert all(how == {"condition": "service_healthy"} for how in needed.values()), (name, needed)
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source.startswith("./") or source in compose["volumes"], volume

    servers = {name: service for name, service in services.items() if service["image"] == "skills"}
    assert [f"{name}:47372" for name in servers] == list(NAMES), servers
    database_settings = services["postgres"]["environment"]
    for service in servers.values():
        command = service["command"]
        assert command[0] == "serve" and all(word in said for word in command if word.startswith("--")), command
        assert command[command.index("--allow-host") + 1] == NAME and f"{NAME} {{" in caddyfile
        for variable in service["environment"]:
            assert f"[env: {variable}]" in said, f"{variable} is not in the help"
        user, password, name = (database_settings[f"POSTGRES_{field}"] for field in ("USER", "PASSWORD", "DB"))
        assert service["environment"]["SKILLS_STORE"] == f"postgres://{user}:{password}@postgres/{name}"
    # The addresses are those of the image, and it does not start on them without a token.
    assert "SKILLS_HTTP=0.0.0.0:47372" in image and "EXPOSE 47372 49134" in image
    assert set(services["proxy"]["depends_on"]) == set(servers)
    assert "./Caddyfile:/etc/caddy/Caddyfile" in services["proxy"]["volumes"]

    # The image's own check, with the settings of the service.
    server, = start_all(program, database, folder, count=1)
    try:
        (check,) = re.findall(r"HEALTHCHECK.*?CMD (\[.*?\])", image, re.DOTALL)
        check = [program, *json.loads(check)[1:]]
        check[-1] = f"ws://{server.bus}"
        environment = os.environ | {"SKILLS_STORE": database.url(), "III_TOKEN": "change-me-too-0123456789", "SKILLS_DATA_DIR": folder}
        done = subprocess.run(check, env=environment, text=True, capture_output=True, timeout=30)
        assert done.returncode == 0, (shlex.join(check), done.stderr)
    finally:
        server.kill()


if __name__ == "__main__":
    run_checks([nginx_as_documented, caddy_as_documented, compose_as_documented])
