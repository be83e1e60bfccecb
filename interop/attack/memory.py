"""Attacks 04: memory and CPU that clients without special rights can cause, one by one and all at once.

A single request may cost 64 MB and 250 ms of CPU, all of them together 512 MB above idle. CPU is counted in ticks of
10 ms and covers the whole process, so `CPU_TOLERANCE` is added for what the server does beside the request.
"""

import base64
import contextlib
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from .client import SECONDS, LiveClient, Mcp, Worker, connect, head, http
from .http_loop import LoopClient
from .measure import MB, Cost, Usage

REQUEST_BYTES = 64 * MB
REQUEST_CPU = 0.250
CPU_TOLERANCE = 0.030
TOTAL_BYTES = 512 * MB
GIVEN_BACK_BYTES = 128 * MB
GIVEN_BACK_SECONDS = 45

# A short answer timeout, so that calls end during the test.
CONFIG = "mdp:\n  timeouts:\n    answer_ms: 3000\n"

OTHER = "127.0.0.2"
BODY_BYTES = 4 << 20
FILE_BYTES = 8 << 20
LISTENS = 50
LOOP_CLIENTS = 64
LARGE_CLIENTS = 40
ARCHIVE_READERS = 60
DOCUMENT = "---\nname: {name}\ndescription: Text.\n---\n\n# A\n\nText.\n"

