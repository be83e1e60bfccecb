//! Neither errors nor log lines contain a secret, whatever an upstream answers.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    sync::{Arc, Mutex, OnceLock},
};

use proptest::prelude::*;
use serde_json::{Value, json};
use skills_core::Coded as _;
use skills_upstream::{Secret, UpstreamCall, UpstreamClient};
use tokio::runtime::Runtime;

use crate::{
    allowing, execute,
    test_upstream::{TestUpstream, answer},
};

/// Shared server that fails or redirects in every way that repeats the request.
fn echoing_upstream() -> &'static (Runtime, TestUpstream) {
    static PARROT: OnceLock<(Runtime, TestUpstream)> = OnceLock::new();
    PARROT.get_or_init(|| {
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(TestUpstream::start(|asked| {
            let key = asked.headers.get("x-key").cloned().unwrap_or_default();
            let said = format!("bad key {key} in {} and {}", asked.target, asked.body);
            match asked.target.get(1..2) {
                Some("a") => answer(401, "application/json", &json!({"detail": said}).to_string()),
                Some("b") => answer(400, "text/plain", &said),
                Some("c") => answer(500, "application/json", &json!({"error": {"it": said}}).to_string()),
                Some("d") => answer(422, "application/octet-stream", &format!("{}{said}", "x".repeat(295))),
                Some("e") => {
                    let host = key.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "");
                    format!("HTTP/1.1 302 Found\r\nLocation: http://{host}.test/\r\nContent-Length: 0\r\n\r\n")
                }
                _ => answer(200, "application/json", &said),
            }
        }));
        (runtime, server)
    })
}

/// Generates a secret; half of it in a message would be a leak too.
fn secrets() -> impl Strategy<Value = String> {
    prop_oneof!["[A-Za-z0-9]{12,40}", "[A-Za-z0-9+/=\"\\\\ &%é]{12,40}", "[a-z0-9]{12,40}"]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_error_shows_a_secret(value in secrets(), way in "[a-f]", bad in any::<bool>()) {
        let (runtime, server) = echoing_upstream();
        let value = format!("Q{}Z", value.trim());
        let secrets = BTreeMap::from([("KEY".to_owned(), Secret::new(value.clone()))]);
        let mut implementation = json!({
            "endpoint": format!("{}/{way}?k={{{{SECRETS.KEY}}}}", server.origin()),
            "headers": {"X-Key": "{{SECRETS.KEY}}"},
            "api_key": "{{SECRETS.KEY}}",
            "body": {"k": "{{SECRETS.KEY}}"},
        });
        if bad {
            implementation["headers"]["X-Bad"] = Value::from("\r{{SECRETS.KEY}}\rx");
        }
        let upstream = UpstreamClient::new(allowing(&[&server.origin()]));
        let params = serde_json::Map::new();
        let executed = runtime.block_on(upstream.execute(UpstreamCall {
            implementation: implementation.as_object().unwrap(),
            params: &params,
            secrets: &secrets,
            trace_id: "trace",
            allowed: &[],
            owner: "",
        }));
        let error = executed.unwrap_err();
        let shown = format!("{error} {error:?} {error:#?} {}", error.code().as_str());
        let form: String = url::form_urlencoded::byte_serialize(value.as_bytes()).collect();
        let json = Value::from(value.as_str()).to_string();
        let start: String = value.chars().take(8).collect();
        let forms = [value.to_lowercase(), value, form, json[1..json.len() - 1].to_owned(), start];
        for form in forms {
            prop_assert!(!shown.contains(&form), "{} in {}", form, shown);
        }
    }
}

/// Captures log output.
#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn the_log_contains_only_method_and_host() {
    let server = TestUpstream::echo().await;
    let settings = || allowing(&[&server.origin()]);
    let log = LogBuffer::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    let implementation = json!({
        "endpoint": format!("{}/path?k={{{{SECRETS.KEY}}}}", server.origin()),
        "api_key": "{{SECRETS.KEY}}",
        "body": {"p": "{{p}}"},
    });
    let params = json!({"p": "private-value"});
    let said = || String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    // A log statement that another thread reaches first at this moment may be cached as disabled, so try again.
    for _ in 0..100 {
        tracing::callsite::rebuild_interest_cache();
        assert!(execute(settings(), implementation.clone(), params.clone()).await.is_ok());
        if said().contains("method=") {
            break;
        }
    }
    let log = said();
    assert!(log.contains("method=POST host=\"127.0.0.1\""), "{log}");
    for absent in ["s3cret", "private", "path"] {
        assert!(!log.contains(absent), "{absent} in {log}");
    }
}
