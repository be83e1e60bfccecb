//! No error shows a secret, whatever an upstream says, and no line of the log.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    sync::{Arc, Mutex, OnceLock},
};

use proptest::prelude::*;
use serde_json::{Value, json};
use skills_upstream::{Call, Secret, Upstream};
use tokio::runtime::Runtime;

use crate::{
    allowing, execute,
    server::{Server, answer},
};

/// One server for all cases. It fails, or redirects, in every way that repeats what it was sent.
fn parrot() -> &'static (Runtime, Server) {
    static PARROT: OnceLock<(Runtime, Server)> = OnceLock::new();
    PARROT.get_or_init(|| {
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(Server::start(|asked| {
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

/// A secret, and what it must not be recognised by: also half of it would be too much.
fn secrets() -> impl Strategy<Value = String> {
    prop_oneof!["[A-Za-z0-9]{12,40}", "[A-Za-z0-9+/=\"\\\\ &%é]{12,40}", "[a-z0-9]{12,40}"]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_error_shows_a_secret(value in secrets(), way in "[a-f]", bad in any::<bool>()) {
        let (runtime, server) = parrot();
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
        let upstream = Upstream::new(allowing(&[&server.origin()]));
        let params = serde_json::Map::new();
        let executed = runtime.block_on(upstream.execute(Call {
            implementation: implementation.as_object().unwrap(),
            params: &params,
            secrets: &secrets,
            trace_id: "trace",
            also: &[],
        }));
        let error = executed.unwrap_err();
        let shown = format!("{error} {error:?} {error:#?} {}", error.code());
        let form: String = url::form_urlencoded::byte_serialize(value.as_bytes()).collect();
        let json = Value::from(value.as_str()).to_string();
        let start: String = value.chars().take(8).collect();
        let forms = [value.to_lowercase(), value, form, json[1..json.len() - 1].to_owned(), start];
        for form in forms {
            prop_assert!(!shown.contains(&form), "{} in {}", form, shown);
        }
    }
}

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn the_log_has_the_method_and_the_host_only() {
    let server = Server::echo().await;
    let settings = || allowing(&[&server.origin()]);
    let log = Log::default();
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
    // What another thread logs for the first time just now is taken for what nobody listens to, until it is
    // looked at again.
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
