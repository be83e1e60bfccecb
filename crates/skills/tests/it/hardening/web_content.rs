//! Stored content and foreign web pages cannot act as this server's own pages.

use serde_json::{Value, json};
use skills_testkit::{
    Peer, Request, Response,
    mdp::{Client, ok},
};
use tokio::task::spawn_blocking;

use crate::support::TestServer;

const EVIL: &str = "https://evil.example";
const APP: &str = "https://app.example";
const BODY: &str = "<script>document.title = 'ran'</script>";
const ROOT: &str = "---\nname: page\ndescription: Has files.\n---\n# Page\n";

/// Files of each type; the flag tells whether a browser may show them inline.
const FILES: [(&str, bool); 18] = [
    ("x.html", false),
    ("x.HTM", false),
    ("x.xhtml", false),
    ("x.svg", false),
    ("x.xml", false),
    ("x.xsl", false),
    ("x.js", false),
    ("x.mjs", false),
    ("x.wasm", false),
    ("x.pdf", false),
    ("x.swf", false),
    ("x.unknown", false),
    ("noending", false),
    ("x.md", true),
    ("x.txt", true),
    ("x.json", true),
    ("x.png", true),
    ("x.py", true),
];

async fn with_files(arguments: &[&str]) -> TestServer {
    let server = TestServer::with_args(arguments);
    let files: Value = FILES.iter().map(|(path, _)| (format!("f/{path}"), json!(BODY))).collect();
    let skill = json!({ "id": "page", "skill": ROOT, "files": files });
    server.worker().await.ok("skills::register", skill).await;
    server
}

async fn ask(server: &TestServer, request: Request) -> Response {
    let address = server.process.http.clone();
    spawn_blocking(move || request.send(&address)).await.unwrap()
}

async fn get(server: &TestServer, path: &str) -> Response {
    ask(server, Request::get(path)).await
}

fn assert_policy(answer: &Response, may_show: bool, what: &str) {
    let header = |name: &str| answer.header(name).unwrap_or_default();
    let policy = header("Content-Security-Policy");
    assert!(
        policy.contains("sandbox") && policy.contains("default-src 'none'"),
        "{what}: {policy}"
    );
    assert!(!policy.contains("allow-"), "{what}: {policy}");
    assert_eq!(header("X-Content-Type-Options"), "nosniff", "{what}");
    let disposition = header("Content-Disposition");
    assert_eq!(disposition.is_empty(), may_show, "{what}: {disposition}");
    assert!(may_show || disposition.starts_with("attachment"), "{what}: {disposition}");
}

fn port(url: &str) -> &str {
    url.rsplit(':').next().unwrap()
}

#[tokio::test]
async fn active_content_is_an_attachment_in_a_sandbox_on_every_surface() {
    let server = with_files(&[]).await;
    for (path, may_show) in FILES {
        for folder in ["/.well-known/skills/page/f", "/skills/registry/page/f"] {
            let url = format!("{folder}/{path}");
            let answer = get(&server, &url).await;
            assert_eq!((answer.status, answer.body.as_slice()), (200, BODY.as_bytes()), "{url}");
            assert_policy(&answer, may_show, &url);
            if !may_show {
                let name = format!("attachment; filename=\"{path}\"");
                assert_eq!(answer.header("Content-Disposition"), Some(name), "{url}");
            }
            // A cached copy gets the policy too.
            let tag = answer.header("ETag").unwrap();
            let again = ask(&server, Request::get(&url).header("If-None-Match", &tag)).await;
            assert_eq!(again.status, 304, "{url}");
            assert_policy(&again, may_show, &url);
            assert_policy(&ask(&server, Request::new("HEAD", &url)).await, may_show, &url);
        }
    }
    for (path, may_show) in [
        ("/.well-known/agent-skills/index.json", true),
        ("/.well-known/agent-skills/page/SKILL.md", true),
        ("/.well-known/agent-skills/page.tar.gz", false),
        ("/.well-known/skills/page/SKILL.md", true),
        ("/skills/registry/page", true),
        ("/v1/available-skills", true),
        ("/v1/skills", true),
        ("/v1/openapi.json", true),
        ("/mdp/meta", true),
        ("/healthz", true),
        ("/nothing", true),
    ] {
        assert_policy(&get(&server, path).await, may_show, path);
    }
}

