//! Requests that pages of other origins could cause.

use skills_testkit::Request;

use crate::{
    browser::{assert_harmless, form_request, text},
    test_console::{Credentials, TOKEN, TestConsole},
};

/// Every form, with fields that would change something. A test compares the list with the routes.
const FORMS: [(&str, &[(&str, &str)]); 13] = [
    ("/ui/run/weather", &[("argument.city", "x")]),
    ("/ui/prompts/plan", &[("argument.city", "x")]),
    ("/ui/publish/check", &[("text", "# X")]),
    (
        "/ui/versions/label",
        &[("id", "weather"), ("tier", "official"), ("version", "1"), ("label", "stable")],
    ),
    ("/ui/versions/rollback", &[("id", "weather"), ("tier", "official"), ("version", "1")]),
    (
        "/ui/versions/yank",
        &[("id", "weather"), ("tier", "official"), ("version", "1"), ("reason", "x")],
    ),
    ("/ui/publish/review", &[("id", "x"), ("tier", "official"), ("text", "# X")]),
    ("/ui/publish/confirm", &[("draft", "x")]),
    ("/ui/remove", &[("id", "weather"), ("tier", "official"), ("confirm", "weather")]),
    ("/ui/people/keys", &[("uid", "eve")]),
    ("/ui/people/revoke", &[("key", "x")]),
    ("/ui/sign-in", &[("credential", TOKEN)]),
    ("/ui/sign-out", &[]),
];