NESTED_BODIES = {
    "arrays in arrays": b"[" + b",".join([b"[0]"] * (BODY_BYTES // 4 - 2)) + b"]",
    "objects": b"[" + b",".join([b'{"a":0}'] * (BODY_BYTES // 8 - 2)) + b"]",
    "empty arrays": b"[" + b",".join([b"[]"] * (BODY_BYTES // 3 - 2)) + b"]",
    "arguments of a tool": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_skills","arguments":{"x":['
                           + b",".join([b"[0]"] * (BODY_BYTES // 4 - 100)) + b"]}}}",
    "depth": b"[" * (BODY_BYTES // 2) + b"]" * (BODY_BYTES // 2 - 2),
}


def run(report, server):
    # Each attack has its own server: memory left by one would hide the next.
    for number, name, attack in [
        ("04a", "mcp nested values", nested),
        ("04b", "callPaths to clients that never poll", never_polled),
        ("04c", "callPath with a nested answer", nested_answer),
        ("04d", "listClients with nested metadata", large_clients),
        ("04e", "read_skill of one file fifty times", fifty_times),
        ("04f", "subscriptions/listen", listens),
        ("04g", "archives that nobody reads", archives),
        ("04h", "everything at once", at_once),
    ]:
        other = server.another(config=CONFIG)
        report.attack(number, name, lambda check, attack=attack, other=other: attack(check, other, Usage(other.pid)))
        other.stop()


def register(server, *skills):
    worker = Worker(server.bus)
    large = base64.b64encode(os.urandom(FILE_BYTES * 3 // 4)).decode()
    random = {"base64": base64.b64encode(os.urandom(15 << 20)).decode()}
    files = {"large": {"large.md": large[:FILE_BYTES]}, "archive": {"random.bin": random}, "plain": None}
    for name in skills:
        error = worker.register(name, DOCUMENT.format(name=name), files[name])
        assert error is None, error
    worker.close()


def within_budget(check, name, cost):
    check.that(cost.bytes < REQUEST_BYTES, f"{name}: {cost}")
    check.that(cost.cpu < REQUEST_CPU + CPU_TOLERANCE, f"{name}: {cost}")


def refused_or_answered(check, name, response):
    check.that(response.status in (200, 400, 413, 503), f"{name}: {response.status}")
    if response.status == 503:
        check.that(response.header("retry-after"), f"{name}: 503 without Retry-After")


def nested(check, server, usage):
    mcp = Mcp(server.http)
    for name, body in NESTED_BODIES.items():
        with Cost(usage) as cost:
            response = mcp.post(body, [("MCP-Protocol-Version", "2025-11-25")])
        refused_or_answered(check, name, response)
        within_budget(check, name, cost)
        check.note(f"{name} {response.status} {cost}")


def endpoint(path):
    return {"type": "endpoint", "path": path, "method": "POST"}


def loop_clients(server, count):
    """Registers live clients over the HTTP loop that never poll."""
    made = []
    for number in range(count):
        client = LoopClient(server.http)
        if client.session and client.register(f"loop-{number}", [endpoint("/sink")]).status == 202:
            made.append(f"loop-{number}")
    return made


def call_paths(server, names, body):
    return Mcp(server.http).tool("callPaths", {"method": "POST", "path": "/sink", "body": body, "clientIds": names})


def never_polled(check, server, usage):
    names = loop_clients(server, LOOP_CLIENTS)
    check.that(len(names) == LOOP_CLIENTS, f"only {len(names)} clients registered")
    idle = usage.settle()
    for name, body in [("text", "x" * 400_000), ("nested values", [[0]] * 60_000), ("too large", "x" * 3_500_000)]:
        with Cost(usage) as cost:
            response = call_paths(server, names, body)
        refused_or_answered(check, name, response)
        within_budget(check, f"{name} to {len(names)} clients", cost)
    usage.reset_peak()
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda _: attempt(lambda: call_paths(server, names, [[0]] * 60_000)), range(10)))
    total, kept = usage.peak() - idle, usage.settle() - idle
    check.that(total < TOTAL_BYTES, f"ten calls at once: +{total / MB:.0f} MB")
    check.that(kept < REQUEST_BYTES, f"{kept / MB:.0f} MB kept after the calls ended")
    check.note(f"ten calls +{total / MB:.0f} MB, {max(kept, 0) / MB:.0f} MB kept")


def nested_client(server, name):
    """Connects a client that answers every call with 8 MB of numbers inside 120 arrays."""
    client = LiveClient(server.http)
    client.register(name, [endpoint("/nest"), {"type": "skill", "path": "/nest/skill.md"}])
    numbers = b",".join([b"0"] * (FILE_BYTES // 2 - 1000))
    data = b"[" * 120 + numbers + b"]" * 120

    def answer(call):
        return b'{"type":"callClientResult","requestId":"%s","ok":true,"data":%s}' % (call["requestId"].encode(), data)

    client.serve(answer)
    return client


def nested_answer(check, server, usage):
    client = nested_client(server, "nest")
    call = {"clientId": "nest", "method": "POST", "path": "/nest"}
    with Cost(usage) as cost:
        response = Mcp(server.http).tool("callPath", call)
    refused_or_answered(check, "callPath", response)
    within_budget(check, "callPath", cost)
    check.that(len(response.body) < FILE_BYTES * 2, f"an answer of {len(response.body)} bytes")
    with Cost(usage) as read:
        response = http(server.http, "GET", "/skills/nest/nest")
    check.that(response.status in (200, 413, 502, 503), f"skill: {response.status}")
    within_budget(check, "skill", read)
    check.note(cost)
    client.close()


def nested_metadata(server, count):
    """Connects live clients whose metadata is a megabyte of numbers inside 100 arrays."""
    metadata = None
    for level in range(100):
        metadata = [metadata] if level else [0] * 400_000
    clients = []
    for number in range(count):
        client = LiveClient(server.http)
        with contextlib.suppress(Exception):
            client.register(f"big-{number}", [endpoint("/x")], metadata={"x": metadata})
            clients.append(client)
    return clients


def large_clients(check, server, usage):
    idle = usage.settle()
    clients = nested_metadata(server, LARGE_CLIENTS)
    nested = len(clients)
    for number in range(LARGE_CLIENTS):
        client = LiveClient(server.http)
        client.register(f"flat-{number}", [endpoint("/x")], metadata={"x": "y" * 50_000})
        clients.append(client)
    for arguments in [{}, {"search": "flat"}]:
        with Cost(usage) as cost:
            response = Mcp(server.http).tool("listClients", arguments)
        refused_or_answered(check, "listClients", response)
        within_budget(check, "listClients", cost)
        check.that(len(response.body) < 4 << 20, f"an answer of {len(response.body)} bytes")
        check.that(response.status != 200 or b"flat-" in response.body, "nobody is listed")
    total = usage.resident() - idle
    check.that(total < TOTAL_BYTES, f"{len(clients)} clients take {total / MB:.0f} MB")
    check.note(f"{nested} nested clients taken, {len(clients)} in all take {total / MB:.0f} MB, {cost}")
    for client in clients:
        client.close()


def fifty_times(check, server, usage):
    register(server, "large")
    with Cost(usage) as cost:
        response = Mcp(server.http).tool("read_skill", {"uris": ["iii://large/large.md"] * 50})
    refused_or_answered(check, "read_skill", response)
    within_budget(check, "read_skill", cost)
    check.that(len(response.body) < 3 * FILE_BYTES, f"an answer of {len(response.body)} bytes")
    check.note(f"{response.status}, {cost}")


def open_listen(server, number):
    """Opens a stream with a thousand long URIs and leaves it unread."""
    uris = [f"iii://{'u' * 1900}{number}-{index}" for index in range(1000)]
    notifications = {"resourcesListChanged": True, "promptsListChanged": True, "toolsListChanged": True}
    params = {"notifications": notifications | {"resourceSubscriptions": uris}}
    headers, body = Mcp(server.http).stateless("subscriptions/listen", params)
    connection = connect(server.http)
    with contextlib.suppress(ConnectionError):
        connection.sendall(head(server.http, "POST", "/mcp", headers, body) + body)
        connection.recv(1 << 12)
    return connection


def listens(check, server, usage):
    idle = usage.settle()
    usage.reset_peak()
    opened = [open_listen(server, number) for number in range(LISTENS)]
    total = usage.peak() - idle
    check.that(total < TOTAL_BYTES, f"{LISTENS} streams: +{total / MB:.0f} MB")
    check.note(f"{LISTENS} streams +{total / MB:.0f} MB")
    for connection in opened:
        connection.close()
    check.that(usage.wait_resident(idle + GIVEN_BACK_BYTES, GIVEN_BACK_SECONDS), "memory is not given back")


def unread_archive(server):
    """Sends a request of about 72 bytes and leaves its answer unread."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(SECONDS)
    connection.connect((server.http.split("//")[1].split(":")[0], int(server.http.rsplit(":", 1)[1])))
    connection.sendall(head(server.http, "GET", "/.well-known/agent-skills/archive.tar.gz"))
    return connection


def archives(check, server, usage):
    register(server, "archive")
    first = http(server.http, "GET", "/.well-known/agent-skills/archive.tar.gz")
    check.that(first.status == 200, f"the archive: {first.status}")
    idle = usage.settle()
    usage.reset_peak()
    before = usage.cpu()
    opened = [unread_archive(server) for _ in range(ARCHIVE_READERS)]
    usage.settle()
    total, cpu = usage.peak() - idle, usage.cpu() - before
    check.that(total < 2 * REQUEST_BYTES, f"{ARCHIVE_READERS} readers: +{total / MB:.0f} MB")
    check.that(cpu < ARCHIVE_READERS * REQUEST_CPU / 5, f"packed anew: {cpu:.1f} s CPU")
    check.note(f"{ARCHIVE_READERS} readers +{total / MB:.0f} MB, {cpu * 1000:.0f} ms CPU")
    for connection in opened:
        connection.close()


def at_once(check, server, usage):
    register(server, "large", "archive", "plain")
    names = loop_clients(server, LOOP_CLIENTS)
    client = nested_client(server, "nest")
    large = nested_metadata(server, 5)
    idle = usage.settle()
    usage.reset_peak()
    mcp = Mcp(server.http)
    bodies = list(NESTED_BODIES.values())
    attacks = [lambda index=index: mcp.post(bodies[index % len(bodies)]) for index in range(32)]
    attacks += [lambda: call_paths(server, names, [[0]] * 60_000) for _ in range(6)]
    attacks += [lambda: mcp.tool("callPath", {"clientId": "nest", "method": "POST", "path": "/nest"}) for _ in range(6)]
    attacks += [lambda: mcp.tool("listClients", {}) for _ in range(6)]
    attacks += [lambda: mcp.tool("read_skill", {"uris": ["iii://large/large.md"] * 50}) for _ in range(6)]
    held = []
    attacks += [lambda index=index: held.append(open_listen(server, index)) for index in range(20)]
    attacks += [lambda: held.append(unread_archive(server)) for _ in range(ARCHIVE_READERS)]
    served = Others(server)
    with ThreadPoolExecutor(len(attacks)) as pool:
        answers = list(pool.map(lambda attack: attempt(attack), attacks))
    usage.settle()
    served.stop()
    total = usage.peak() - idle
    check.that(total < TOTAL_BYTES, f"+{total / MB:.0f} MB")
    odd = sorted({answer for answer in answers if answer not in (None, 200, 400, 413, 503)}, key=str)
    check.that(not odd, f"answers {odd}")
    check.that(served.count > 0 and not served.failures, f"others were not served: {served.failures[:3]}")
    for connection in held:
        connection.close()
    for one in [client, *large]:
        one.close()
    check.that(usage.wait_resident(idle + GIVEN_BACK_BYTES, GIVEN_BACK_SECONDS),
               f"{(usage.resident() - idle) / MB:.0f} MB are not given back")
    check.note(f"{len(attacks)} attacks +{total / MB:.0f} MB, {served.count} others served, "
               f"{max(usage.resident() - idle, 0) / MB:.0f} MB kept")


def attempt(attack):
    """Runs an attack and returns the status of its answer, if there is one."""
    try:
        return getattr(attack(), "status", None)
    except OSError as error:
        return str(error)


class Others:
    """Reader from another address that requests a page and the health check during the attack."""

    def __init__(self, server):
        self.server, self.count, self.failures = server, 0, []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.ask)
        self.thread.start()

    def ask(self):
        while not self.over.is_set():
            for target in ["/healthz", "/v1/skills/plain"]:
                try:
                    status = http(self.server.http, "GET", target, source=OTHER).status
                except OSError as error:
                    status = str(error)
                self.count += 1
                if status != 200:
                    self.failures.append(f"{target}: {status}")
            time.sleep(0.05)

    def stop(self):
        self.over.set()
        self.thread.join()