#[tokio::test]
async fn live_clients_cannot_serve_pages_by_declaring_a_type() {
    let server = TestServer::new();
    let types = [
        ("a", "text/html", false),
        ("b", "image/svg+xml", false),
        ("c", "text/plain;a=b, text/html", false),
        ("d", "Application/XHTML+xml; charset=utf-7", false),
        ("e", "text/plain", true),
    ];
    let path = |(name, content_type, _): &(&str, &str, bool)| json!({ "type": "skill", "path": format!("/{name}/skill.md"), "contentType": content_type });
    let paths = json!(types.iter().map(path).collect::<Vec<_>>());
    let ws = server.process.http.replace("http://", "ws://");
    let _serving = Client::connect_registered(&ws, "tab", paths).await.serve_calls(|_| ok(BODY));
    for (name, content_type, may_show) in types {
        let answer = get(&server, &format!("/skills/tab/{name}")).await;
        assert_eq!((answer.status, answer.body.as_slice()), (200, BODY.as_bytes()));
        assert_policy(&answer, may_show, content_type);
    }
}

#[tokio::test]
async fn names_of_attachments_cannot_add_headers() {
    let server = TestServer::new();
    let path = "f/a; filename=b.exe é.html";
    let skill = json!({ "id": "page", "skill": ROOT, "files": { path: BODY } });
    server.worker().await.ok("skills::register", skill).await;
    let url = "/.well-known/skills/page/f/a;%20filename=b.exe%20%C3%A9.html";
    let answer = get(&server, url).await;
    assert_eq!(answer.status, 200);
    let expected = "attachment; filename=\"a_ filename=b.exe _.html\"; \
                    filename*=UTF-8''a%3B%20filename%3Db.exe%20%C3%A9.html";
    assert_eq!(answer.header("Content-Disposition").as_deref(), Some(expected));
}

/// Routes of each surface; the flag marks the public catalogue.
const ROUTES: [(&str, &str, bool); 14] = [
    ("GET", "/.well-known/agent-skills/index.json", true),
    ("GET", "/.well-known/skills/page/f/x.md", true),
    ("HEAD", "/.well-known/skills/page/f/x.md", true),
    ("GET", "/v1/available-skills", true),
    ("POST", "/.well-known/agent-skills/index.json", false),
    ("GET", "/.well-known/skills/", false),
    ("GET", "/v1/skills", false),
    ("POST", "/v1/execute/page", false),
    ("GET", "/mcp", false),
    ("POST", "/mcp", false),
    ("DELETE", "/mcp", false),
    ("GET", "/skills/registry/page", false),
    ("GET", "/mdp/meta", false),
    ("POST", "/mdp/http-loop/connect", false),
];

/// Requests that another site can make without CORS: a link, a form, a frame, an image, a script.
const LOADS: [(&str, &str); 5] = [
    ("navigate", "document"),
    ("navigate", "iframe"),
    ("no-cors", "image"),
    ("no-cors", "script"),
    ("no-cors", "empty"),
];

fn from_site(method: &str, path: &str, site: &str, (mode, destination): (&str, &str)) -> Request {
    Request::new(method, path)
        .header("Sec-Fetch-Site", site)
        .header("Sec-Fetch-Mode", mode)
        .header("Sec-Fetch-Dest", destination)
}

