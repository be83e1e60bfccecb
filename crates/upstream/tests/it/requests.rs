//! Requests and mapped answers.

use serde_json::{Value, json};
use skills_core::Coded as _;

use crate::{
    allowing, execute,
    test_upstream::{TestUpstream, answer, ok},
};

/// Executes a call against an echo server and returns the request it received.
async fn echoed(path: &str, mut implementation: Value, params: Value) -> Value {
    let server = TestUpstream::echo().await;
    implementation["endpoint"] = format!("{}{path}", server.origin()).into();
    execute(allowing(&[&server.origin()]), implementation, params).await.unwrap()
}

#[tokio::test]
async fn get_parameters_are_sent_in_the_query() {
    let asked =
        echoed("/v1/forecast", json!({"method": "get"}), json!({"location": "São Paulo"})).await;
    assert_eq!(asked["method"], "GET");
    assert_eq!(asked["target"], "/v1/forecast?location=S%C3%A3o+Paulo");
    assert_eq!(asked["body"], "");
    let headers = asked["headers"].as_object().unwrap();
    let names: Vec<_> = {
        let mut names: Vec<_> = headers.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names, ["accept", "accept-encoding", "host", "user-agent", "x-uniskill-trace-id"]);
    assert_eq!(headers["user-agent"], concat!("skills/", env!("CARGO_PKG_VERSION")));
    assert_eq!(headers["x-uniskill-trace-id"], "trace-1");
}

#[tokio::test]
async fn post_sends_body_headers_and_secrets() {
    let asked = echoed(
        "/{{where}}?k={{SECRETS.KEY}}",
        json!({
            "headers": {"X-A": "one"},
            "request": {
                "headers": {"x-a": "{{n}}", "User-Agent": "mine"},
                "body": {"n": "{{n}}", "deep": {"text": "n={{n}}", "gone": "{{none}}"}},
            },
            "api_key": "{{SECRETS.KEY}}",
        }),
        json!({"where": "a b/c", "n": 9, "unused": 1}),
    )
    .await;
    assert_eq!(asked["method"], "POST");
    assert_eq!(asked["target"], "/a%20b%2Fc?k=s3cret-value");
    let body: Value = serde_json::from_str(asked["body"].as_str().unwrap()).unwrap();
    assert_eq!(body, json!({"n": 9, "deep": {"text": "n=9"}}));
    assert_eq!(asked["headers"]["content-type"], "application/json");
    assert_eq!(asked["headers"]["x-a"], "9");
    assert_eq!(asked["headers"]["user-agent"], "mine");
    assert_eq!(asked["headers"]["authorization"], "Bearer s3cret-value");
}

#[tokio::test]
async fn a_redirect_is_requested_with_the_headers_of_its_origin() {
    let server = TestUpstream::start(|asked| match asked.target.as_str() {
        "/old" => {
            "HTTP/1.1 303 See Other\r\nLocation: new?x=1#part\r\nContent-Length: 0\r\n\r\n".into()
        }
        _ => ok("application/json", "{\"done\":true}"),
    })
    .await;
    let implementation = json!({"url": format!("{}/old", server.origin()), "api_key": "{{SECRETS.KEY}}", "body": {"a": 1}});
    let done = execute(allowing(&[&server.origin()]), implementation, json!({})).await;
    assert_eq!(done, Ok(json!({"done": true})));
    let second = &server.received()[1];
    assert_eq!((second.method.as_str(), second.target.as_str()), ("GET", "/new?x=1"));
    assert_eq!(second.headers["authorization"], "Bearer s3cret-value");
    assert!(!second.headers.contains_key("content-type") && second.body.is_empty());
    assert!(!second.headers.contains_key("referer"));
}

#[tokio::test]
async fn answers_are_mapped_by_the_manifest() {
    let server = TestUpstream::start(|_| {
        ok("application/json", r#"{"a":{"b":[1,{"c":2}]},"success":false}"#)
    })
    .await;
    let implementation = json!({
        "endpoint": server.origin(),
        "method": "GET",
        "response": {"output_mapping": {"c": "$.a.b[1]['c']", "none": "x.y", "ignored": 7}},
    });
    let mapped = execute(allowing(&[&server.origin()]), implementation, json!({})).await;
    assert_eq!(mapped, Ok(json!({"c": 2})));
}

/// A small manifest can select a large answer many times.
#[tokio::test]
async fn mapped_answers_are_limited_in_size() {
    let large = format!("\"{}\"", "x".repeat(400_000));
    let server = TestUpstream::start(move |_| ok("application/json", &large)).await;
    let with = |names: usize| {
        let mapping: serde_json::Map<_, _> =
            (0..names).map(|n| (n.to_string(), json!("$"))).collect();
        let endpoint = server.origin();
        execute(
            allowing(&[&server.origin()]),
            json!({"endpoint": endpoint, "response_mapping": mapping}),
            json!({}),
        )
    };
    assert!(with(2).await.is_ok());
    for names in [3, 10_000] {
        assert_eq!(with(names).await.unwrap_err().code().as_str(), "upstream_too_large", "{names}");
    }
}

#[tokio::test]
async fn head_and_empty_answers_are_null() {
    let server = TestUpstream::start(|asked| match asked.method.as_str() {
        "HEAD" => "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n".into(),
        _ => "HTTP/1.1 204 No Content\r\n\r\n".into(),
    })
    .await;
    for method in ["HEAD", "DELETE"] {
        let implementation = json!({"endpoint": server.origin(), "method": method});
        let done = execute(allowing(&[&server.origin()]), implementation, json!({})).await;
        assert_eq!(done, Ok(Value::Null), "{method}");
    }
}

#[tokio::test]
async fn nothing_is_sent_if_a_parameter_or_secret_is_missing() {
    let server = TestUpstream::echo().await;
    let settings = allowing(&[&server.origin()]);
    for (path, header, code, named) in [
        ("/", "{{SECRETS.B}}{{SECRETS.A}}", "missing_secrets", "A, B"),
        ("/{{city}}", "", "missing_parameters", "city"),
        ("/", "a\r\nb", "invalid_header", "X-A"),
    ] {
        let implementation =
            json!({"endpoint": format!("{}{path}", server.origin()), "headers": {"X-A": header}});
        let error = execute(settings.clone(), implementation, json!({})).await.unwrap_err();
        assert_eq!(error.code().as_str(), code, "{path}");
        assert!(error.to_string().contains(named), "{error}");
    }
    assert_eq!(server.received().len(), 0);
}

#[tokio::test]
async fn failures_keep_their_status() {
    for (status, media_type, body, wanted) in [
        (
            429,
            "application/json",
            r#"{"detail":"slow down"}"#,
            "the upstream answered with status 429: slow down",
        ),
        (502, "text/html", "<h1>Bad</h1>", "the upstream answered with status 502"),
        (400, "text/plain", "two\r\nlines", "the upstream answered with status 400: two lines"),
    ] {
        let server = TestUpstream::start(move |_| answer(status, media_type, body)).await;
        let implementation = json!({"endpoint": server.origin()});
        let error = execute(allowing(&[&server.origin()]), implementation, json!({})).await;
        let error = error.unwrap_err();
        assert_eq!(
            (error.code().as_str(), error.to_string().as_str()),
            ("upstream_status", wanted),
            "{status:?}"
        );
    }
}
