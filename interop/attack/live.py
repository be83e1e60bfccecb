"""Attacks 11 and the limits of live clients before and after they show a token."""

import base64
import json

from .client import Gone, LiveClient, WebSocket, http
from .http_loop import LoopClient
from .measure import MB, Usage

TOKEN = "token-of-live-clients-0123456789"
UNREGISTERED_BYTES = 64 << 10

# Identity headers of proxies and identity systems, and this server's own.
IDENTITY = [
    "authorization", "cookie", "proxy-authorization", "x-forwarded-access-token", "x-forwarded-user", "x-forwarded-email",
    "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-forwarded-anything", "x-real-ip", "forwarded",
    "cf-access-jwt-assertion", "cf-access-client-secret", "x-goog-iap-jwt-assertion",
    "x-goog-authenticated-user-email", "x-amzn-oidc-data", "x-amzn-oidc-identity", "x-amzn-oidc-accesstoken",
    "x-auth-request-user", "x-auth-request-access-token", "x-auth-request-email", "x-vault-token", "x-ms-client-principal",
    "x-ms-token-aad-access-token", "api-key", "x-api-key", "x-authenticated-user", "x-csrf-token", "mcp-session-id",
    "x-mdp-session-id", "x-secret", "x-my-password", "x-access-token", "x-amz-security-token", "x-gitlab-token",
    "x-remote-user", "remote-user", "x-session-id", "x-functions-key", "x-master-key", "x-bearer", "x-tls-client-subject",
    "x-tls-client-verified", "x-user-groups", "x-user-roles", "x-user-name", "x-tenant-id", "x-hasura-user-id", "x-hasura-role",
    "x-oidc-sub", "x-saml-name-id", "x-claims", "x-subject-dn", "x-org-role", "x-groups",
]
PASSED_ON = {"accept": "text/markdown", "accept-language": "de", "x-review-scope": "all"}


def run(report, server):
    report.attack("11a", "identity headers to live clients", lambda check: headers(check, server))
    report.attack("11b", "mdp.forward_headers adds names", lambda check: forwarded(check, server))
    guarded = server.another(["--mdp-token", TOKEN])
    report.attack("12f", "messages before the token", lambda check: before_token(check, guarded))
    report.attack("12g", "token after the registration was parsed", lambda check: token_first(check, guarded))
    report.attack("12h", "cookie that holds the token", lambda check: cookie(check, guarded))


def collect(server, sent):
    client = LiveClient(server.http)
    client.register("ear", [{"type": "skill", "path": "/x/skill.md"}])
    calls = client.serve(lambda call: {"type": "callClientResult", "requestId": call["requestId"], "ok": True, "data": "x"})
    response = http(server.http, "GET", "/skills/ear/x", sent)
    client.close()
    return response, (calls[0].get("headers") or {}) if calls else {}


def headers(check, server):
    for name in IDENTITY:
        value = "Basic c2VjcmV0" if name in ("authorization", "proxy-authorization") else "credential-of-somebody"
        response, got = collect(server, [(name, value), *PASSED_ON.items()])
        if response.status != 200:
            # A credential that the guard refuses reaches no client.
            check.that(response.status in (400, 401), f"{name}: {response.status}")
            continue
        check.that(name not in {key.lower() for key in got}, f"{name} is passed on")
        check.that("credential-of-somebody" not in json.dumps(got), f"{name}: its value is passed on")
        for kept, value in PASSED_ON.items():
            check.that(got.get(kept) == value, f"{kept} is not passed on")
    check.note(f"{len(IDENTITY)} headers")


def forwarded(check, server):
    other = server.another(config="mdp:\n  forward_headers: [x-real-ip]\n")
    _, got = collect(other, [("X-Real-Ip", "10.0.0.1"), ("X-Vault-Token", "secret")])
    check.that(got.get("x-real-ip") == "10.0.0.1", "the named header is not passed on")
    check.that("x-vault-token" not in got, "another header is passed on")


