"""Attacks 02 and 10: web pages of other origins, and stored content that would run as a page of this server."""

from .client import LiveClient, Response, WebSocket, Worker, http
from .http_loop import LoopClient

DOCUMENT = "---\nname: page\ndescription: Text.\n---\n\n# A\n\nText.\n"
SCRIPT = "<script>document.title = 'owned'</script>"
ACTIVE = {
    "x.html": SCRIPT, "x.htm": SCRIPT, "x.svg": "<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>",
    "x.xml": "<?xml version='1.0'?><x/>", "x.js": "alert(1)", "x.mjs": "alert(1)", "x.xhtml": SCRIPT, "x.css": "a{}",
    "x.pdf": "%PDF-1.4", "y.HTML": SCRIPT, "x": SCRIPT, "x.md": SCRIPT, "x.wasm": "asm",
}
# Media types that a browser executes.
ACTIVE_ENDINGS = (".html", ".htm", ".svg", ".xml", ".js", ".mjs", ".xhtml", ".pdf", ".wasm", ".HTML")

EVIL = "https://evil.example"


def run(report, server):
    worker = Worker(server.bus)
    assert worker.register("page", DOCUMENT, {path: text for path, text in ACTIVE.items()}) is None
    report.attack("02a", "stored pages over discovery", lambda check: discovery_pages(check, server))
    report.attack("02b", "live clients that give pages", lambda check: live_pages(check, server))
    report.attack("02c", "navigation from another site", lambda check: navigation(check, server))
    report.attack("02d", "origins on the bus", lambda check: bus_origins(check, server))
    public = server.another(["--allow-origin", "*"])
    report.attack("10a", "any site with --allow-origin '*'", lambda check: any_origin(check, public))
    report.attack("10b", "a page of origin null with '*' and 'null'", lambda check: null_origin(check, server))
    report.attack("10c", "--allow-origin '*' without a warning", lambda check: warns(check, public))


def is_harmless(check, name, response):
    """Checks the headers of content: no sniffing, a sandbox, and active types as downloads."""
    policy = response.header("content-security-policy") or ""
    check.that(response.status == 200, f"{name}: {response.status}")
    check.that("sandbox" in policy and "allow-scripts" not in policy, f"{name}: no sandbox ({policy or 'no policy'})")
    check.that(response.header("x-content-type-options") == "nosniff", f"{name}: may be sniffed")
    if name.endswith(ACTIVE_ENDINGS):
        disposition = response.header("content-disposition") or ""
        check.that(disposition.startswith("attachment"), f"{name}: not an attachment")


def discovery_pages(check, server):
    for path in ACTIVE:
        is_harmless(check, path, http(server.http, "GET", f"/.well-known/skills/page/{path}"))
    for target in ["/.well-known/agent-skills/page.tar.gz", "/.well-known/skills/index.json",
                   "/.well-known/skills/page/SKILL.md"]:
        is_harmless(check, target, http(server.http, "GET", target))
    check.note(f"{len(ACTIVE)} files")


def live_pages(check, server):
    client = LiveClient(server.http)
    kinds = {"a": "text/html", "b": "image/svg+xml", "c": "application/xhtml+xml", "d": "text/javascript",
             "e": "TEXT/HTML; charset=utf-8", "f": "application/pdf", "g": "text/xml"}
    client.register("pages", [{"type": "skill", "path": f"/{name}/skill.md", "contentType": kind}
                              for name, kind in kinds.items()])
    client.serve(lambda call: {"type": "callClientResult", "requestId": call["requestId"], "ok": True, "data": SCRIPT})
    for name, kind in kinds.items():
        response = http(server.http, "GET", f"/skills/pages/{name}")
        is_harmless(check, kind, response)
        check.that((response.header("content-disposition") or "").startswith("attachment"), f"{kind}: not an attachment")
    client.close()


