//! Flags, variables and the configuration file.

use std::{net::SocketAddr, time::Duration};

use serde_json::json;
use skills_testkit::{Request, Response, exchange};

use crate::support::{
    attached::{AttachedWorker, wait_until_serving},
    engine::{EngineOptions, TestEngine, state},
    free_address, ids, read, register,
    wait::{eventually, holds_for},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_url_flag_overrides_the_variables() {
    let (flag, url, engine_url) =
        (TestEngine::start().await, TestEngine::start().await, TestEngine::start().await);
    for (engine, with_flag, with_url) in
        [(&flag, true, true), (&url, false, true), (&engine_url, false, false)]
    {
        let attached = AttachedWorker::spawn_with("", |command| {
            if with_flag {
                command.args(["--url", &flag.url()]);
            }
            if with_url {
                command.env("III_URL", url.url());
            }
            command.env("III_ENGINE_URL", engine_url.url());
        });
        wait_until_serving(&engine.worker().await).await;
        attached.stop().await;
    }
    // Each worker attached to its own engine only.
    for engine in [&flag, &url, &engine_url] {
        let failure = engine.worker().await.fails("skills::list", json!({})).await;
        assert_eq!(failure.code, "function_not_found");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_config_flag_overrides_the_variable_and_the_working_directory() {
    let files = tempfile::tempdir().unwrap();
    let config = |name: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, format!("scopes: {{ skills: {name} }}")).unwrap();
        path
    };
    let (flag, variable) = (config("flag"), config("variable"));
    for expected in ["flag", "variable", "directory"] {
        let engine = TestEngine::start().await;
        let url = engine.url();
        let _attached = AttachedWorker::spawn_with("scopes: { skills: directory }", |command| {
            command.args(["--url", &url]);
            if expected == "flag" {
                command.arg("--config").arg(&flag);
            }
            if expected != "directory" {
                command.env("III_CONFIG", &variable);
            }
        });
        let worker = engine.worker().await;
        wait_until_serving(&worker).await;
        register(&worker, "a", "x").await;
        assert_eq!(state(&worker, expected).await.len(), 1, "{expected}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_setting_is_reported_with_its_file() {
    let engine = TestEngine::start().await;
    let config = "colour: red\nstate_timeout_ms: soon\nscopes: { skills: [1], more: x }\n";
    let attached = AttachedWorker::with_config(&engine, config).await;
    let output = attached.log().contents();
    for key in ["colour", "state_timeout_ms", "scopes.skills", "scopes.more"] {
        let line = output.lines().find(|line| line.contains(key));
        let line = line.unwrap_or_else(|| panic!("{key}: {output}"));
        assert!(line.contains("WARN") && line.contains("config.yaml"), "{line}");
    }
    assert_eq!(output.lines().count(), 4, "{output}");
    let worker = engine.worker().await;
    register(&worker, "a", "x").await;
    assert_eq!(state(&worker, "skills").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_state_worker_the_data_directory_is_used_and_logged_once() {
    let engine =
        TestEngine::with_options(EngineOptions { stateless: true, ..EngineOptions::default() })
            .await;
    let attached = AttachedWorker::start(&engine).await;
    let worker = engine.worker().await;
    register(&worker, "a", "# A").await;
    assert!(attached.data_dir().exists());
    let (home, output) = attached.stop().await;
    let warnings = output.lines().filter(|line| line.contains("no state worker")).count();
    assert_eq!(warnings, 1, "{output}");
    assert_eq!(output.lines().count(), 1, "{output}");
    let url = engine.url();
    let _attached = AttachedWorker::spawn_in(home, |command| {
        command.args(["--url", &url]);
    });
    wait_until_serving(&worker).await;
    assert_eq!(read(&worker, "iii://a").await, "# A");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_embedded_store_survives_an_engine_that_lost_its_state() {
    let mut engine = TestEngine::start().await;
    let dir = tempfile::tempdir().unwrap();
    let url = engine.url();
    let _attached = AttachedWorker::spawn_with("store: embedded", |command| {
        command.args(["--url", &url, "--data-dir"]).arg(dir.path().join("here"));
    });
    let worker = engine.worker().await;
    wait_until_serving(&worker).await;
    register(&worker, "a", "# A").await;
    assert!(state(&worker, "skills").await.is_empty());
    assert!(dir.path().join("here").exists());
    engine.restart_empty().await;
    let worker = engine.worker().await;
    wait_until_serving(&worker).await;
    assert_eq!(ids(&worker).await, ["a"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_required_state_worker_is_waited_for() {
    let mut engine =
        TestEngine::with_options(EngineOptions { stateless: true, ..EngineOptions::default() })
            .await;
    let attached = AttachedWorker::spawn(&engine.url(), "store: state");
    attached.says("waiting for it").await;
    let worker = engine.worker().await;
    holds_for(Duration::from_millis(500), "nobody serves", async || {
        worker.call("skills::list", json!({})).await.is_err()
    })
    .await;
    engine.has_state(true);
    engine.restart().await;
    let worker = engine.worker().await;
    wait_until_serving(&worker).await;
    register(&worker, "a", "x").await;
    assert_eq!(state(&worker, "skills").await.len(), 1);
    assert!(!attached.data_dir().exists());
}

/// Returns the status of an HTTP request, if there is an answer.
pub(crate) fn status(address: SocketAddr, path: &str) -> Option<u16> {
    let address = address.to_string();
    let output = exchange(&address, &Request::get(path).bytes(&address))?;
    Some(Response::parse(&output)?.status)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readiness_reports_whether_the_registry_serves() {
    let mut engine = TestEngine::start().await;
    engine.stop().await;
    let address = free_address();
    let _attached = AttachedWorker::spawn(&engine.url(), &format!("http: {address}"));
    eventually("HTTP answers", async || status(address, "/healthz") == Some(200)).await;
    assert_eq!(status(address, "/readyz"), Some(503));
    engine.run().await;
    eventually("it is ready", async || status(address, "/readyz") == Some(200)).await;
    wait_until_serving(&engine.worker().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_has_its_own_token() {
    let engine = TestEngine::start().await;
    let address = free_address();
    let config = format!(
        "http: {address}\nhttp_token: filed-of-16-bytes\nallow_host: [skills.example]\n\
         allow_origin: ['https://app.example']\n"
    );
    let (filed, web) = ("filed-of-16-bytes", "web-token-of-16-bytes");
    for (variable, token, wrong) in [(None, filed, "engine"), (Some(web), web, filed)] {
        let attached = AttachedWorker::spawn_with(&config, |command| {
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
        assert_eq!(ask(wrong, "Origin", "https://app.example"), 401, "{variable:?}");
        attached.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_without_a_token_listens_on_loopback_only() {
    let engine = TestEngine::start().await;
    let attached = AttachedWorker::spawn_with("http: 0.0.0.0:0", |command| {
        command.args(["--url", &engine.url(), "--token", "engine"]);
    });
    let (_, code, output) = attached.ended().await;
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("hint: give one with http_token: or SKILLS_HTTP_TOKEN"), "{output}");
}