def registration(size, auth=None):
    paths = [{"type": "skill", "path": "/x/skill.md", "description": "d" * size}]
    message = {"type": "registerClient", "client": {"id": "loud", "name": "loud", "paths": paths}}
    return message | ({"auth": auth} if auth else {})


def before_token(check, server):
    """Checks that at most 64 KiB are read from a client without a token."""
    client = LiveClient(server.http)
    try:
        client.socket.send(registration(UNREGISTERED_BYTES + 1000))
        client.socket.next(5)
        check.that(False, "a large message without a token was taken")
    except (Gone, OSError) as error:
        check.note(f"WebSocket closed: {error}")
    usage = Usage(server.pid)
    idle = usage.settle()
    sockets = []
    for _ in range(100):
        one = LiveClient(server.http)
        if not one.refused:
            # A frame that declares a megabyte and sends most of it.
            try:
                one.socket.connection.sendall(b"\x81\xff" + (1 << 20).to_bytes(8, "big") + b"\0\0\0\0" + b"x" * 900_000)
            except OSError:
                pass
            sockets.append(one)
    kept = usage.settle() - idle
    check.that(kept < 100 * UNREGISTERED_BYTES + 32 * MB, f"{kept / MB:.0f} MB for 100 clients without a token")
    for one in sockets:
        one.close()
    loop = LoopClient(server.http)
    if loop.session:
        response = loop.send(registration(UNREGISTERED_BYTES + 1000))
        check.that(response.status in (400, 401, 413), f"HTTP loop: {response.status}")


def token_first(check, server):
    """Checks that without the token an error reveals nothing about the registration."""
    for auth in [None, {"token": "wrong"}]:
        client = LiveClient(server.http)
        message = {"type": "registerClient", "client": {"id": 5, "paths": [{"type": "nonsense"}]}}
        try:
            client.socket.send(message | ({"auth": auth} if auth else {}))
            client.socket.next(5)
            check.that(False, "a registration without the token was answered")
        except Gone as gone:
            check.that(any(word in str(gone).lower() for word in ("token", "auth")), f"said {gone}")
    right = LiveClient(server.http)
    right.register("fine", [{"type": "skill", "path": "/x/skill.md"}], {"token": TOKEN})
    right.close()


def cookie(check, server):
    body = json.dumps({"auth": {"token": TOKEN}}).encode()
    response = http(server.http, "POST", "/mdp/auth", [("Content-Type", "application/json")], body)
    check.that(response.status == 204, f"auth: {response.status}")
    value = (response.header("set-cookie") or "").split(";")[0]
    forms = [TOKEN.encode(), base64.b64encode(TOKEN.encode()), base64.urlsafe_b64encode(TOKEN.encode()), TOKEN.encode().hex().encode()]
    for part in value.split("=", 1)[-1].replace("~", ".").split("."):
        for decode in (lambda text: text.encode(), lambda text: base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))):
            try:
                data = decode(part)
            except ValueError:
                continue
            check.that(not any(form.rstrip(b"=") in data for form in forms), "the cookie holds the token")
    opened = WebSocket.dial(server.http.replace("http", "ws"), "/mdp/ws", [("Cookie", value)])
    check.that(isinstance(opened, WebSocket), "the cookie does not open a connection")
    if isinstance(opened, WebSocket):
        opened.send({"type": "registerClient", "client": {"id": "by-cookie", "name": "x", "paths": []}})
        opened.send({"type": "ping", "timestamp": 1})
        check.that(opened.next(5).get("type") == "pong", "the cookie does not register")
        opened.close()
    name, _, signed = value.partition("=")
    forged = f"{name}={signed[:-2]}{'AA' if signed[-2:] != 'AA' else 'BB'}"
    opened = WebSocket.dial(server.http.replace("http", "ws"), "/mdp/ws", [("Cookie", forged)])
    if isinstance(opened, WebSocket):
        opened.send({"type": "registerClient", "client": {"id": "forged", "name": "x", "paths": []}})
        check.that(opened.wait_closed(5), "a forged cookie registers")