def navigation(check, server):
    cross = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")]
    for target in ["/.well-known/skills/page/x.html", "/.well-known/skills/index.json", "/v1/skills", "/mcp",
                   "/skills/pages/a", "/mdp/meta"]:
        response = http(server.http, "GET", target, cross)
        check.that(response.status == 403, f"{target}: {response.status}")
    same = [("Sec-Fetch-Site", "none"), ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")]
    response = http(server.http, "GET", "/.well-known/skills/index.json", same)
    check.that(response.status == 200, f"a typed address: {response.status}")


def bus_origins(check, server):
    own = server.http
    foreign = [EVIL, "http://a.localhost", "http://a.localhost:3000", "http://127.0.0.5", "http://127.1.2.3:80", own,
               own.replace("127.0.0.1", "localhost"), "ftp://localhost", "file://localhost", "chrome-extension://localhost",
               "null", "http://localhost.evil.example", "http://127.1", ""]
    for origin in foreign:
        refused(check, repr(origin), WebSocket.dial(server.bus, headers=[("Origin", origin)]))
    for several in [["http://localhost:3000", EVIL], [EVIL, "http://localhost:3000"]]:
        refused(check, f"two origins {several}", WebSocket.dial(server.bus, headers=[("Origin", one) for one in several]))
    opened = WebSocket.dial(server.bus, headers=[("Origin", "http://localhost:3000")])
    check.that(isinstance(opened, WebSocket), "a page of this machine is refused")
    check.note(f"{len(foreign)} origins")


def refused(check, name, opened):
    if isinstance(opened, Response):
        check.that(opened.status in (400, 403), f"{name}: {opened.status}")
    else:
        check.that(False, f"{name}: let in")
        opened.close()


def any_origin(check, server):
    origin = [("Origin", EVIL)]
    json_type = ("Content-Type", "application/json")
    public = http(server.http, "GET", "/.well-known/skills/index.json", origin)
    check.that(public.status == 200, f"public catalogue: {public.status}")
    check.that(public.header("access-control-allow-origin") in ("*", EVIL), "public catalogue without CORS")
    check.that(public.header("access-control-allow-credentials") is None, "with credentials")
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    for method, target in [("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("POST", "/mcp/mdp"),
                           ("POST", "/mcp/skills"), ("POST", "/v1/execute/x"), ("PUT", "/v1/secrets/X"), ("POST", "/v1/admin/keys"),
                           ("POST", "/mdp/http-loop/connect"), ("POST", "/mdp/auth")]:
        response = http(server.http, method, target, [*origin, json_type], body if method != "GET" else None)
        check.that(response.status == 403, f"{method} {target}: {response.status}")
    for target in ["/mcp", "/mdp/http-loop/connect", "/v1/execute/x"]:
        asked = [*origin, ("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "content-type")]
        preflight = http(server.http, "OPTIONS", target, asked)
        allowed = preflight.status < 300 and "POST" in (preflight.header("access-control-allow-methods") or "")
        check.that(not allowed, f"preflight of POST {target}: {preflight.status}")
    for target in ["/", "/mdp/ws"]:
        refused(check, f"WebSocket {target}", WebSocket.dial(server.http.replace("http", "ws"), target, origin))
    loop = LoopClient(server.http, headers=origin)
    check.that(loop.session is None, "a page became a live client over the HTTP loop")


def null_origin(check, server):
    for allowed in (["*"], ["null"]):
        other = server.another([flag for one in allowed for flag in ("--allow-origin", one)])
        origin = [("Origin", "null"), ("Content-Type", "application/json")]
        response = http(other.http, "POST", "/mcp", origin, b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
        check.that(response.status == 403, f"POST /mcp with {allowed}: {response.status}")
        refused(check, f"WebSocket with {allowed}", WebSocket.dial(other.http.replace("http", "ws"), "/", origin[:1]))
        response = http(other.http, "GET", "/.well-known/skills/index.json", origin[:1])
        check.that(response.status == 200, f"public catalogue with {allowed}: {response.status}")


def warns(check, server):
    check.that("allow-origin" in server.log() or "allow_origin" in server.log(), "no log line at the start names it")
