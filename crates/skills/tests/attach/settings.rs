//! Flags, variables and the configuration file.

use std::{
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use serde_json::json;
use skills_testkit::{Answer, Request, exchange};

use crate::{
    attached::{Attached, eventually, holds_for, serves},
    engine::{Engine, Kind, state},
    support::{ids, read, register},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_flag_outweighs_the_variables() {
    let (flag, url, engine_url) =
        (Engine::start().await, Engine::start().await, Engine::start().await);
    for (engine, with_flag, with_url) in
        [(&flag, true, true), (&url, false, true), (&engine_url, false, false)]
    {
        let attached = Attached::with("", |command| {
            if with_flag {
                command.args(["--url", &flag.url()]);
            }
            if with_url {
                command.env("III_URL", url.url());
            }
            command.env("III_ENGINE_URL", engine_url.url());
        });
        serves(&engine.worker().await).await;
        attached.stop().await;
    }
    // Each served one of them and no other.
    for engine in [&flag, &url, &engine_url] {
        let failure = engine.worker().await.fails("skills::list", json!({})).await;
        assert_eq!(failure.code, "function_not_found");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_named_file_outweighs_the_variable_and_that_the_working_directory() {
    let files = tempfile::tempdir().unwrap();
    let config = |name: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, format!("scopes: {{ skills: {name} }}")).unwrap();
        path
    };
    let (flag, variable) = (config("flag"), config("variable"));
    for expected in ["flag", "variable", "directory"] {
        let engine = Engine::start().await;
        let url = engine.url();
        let _attached = Attached::with("scopes: { skills: directory }", |command| {
            command.args(["--url", &url]);
            if expected == "flag" {
                command.arg("--config").arg(&flag);
            }
            if expected != "directory" {
                command.env("III_CONFIG", &variable);
            }
        });
        let worker = engine.worker().await;
        serves(&worker).await;
        register(&worker, "a", "x").await;
        assert_eq!(state(&worker, expected).await.len(), 1, "{expected}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_setting_that_cannot_be_used_is_named_with_its_file() {
    let engine = Engine::start().await;
    let config = "colour: red\nstate_timeout_ms: soon\nscopes: { skills: [1], more: x }\n";
    let attached = Attached::configured(&engine, config).await;
    let said = attached.log().so_far();
    for key in ["colour", "state_timeout_ms", "scopes.skills", "scopes.more"] {
        let line = said.lines().find(|line| line.contains(key));
        let line = line.unwrap_or_else(|| panic!("{key}: {said}"));
        assert!(line.contains("WARN") && line.contains("config.yaml"), "{line}");
    }
    assert_eq!(said.lines().count(), 4, "{said}");
    let worker = engine.worker().await;
    register(&worker, "a", "x").await;
    assert_eq!(state(&worker, "skills").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_state_worker_the_data_directory_is_used_and_that_is_said_once() {
    let engine = Engine::of(Kind { stateless: true, ..Kind::default() }).await;
    let attached = Attached::to(&engine).await;
    let worker = engine.worker().await;
    register(&worker, "a", "# A").await;
    assert!(attached.data_dir().exists());
    let (home, said) = attached.stop().await;
    let warnings = said.lines().filter(|line| line.contains("no state worker")).count();
    assert_eq!(warnings, 1, "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let url = engine.url();
    let _attached = Attached::at(home, |command| {
        command.args(["--url", &url]);
    });
    serves(&worker).await;
    assert_eq!(read(&worker, "iii://a").await, "# A");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_embedded_store_survives_an_engine_without_memory() {
    let mut engine = Engine::start().await;
    let dir = tempfile::tempdir().unwrap();
    let url = engine.url();
    let _attached = Attached::with("store: embedded", |command| {
        command.args(["--url", &url, "--data-dir"]).arg(dir.path().join("here"));
    });
    let worker = engine.worker().await;
    serves(&worker).await;
    register(&worker, "a", "# A").await;
    assert!(state(&worker, "skills").await.is_empty());
    assert!(dir.path().join("here").exists());
    engine.restart_empty().await;
    let worker = engine.worker().await;
    serves(&worker).await;
    assert_eq!(ids(&worker).await, ["a"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_insists_on_the_state_waits_for_it() {
    let mut engine = Engine::of(Kind { stateless: true, ..Kind::default() }).await;
    let attached = Attached::spawn(&engine.url(), "store: state");
    attached.says("waiting for it").await;
    let worker = engine.worker().await;
    holds_for(Duration::from_millis(500), "nobody serves", async || {
        worker.call("skills::list", json!({})).await.is_err()
    })
    .await;
    engine.has_state(true);
    engine.restart().await;
    let worker = engine.worker().await;
    serves(&worker).await;
    register(&worker, "a", "x").await;
    assert_eq!(state(&worker, "skills").await.len(), 1);
    assert!(!attached.data_dir().exists());
}

/// The status of an HTTP request, if there is an answer.
pub(crate) fn status(address: SocketAddr, path: &str) -> Option<u16> {
    let address = address.to_string();
    let said = exchange(&address, &Request::get(path).bytes(&address))?;
    Some(Answer::parse(&said)?.status)
}

/// An address that nobody listens at.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_tells_whether_it_serves() {
    let mut engine = Engine::start().await;
    engine.stop().await;
    let address = free_address();
    let _attached = Attached::spawn(&engine.url(), &format!("http: {address}"));
    eventually("HTTP answers", async || status(address, "/healthz") == Some(200)).await;
    assert_eq!(status(address, "/readyz"), Some(503));
    engine.run().await;
    eventually("it is ready", async || status(address, "/readyz") == Some(200)).await;
    serves(&engine.worker().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_has_a_guard_with_a_token_that_is_not_the_engines() {
    let engine = Engine::start().await;
    let address = free_address();
    let config = format!(
        "http: {address}\nhttp_token: filed\nallow_host: [skills.example]\n\
         allow_origin: ['https://app.example']\n"
    );
    for (variable, token, wrong) in [(None, "filed", "engine"), (Some("web"), "web", "filed")] {
        let attached = Attached::with(&config, |command| {
            command.args(["--url", &engine.url(), "--token", "engine"]);
            command.envs(variable.map(|token| ("SKILLS_HTTP_TOKEN", token)));
        });
        eventually("HTTP answers", async || status(address, "/healthz") == Some(200)).await;
        let ask = |token: &str, name: &str, value: &str| {
            let request = Request::get("/nothing").header(name, value);
            let request = request.header("Authorization", &format!("Bearer {token}"));
            request.send(&address.to_string()).status
        };
        for (name, value, expected) in [
            ("Host", "skills.example", 404),
            ("Host", "evil.example", 403),
            ("Origin", "https://app.example", 404),
            ("Origin", "https://evil.example", 403),
        ] {
            assert_eq!(ask(token, name, value), expected, "{value}");
        }
        assert_eq!(ask(wrong, "Origin", "https://app.example"), 401);
        attached.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_is_for_this_machine_unless_it_has_a_token() {
    let engine = Engine::start().await;
    let attached = Attached::with("http: 0.0.0.0:0", |command| {
        command.args(["--url", &engine.url(), "--token", "engine"]);
    });
    let (_, code, said) = attached.ended().await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("hint: give one with http_token: or SKILLS_HTTP_TOKEN"), "{said}");
}