fn code(answer: &Response) -> String {
    // Errors under /v1 have their own shape.
    let body = answer.json();
    body["error"]["code"].as_str().or(body["code"].as_str()).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn other_sites_can_open_and_embed_only_a_public_catalogue() {
    let closed = with_files(&["--allow-origin", APP]).await;
    let public = with_files(&["--allow-origin", "*"]).await;
    for (method, path, is_public) in ROUTES {
        for load in LOADS {
            let what = format!("{method} {path} {load:?}");
            let request = from_site(method, path, "cross-site", load);
            let answer = ask(&closed, request.clone()).await;
            assert_eq!(answer.status, 403, "{what}");
            if method != "HEAD" {
                assert_eq!(code(&answer), "cross_site_request", "{what}");
            }
            let answer = ask(&public, request).await;
            assert_eq!(answer.status, if is_public { 200 } else { 403 }, "{what}");
        }
    }
    // Requests of local pages, links in programs and the address bar are answered, and so are CORS requests of
    // listed origins.
    for site in ["same-origin", "same-site", "none"] {
        for load in LOADS {
            let request = from_site("GET", "/skills/registry/page", site, load);
            assert_eq!(ask(&closed, request).await.status, 200, "{site} {load:?}");
        }
    }
    for origin in [APP, "http://127.0.0.1:3000"] {
        let request = from_site("GET", "/v1/skills", "cross-site", ("cors", "empty"));
        let answer = ask(&closed, request.header("Origin", origin)).await;
        assert_eq!(answer.status, 200, "{origin}");
        assert_eq!(
            answer.header("Access-Control-Allow-Origin").as_deref(),
            Some(origin),
            "{origin:?}"
        );
    }
    let evil = from_site("GET", "/v1/skills", "cross-site", ("cors", "empty"));
    let answer = ask(&closed, evil.header("Origin", EVIL)).await;
    assert_eq!((answer.status, code(&answer)), (403, "origin_not_allowed".to_owned()));
}

#[tokio::test]
async fn a_wildcard_origin_allows_only_reading_the_public_catalogue() {
    for (listed, origin) in [("*", EVIL), ("*", "null"), ("null", "null")] {
        let server = with_files(&["--allow-origin", listed, "--allow-origin", APP]).await;
        for (method, path, is_public) in ROUTES {
            let what = format!("{listed} {origin} {method} {path}");
            let answer = ask(&server, Request::new(method, path).header("Origin", origin)).await;
            let allowed = answer.header("Access-Control-Allow-Origin");
            match is_public {
                true => {
                    assert_eq!((answer.status, allowed.as_deref()), (200, Some(origin)), "{what}")
                }
                false => assert_eq!((answer.status, allowed), (403, None), "{what}"),
            }
            assert_eq!(answer.header("Access-Control-Allow-Credentials"), None, "{what}");
            if !is_public {
                assert_eq!(code(&answer), "origin_not_allowed", "{what}");
            }
            let question = Request::new("OPTIONS", path)
                .header("Origin", origin)
                .header("Access-Control-Request-Method", method);
            let answer = ask(&server, question.clone()).await;
            assert_eq!(answer.status, if is_public { 204 } else { 403 }, "preflight {what}");
            if is_public {
                let methods = answer.header("Access-Control-Allow-Methods");
                assert_eq!(methods.as_deref(), Some("GET, HEAD"), "{what}");
            }
            // A listed origin is not restricted by the wildcard rules.
            let named = ask(&server, Request::new(method, path).header("Origin", APP)).await;
            assert_ne!(named.status, 403, "{what}");
        }
        // A WebSocket on another path than the catalogue.
        let ws = server.process.http.replace("http://", "ws://");
        for path in ["", "/.well-known/skills/", "/mdp/ws"] {
            let refused = Client::connect_with(&format!("{ws}{path}"), &[("origin", origin)]).await;
            assert_eq!(refused.err(), Some(403), "{path}");
        }
        let (code, _, output) = server.process.stop();
        assert_eq!(code, Some(0), "{listed}");
        assert!(output.contains("allow_origin names no page in particular"), "{output}");
    }
    let (_, _, output) = with_files(&["--allow-origin", APP]).await.process.stop();
    assert!(!output.contains("names no page"), "{output}");
}

#[tokio::test]
async fn the_bus_accepts_only_local_origins_and_not_the_http_port() {
    let server = TestServer::with_args(&["--allow-origin", APP]);
    let (bus, http) = (server.process.url.as_str(), port(&server.process.http));
    let connects = async |origins: &[&str]| {
        let headers: Vec<_> = origins.iter().map(|&origin| ("origin", origin)).collect();
        Peer::connect_with(bus, &headers).await.map(drop)
    };
    let status_of_two = async |one: &str, other: &str| {
        let request = Request::get("/")
            .header("Upgrade", "websocket")
            .header("Connection", "upgrade")
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
            .header("Origin", one)
            .header("Origin", other);
        let address = bus.replace("ws://", "http://");
        spawn_blocking(move || request.send(&address)).await.unwrap().status
    };
    let own = ["http://127.0.0.1", "http://localhost", "http://[::1]", "https://localhost"]
        .map(|host| format!("{host}:{http}"));
    let foreign = [
        EVIL,
        APP,
        "null",
        "",
        "http://app.localhost",
        "http://localhost.evil.example",
        "http://127.0.0.2",
        "http://0.0.0.0",
        "http://[::2]",
        "http://192.168.0.1",
        "ftp://localhost",
        "file://localhost",
        "file://",
        "ws://localhost",
        "tauri://localhost",
        "http://evil@localhost",
        "http://localhost/",
    ];
    for origin in foreign.into_iter().chain(own.iter().map(String::as_str)) {
        assert_eq!(connects(&[origin]).await, Err(403), "{origin}");
        // A second origin header is checked too, before and after the first.
        assert_eq!(status_of_two("http://localhost:3000", origin).await, 403, "{origin}");
        assert_eq!(status_of_two(origin, "http://localhost:3000").await, 403, "{origin}");
    }
    assert_eq!(connects(&[]).await, Ok(()), "SDKs send no origin");
    for origin in ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:8080"] {
        assert_eq!(connects(&[origin]).await, Ok(()), "{origin}");
    }
}