/// Name of a case, and its `Origin`, cookie, form token and `Sec-Fetch-Site`.
type RefusedCase<'a> =
    (&'a str, Option<&'a str>, Option<&'a str>, Option<&'a str>, Option<&'a str>);

#[test]
fn every_route_that_takes_a_form_is_checked() {
    let source = include_str!("../../src/lib.rs");
    let routes = source.split(".route(").skip(1).filter_map(|route| {
        let path = route.split('"').nth(1)?;
        let call = route.split_once("\",")?.1;
        let has_post = call.trim_start().starts_with("post(") || call.contains(".post(");
        has_post.then_some(path)
    });
    let routes: Vec<&str> = routes.collect();
    let prefix = |route: &'static str| route.split('{').next().unwrap_or(route);
    assert_eq!(routes.len(), FORMS.len(), "{routes:?}");
    for route in routes {
        let is_listed = FORMS.iter().any(|(path, _)| path.starts_with(prefix(route)));
        assert!(is_listed, "{route} is not in the list");
    }
}

#[test]
fn a_form_needs_the_origin_the_cookie_and_the_token() {
    let console = TestConsole::open();
    console.register("weather", "# Weather");
    let mut browser = console.browser();
    browser.open("/ui/sign-in");
    let (own, token) = (browser.origin(), browser.token().to_owned());
    let cookie = browser.cookie().unwrap().to_owned();
    let other_port = "http://127.0.0.1:1".to_owned();
    let localhost = own.replace("127.0.0.1", "localhost");
    let [tls, ftp] = ["https", "ftp"].map(|scheme| own.replace("http", scheme));
    let other_cookie = {
        let mut other = console.browser();
        other.open("/ui/sign-in");
        other.cookie().unwrap().to_owned()
    };
    let evil = "https://evil.example".to_owned();
    let cases: [RefusedCase<'_>; 14] = [
        ("no origin", None, Some(&cookie), Some(&token), None),
        ("null", Some("null"), Some(&cookie), Some(&token), None),
        ("another site", Some(&evil), Some(&cookie), Some(&token), None),
        ("another local port", Some(&other_port), Some(&cookie), Some(&token), None),
        ("the scheme of TLS", Some(&tls), Some(&cookie), Some(&token), None),
        ("a scheme of no web page", Some(&ftp), Some(&cookie), Some(&token), None),
        ("another name of this machine", Some(&localhost), Some(&cookie), Some(&token), None),
        ("cross-site", Some(&own), Some(&cookie), Some(&token), Some("cross-site")),
        ("same-site", Some(&own), Some(&cookie), Some(&token), Some("same-site")),
        ("no token", Some(&own), Some(&cookie), None, None),
        ("a wrong token", Some(&own), Some(&cookie), Some("0123"), None),
        ("no cookie", Some(&own), None, Some(&token), None),
        ("the cookie of another session", Some(&own), Some(&other_cookie), Some(&token), None),
        ("a made-up cookie", Some(&own), Some("skills-console-1=aaaa"), Some(&token), None),
    ];
    for (path, fields) in FORMS {
        for (case, origin, cookie, token, site) in cases {
            let mut all: Vec<(&str, &str)> = fields.to_vec();
            all.extend(token.map(|token| ("token", token)));
            let mut request = form_request(path, &all);
            for (name, value) in [("Origin", origin), ("Cookie", cookie), ("Sec-Fetch-Site", site)]
            {
                if let Some(value) = value {
                    request = request.header(name, value);
                }
            }
            let answer = request.send(&console.address);
            assert_eq!(answer.status, 403, "{path}: {case}");
            assert_eq!(answer.header("access-control-allow-origin"), None, "{path}: {case}");
        }
    }
    assert!(console.read("iii://weather").is_some());
    assert!(console.vault.keys(None, 0, 10).unwrap().is_empty());
}

#[test]
fn nothing_is_changed_by_a_get() {
    let console = TestConsole::open();
    console.register("weather", "# Weather");
    let mut browser = console.browser();
    browser.open("/ui/sign-in");
    for (path, fields) in FORMS {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(fields).append_pair("token", browser.token());
        let answer = browser.get(&format!("{path}?{}", query.finish()));
        let is_page = path == "/ui/sign-in";
        assert!(!path.starts_with("/ui/versions") || answer.status == 405, "{path}");
        assert!(
            is_page || answer.status == 405 || answer.status == 404,
            "{path}: {}",
            answer.status
        );
    }
    assert!(console.read("iii://weather").is_some());
}

#[test]
fn pages_of_other_origins_get_no_answer_that_they_may_read() {
    let console = TestConsole::open();
    for (origin, site) in [
        ("http://127.0.0.1:1", "same-site"),
        ("http://localhost:3000", "same-site"),
        ("null", "cross-site"),
        ("https://evil.example", "cross-site"),
    ] {
        for path in ["/ui", "/ui/events", "/ui/skills/a", "/ui/overview"] {
            let request = Request::get(path).header("Origin", origin).header("Accept", "text/html");
            let answer = request.header("Sec-Fetch-Site", site).send(&console.address);
            assert_eq!(
                (answer.status, answer.header("access-control-allow-origin")),
                (403, None),
                "{origin} {path}"
            );
        }
        let preflight = Request::new("OPTIONS", "/ui/publish/review").header("Origin", origin);
        let preflight = preflight.header("Access-Control-Request-Method", "POST");
        let answer = preflight.send(&console.address);
        assert_eq!(
            (answer.status, answer.header("access-control-allow-methods")),
            (403, None),
            "{origin}"
        );
    }
    let link =
        Request::get("/ui").header("Sec-Fetch-Site", "cross-site").header("Accept", "text/html");
    assert_eq!(link.send(&console.address).status, 403);
}

/// Builds the request of a browser that follows a link of another site, or loads something into its page.
fn from_other_site(path: &str, site: &str, mode: &str, dest: &str) -> Request {
    Request::get(path)
        .header("Accept", "text/html")
        .header("Sec-Fetch-Site", site)
        .header("Sec-Fetch-Mode", mode)
        .header("Sec-Fetch-Dest", dest)
}

#[test]
fn a_link_of_another_site_opens_a_page_and_nothing_else() {
    let console = TestConsole::open();
    console.register("weather", "# Weather");
    let send = |path: &str, site: &str, mode: &str, dest: &str| {
        from_other_site(path, site, mode, dest).send(&console.address)
    };
    // Without the cookie the page would show another person, and a new cookie would end the session.
    let answer = send("/ui/skills/weather?tab=files", "cross-site", "navigate", "document");
    assert_eq!((answer.status, answer.header("set-cookie")), (200, None));
    let page = text(&answer);
    assert!(page.contains("content=\"0; url=/ui/skills/weather?tab=files\""), "{page}");
    assert!(!page.contains("Weather") && !page.contains("name=\"token\""), "{page}");
    assert_eq!(send("/", "cross-site", "navigate", "document").status, 200);
    let same_site = send("/ui/skills/weather", "same-site", "navigate", "document");
    assert!(text(&same_site).contains("<h1>"), "{}", text(&same_site));
    for site in ["same-site", "cross-site"] {
        for (mode, dest) in
            [("navigate", "iframe"), ("no-cors", "image"), ("no-cors", "script"), ("cors", "empty")]
        {
            assert_eq!(send("/ui", site, mode, dest).status, 403, "{site} {mode} {dest}");
        }
        for path in ["/ui/raw/weather/SKILL.md", "/ui/zip/weather.zip", "/ui/events"] {
            assert_eq!(send(path, site, "navigate", "document").status, 403, "{site} {path}");
        }
    }
}

#[test]
fn a_refusal_is_a_page_for_people_and_json_for_programs() {
    let console = TestConsole::open();
    let refused = from_other_site("/ui/raw/weather/SKILL.md", "cross-site", "navigate", "document");
    let answer = refused.send(&console.address);
    assert_eq!(answer.status, 403);
    assert_eq!(answer.header("content-type").as_deref(), Some("text/html; charset=utf-8"));
    assert!(answer.header("content-security-policy").unwrap().starts_with("default-src 'self'"));
    assert!(text(&answer).contains("open it directly"), "{}", text(&answer));
    assert_harmless(&text(&answer), "refusal");
    let wrong = Request::get("/ui/remove").header("Accept", "text/html").send(&console.address);
    assert_eq!(wrong.status, 405);
    assert!(text(&wrong).contains("method_not_allowed"), "{}", text(&wrong));
    let program = Request::get("/ui/remove").header("Accept", "*/*").send(&console.address);
    assert_eq!(program.json()["error"]["code"], "method_not_allowed");
}

#[test]
fn files_are_not_for_the_pages_of_other_ports() {
    let console = TestConsole::open();
    console.register("weather", "# Weather");
    let mut browser = console.browser();
    for path in ["/ui", "/ui/raw/weather/SKILL.md", "/ui/zip/weather.zip", "/ui/nothing"] {
        let answer = browser.get(path);
        let policy = answer.header("cross-origin-resource-policy");
        assert_eq!(policy.as_deref(), Some("same-origin"), "{path}");
    }
}

#[test]
fn other_content_types_are_no_forms() {
    let console = TestConsole::open();
    let mut browser = console.browser();
    browser.open("/ui/sign-in");
    let body = format!("{{\"token\":\"{}\",\"uid\":\"eve\"}}", browser.token());
    for content_type in ["application/json", "text/plain", "multipart/form-data", ""] {
        let request = Request::new("POST", "/ui/people/keys").header("Content-Type", content_type);
        let request = request.header("Origin", &browser.origin()).body(body.clone());
        let status = browser.send(request).status;
        assert_eq!(status, 400, "{content_type}");
    }
    assert!(console.vault.keys(None, 0, 10).unwrap().is_empty());
}

#[test]
fn the_cookie_is_strict_and_hidden_and_bound_to_the_port() {
    let console = TestConsole::with(Credentials { token: true, ..Credentials::default() });
    let mut browser = console.browser();
    let answer = browser.get("/ui/sign-in");
    let cookie = answer.header("set-cookie").unwrap();
    let port = console.address.rsplit(':').next().unwrap();
    assert!(cookie.starts_with(&format!("skills-console-{port}=")), "{cookie}");
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
    let before = browser.cookie().unwrap().to_owned();
    let answer = browser.submit("/ui/sign-in", &[("credential", TOKEN)]);
    assert_eq!((answer.status, answer.header("location").as_deref()), (303, Some("/ui")));
    assert_ne!(browser.cookie().unwrap(), before, "a planted id is worth nothing");
    assert!(!answer.headers().iter().any(|(_, value)| value.contains(TOKEN)));
}
