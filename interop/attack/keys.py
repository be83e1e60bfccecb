"""Attacks 06 and key lifetimes: connections of a key end with it."""

import json
import time

from .client import LiveClient, Mcp, bearer, connect, head, http
from .http_loop import LoopClient
from .test_server import ADMIN_KEY

# One second, plus time for this client to notice on a busy machine.
ENDS_SECONDS = 1.0
NOTICE_SECONDS = 5.0
# Longer than it takes to open a connection.
TTL_SECONDS = 6

ENVIRONMENT = {"SKILLS_HTTP_TOKEN": "token-of-the-http-port-0123456789"}


def run(report, server):
    report.attack("06a", "revoked key of a live client", lambda check: revoked(check, server, live_socket))
    report.attack("06b", "revoked key of a live client over the HTTP loop", lambda check: loop(check, server))
    report.attack("06c", "revoked key of an MCP stream", lambda check: revoked(check, server, mcp_stream))
    report.attack("06d", "revoked key of subscriptions/listen", lambda check: revoked(check, server, listen_stream))
    report.attack("06e", "expired key of a live client", lambda check: expired(check, server, live_socket))
    report.attack("06f", "expired key of an MCP stream", lambda check: expired(check, server, mcp_stream))
    report.attack("12n", "key that lives longer than allowed", lambda check: long_life(check, server))


def admin(server, method, target, body=None):
    data = json.dumps(body).encode() if body is not None else None
    return http(server.http, method, target, [*bearer(ADMIN_KEY), ("Content-Type", "application/json")], data)


def create(server, uid, **options):
    response = admin(server, "POST", "/v1/admin/keys", {"user_uid": uid, "tier": "FREE", **options})
    assert response.status in (200, 201), response.body
    return response.json()


def live_socket(server, key):
    client = LiveClient(server.http, bearer(key))
    assert not client.refused, client.refused.status
    client.register("spy", [{"type": "skill", "path": "/x/skill.md"}])
    return client.socket.wait_closed


def stream(server, method, headers, body=None):
    """Opens an event stream; returns a function that tells whether it ends within a number of seconds."""
    connection = connect(server.http)
    connection.sendall(head(server.http, method, "/mcp", headers, body) + (body or b""))
    said = connection.recv(1 << 16)
    assert b" 200 " in said.split(b"\r\n")[0], said[:200]

    def is_closed(seconds):
        end = time.monotonic() + seconds
        try:
            while (left := end - time.monotonic()) > 0:
                connection.settimeout(left)
                said = connection.recv(1 << 16)
                # The last chunk ends the stream; the connection may stay open for another request.
                if not said or said.endswith(b"0\r\n\r\n"):
                    return True
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        return False

    return is_closed


def mcp_stream(server, key):
    mcp = Mcp(server.http, key)
    mcp.open()
    return stream(server, "GET", [*mcp.headers(), ("Accept", "text/event-stream")][1:])


def listen_stream(server, key):
    headers, body = Mcp(server.http, key).stateless("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    return stream(server, "POST", headers, body)


def revoked(check, server, connection):
    made = create(server, "ann")
    is_closed = connection(server, made["key"])
    check.that(not is_closed(0.3), "closed before the key was revoked")
    response = admin(server, "DELETE", f"/v1/admin/keys/{made['key_id']}")
    check.that(response.status == 200, f"revoking: {response.status}")
    started = time.monotonic()
    check.that(is_closed(ENDS_SECONDS + NOTICE_SECONDS), "still open after a second")
    check.note(f"closed after {time.monotonic() - started:.2f} s")


def expired(check, server, connection):
    made = create(server, "ann", ttl_seconds=TTL_SECONDS)
    born = time.monotonic()
    is_closed = connection(server, made["key"])
    check.that(not is_closed(0.5), "closed before the key expired")
    left = born + TTL_SECONDS + ENDS_SECONDS + NOTICE_SECONDS - time.monotonic()
    check.that(is_closed(left), "still open a second after its end")


def loop(check, server):
    made = create(server, "ann")
    client = LoopClient(server.http, credential=made["key"])
    check.that(client.session, f"connect: {client.status}")
    client.register("spy-loop", [{"type": "skill", "path": "/x/skill.md"}])
    admin(server, "DELETE", f"/v1/admin/keys/{made['key_id']}")
    end = time.monotonic() + ENDS_SECONDS + NOTICE_SECONDS
    while (status := client.poll().status) not in (401, 404) and time.monotonic() < end:
        time.sleep(0.1)
    check.that(status in (401, 404), f"poll: {status}")
    # The session itself has ended: its paths are not listed any more.
    token = bearer(ENVIRONMENT["SKILLS_HTTP_TOKEN"])
    while (status := http(server.http, "GET", "/skills/spy-loop/x", token).status) != 404 and time.monotonic() < end:
        time.sleep(0.1)
    check.that(status == 404, f"its skill: {status}")


def long_life(check, server):
    days = {}
    for name, refuses in [
        ("HTTP", lambda ttl: admin(server, "POST", "/v1/admin/keys",
                                   {"user_uid": "bob", "tier": "FREE", "ttl_seconds": ttl * 86_400}).status in (400, 422)),
        ("command line", lambda ttl: server.command("key", "create", "--uid", "bob", "--ttl", f"{ttl}d", "--data-dir",
                                                  str(server.data)).returncode != 0),
    ]:
        low, high = 1, 10_000_000
        check.that(refuses(high), f"{name}: a key of {high} days")
        while low < high - 1:
            middle = (low + high) // 2
            low, high = (low, middle) if refuses(middle) else (middle, high)
        days[name] = low
    check.that(len(set(days.values())) == 1, f"limits differ: {days}")
    check.note(f"{low} days")
