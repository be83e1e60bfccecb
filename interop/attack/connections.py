"""Attacks 08 and 09, and the limits of connections: one client cannot shut out the others."""

import contextlib
import time

from .client import SECONDS, Mcp, Response, WebSocket, Worker, connect, head, http, raw
from .keys import create

ATTACKER = "127.0.0.3"
OTHER = "127.0.0.2"
UNFINISHED = 520
SESSIONS = 1030
BODY_SECONDS = 90
# A request that waits for the unfinished ones takes ten seconds, the time that their bodies have.
SLOW_SECONDS = 8
BUS_CONNECTIONS = 9000
LOG_FRAMES = 5000
# Repeated faults are counted in one log line.
LOG_LINES = 40


def run(report, server):
    report.attack("08a", "520 unfinished bodies", lambda check: unfinished(check, server))
    report.attack("08b", "body that drips", lambda check: drip(check, server))
    report.attack("09", "1030 initialize calls", lambda check: sessions(check, server))
    report.attack("12b", "connections of the bus", lambda check: bus_connections(check, server))
    report.attack("12c", "log flood by frames and refused connections", lambda check: log_flood(check, server))
    report.attack("12c2", "log flood when files run out", lambda check: files_run_out(check, server))
    report.attack("12k", "overlong chunk extension", lambda check: chunk_extension(check, server))


def begin_body(server, target="/mcp"):
    connection = connect(server.http, ATTACKER)
    headers = [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream"),
               ("Content-Length", "100000")]
    connection.sendall(head(server.http, "POST", target, headers) + b"[")
    return connection


def unfinished(check, server):
    assert Worker(server.bus).register("plain", "# Plain\n\nText.\n") is None
    opened = [begin_body(server) for _ in range(UNFINISHED)]
    opened += [begin_body(server, target) for target in ["/v1/execute/x", "/mdp/http-loop/connect"] * 20]
    for source in [OTHER, ATTACKER]:
        for target in ["/healthz", "/v1/skills/plain", "/.well-known/skills/index.json"]:
            started = time.monotonic()
            response = http(server.http, "GET", target, source=source)
            check.that(response.status == 200, f"{target} from {source}: {response.status}")
            check.that(time.monotonic() - started < SLOW_SECONDS, f"{target} from {source}: slow")
    response = Mcp(server.http, source=OTHER).tool("list_skills", {})
    check.that(response.status == 200, f"POST /mcp from another address: {response.status}")
    for connection in opened:
        connection.close()


def drip(check, server):
    """Sends a body byte by byte; the server gives up long before it is complete."""
    connection = begin_body(server)
    started = time.monotonic()
    connection.settimeout(1)
    said = None
    while said is None and time.monotonic() - started < BODY_SECONDS:
        try:
            connection.sendall(b"0")
            said = connection.recv(1 << 12)
        except TimeoutError:
            continue
        except ConnectionError:
            said = b""
    seconds = time.monotonic() - started
    check.that(said is not None, f"still read after {BODY_SECONDS} s")
    check.note(f"{said.split(b' ')[1].decode() if said else 'closed'} after {seconds:.0f} s")
    connection.close()


def sessions(check, server):
    key = create(server, "ann")["key"]
    victims = {"user": Mcp(server.http, key, OTHER), "anonymous": Mcp(server.http, None, OTHER)}
    for victim in victims.values():
        check.that(victim.open().status == 200, "no session for the victim")
    attacker = Mcp(server.http, source=ATTACKER)
    refused = 0
    for _ in range(SESSIONS):
        attacker.session = None
        refused += attacker.open().status not in (200, 202)
    ping = {"jsonrpc": "2.0", "id": 9, "method": "ping"}
    for name, victim in victims.items():
        # Shares are per credential: clients without one share with the attacker unless their address differs.
        status = victim.post(ping).status
        if name == "user":
            check.that(status == 200, f"the session of a user was evicted: {status}")
        else:
            check.note(f"session of another anonymous client {'kept' if status == 200 else 'evicted'}")
    check.note(f"{refused} refused")


def bus_connections(check, server):
    """Checks the connection limit: existing connections stay, and a slot becomes free when one closes."""
    worker = Worker(server.bus)
    opened, refused = [], None
    try:
        while len(opened) < BUS_CONNECTIONS and refused is None:
            try:
                one = WebSocket.dial(server.bus, source=f"127.0.1.{len(opened) % 200 + 1}", seconds=2)
            except OSError as error:
                refused = str(error)
                break
            if isinstance(one, Response):
                refused = one.status
            else:
                opened.append(one)
        check.that(refused is not None, f"{len(opened)} connections and no limit")
        check.that(worker.call("skills::list")[1] is None, "a connected worker is not served")
    finally:
        for one in opened:
            one.close()
    check.note(f"{len(opened)} connections, then {refused}")
    end = time.monotonic() + SECONDS
    again = None
    while time.monotonic() < end and not isinstance(again, WebSocket):
        with contextlib.suppress(OSError):
            again = WebSocket.dial(server.bus, seconds=2)
        time.sleep(0.1)
    check.that(isinstance(again, WebSocket), "nobody can connect afterwards")


def log_flood(check, server):
    before = server.log().count("\n")
    worker = Worker(server.bus)
    with contextlib.suppress(OSError):
        for index in range(LOG_FRAMES):
            worker.socket.send(b'{"type":"invokefunction"' if index % 2 else b'{"type":"nonsense-%d"}' % index)
    for _ in range(200):
        with contextlib.suppress(Exception):
            WebSocket.dial(server.bus, headers=[("Origin", "https://evil.example")]).status
            connection = connect(server.bus)
            connection.sendall(b"GARBAGE\r\n\r\n")
            connection.close()
    Worker(server.bus).call("skills::list")
    grown = server.log().count("\n") - before
    check.that(grown < LOG_LINES, f"{grown} lines of log")
    check.note(f"{grown} lines of log for {LOG_FRAMES + 400} faults")


def files_run_out(check, server):
    """Opens more connections than the process has file descriptors."""
    other = server.another(limits="ulimit -n 200")
    before = other.log().count("\n")
    opened = []
    for _ in range(400):
        with contextlib.suppress(OSError):
            opened.append(connect(other.bus, seconds=1))
    time.sleep(2)
    grown = other.log().count("\n") - before
    check.that(grown < LOG_LINES, f"{grown} lines of log")
    for connection in opened:
        connection.close()
    check.that(Worker(other.bus).call("skills::list")[1] is None, "nobody is served afterwards")
    check.note(f"{grown} lines of log")


def chunk_extension(check, server):
    top = head(server.http, "POST", "/mcp", [("Transfer-Encoding", "chunked"), ("Content-Type", "application/json"),
                                           ("Accept", "application/json, text/event-stream"), ("Connection", "close")])
    body = b"2;" + b"x" * (1 << 20) + b"\r\n[]\r\n0\r\n\r\n"
    response = raw(server.http, top + body)
    check.that(response is not None and response.status == 400, f"{response and response.status}")
    small = raw(server.http, top + b"2;x=y\r\n[]\r\n0\r\n\r\n")
    check.that(small is not None and small.status != 500, "a short extension")
