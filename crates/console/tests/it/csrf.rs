//! Requests that pages of other origins could cause.

use skills_testkit::Request;

use crate::{
    browser::form_request,
    test_console::{Credentials, TOKEN, TestConsole},
};

/// Every form that changes something, with fields that would.
const FORMS: [(&str, &[(&str, &str)]); 7] = [
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
fn a_form_needs_the_origin_the_cookie_and_the_token() {
    let console = TestConsole::open();
    console.register("weather", "# Weather");
    let mut browser = console.browser();
    browser.open("/ui/sign-in");
    let (own, token) = (browser.origin(), browser.token().to_owned());
    let cookie = browser.cookie().unwrap().to_owned();
    let other_port = "http://127.0.0.1:1".to_owned();
    let localhost = own.replace("127.0.0.1", "localhost");
    let other_cookie = {
        let mut other = console.browser();
        other.open("/ui/sign-in");
        other.cookie().unwrap().to_owned()
    };
    let evil = "https://evil.example".to_owned();
    let cases: [RefusedCase<'_>; 12] = [
        ("no origin", None, Some(&cookie), Some(&token), None),
        ("null", Some("null"), Some(&cookie), Some(&token), None),
        ("another site", Some(&evil), Some(&cookie), Some(&token), None),
        ("another local port", Some(&other_port), Some(&cookie), Some(&token), None),
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
