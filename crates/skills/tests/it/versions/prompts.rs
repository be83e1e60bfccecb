//! Versions of prompts.

use serde_json::{Value, json};

use super::commands::Commands;
use crate::support::TestServer;

fn add(commands: &Commands, description: &str) -> Value {
    commands.json(&[
        "prompt",
        "add",
        "greet",
        "--function",
        "greet::render",
        "--description",
        description,
        "-m",
        description,
    ])
}

fn walk_through(commands: &Commands) {
    for (number, description) in ["One", "Two", "Three"].into_iter().enumerate() {
        assert_eq!(add(commands, description)["version"], number + 1);
    }
    assert_eq!(add(commands, "Three")["version"], 3, "the same definition is no new version");
    let described = || {
        let list = commands.json(&["prompt", "list"]);
        list["prompts"][0]["description"].as_str().unwrap().to_owned()
    };
    let history = commands.json(&["prompt", "history", "greet"]);
    let messages: Vec<&Value> =
        history["data"].as_array().unwrap().iter().map(|row| &row["message"]).collect();
    assert_eq!(messages, ["Three", "Two", "One"]);
    let diff = commands.json(&["prompt", "diff", "greet@1", "greet@3"]);
    let field = &diff["frontmatter"][0];
    assert_eq!(
        (&field["field"], &field["before"], &field["after"]),
        (&json!("description"), &json!("One"), &json!("Three"))
    );
    assert_eq!(commands.json(&["prompt", "label", "greet@2", "stable"])["served"], 2);
    assert_eq!(described(), "Two");
    assert_eq!(commands.json(&["prompt", "rollback", "greet@1"])["version"], 4);
    assert_eq!(described(), "Two");
    assert_eq!(commands.json(&["prompt", "label", "greet", "stable", "--remove"])["served"], 4);
    assert_eq!(described(), "One");
    assert_eq!(commands.json(&["prompt", "yank", "greet@4", "--reason", "r"])["served"], 3);
    assert_eq!(described(), "Three");
    assert_eq!(commands.json(&["prompt", "yank", "greet@4", "--undo"])["served"], 4);
    let log = commands.json(&["log", "greet"]);
    assert_eq!(log["data"][0]["action"], "prompt.unyank", "{log}");

    let error = commands.error(&["prompt", "history", "gret"]);
    assert_eq!(
        (&error["code"], &error["hint"]),
        (&json!("not_found"), &json!("did you mean greet?"))
    );
    assert_eq!(commands.code(&["prompt", "label", "greet@9", "stable"]), "not_found");
    assert_eq!(commands.code(&["prompt", "diff", "greet@1", "./folder"]), "bad_argument");
}

#[test]
fn prompts_have_versions_in_a_data_directory() {
    let dir = tempfile::tempdir().unwrap();
    walk_through(&Commands::on_data(&dir.path().join("data")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_is_rendered_by_the_function_of_its_version() {
    let server = TestServer::new();
    let commands = Commands::on_server(&server);
    tokio::task::block_in_place(|| walk_through(&commands));
    let worker = server.worker().await;
    let text = |text: &'static str| move |_: Value| Some(Ok(json!(text)));
    worker.serve("greet::render", text("old")).await;
    worker.serve("greet::newer", text("new")).await;
    tokio::task::block_in_place(|| {
        commands.ok(&[
            "prompt",
            "add",
            "greet",
            "--function",
            "greet::newer",
            "--description",
            "N",
        ]);
        assert_eq!(commands.ok(&["prompt", "get", "greet"]), "new\n");
        assert_eq!(commands.ok(&["prompt", "get", "greet@1"]), "old\n");
        assert_eq!(commands.ok(&["prompt", "get", "greet@latest"]), "new\n");
        assert_eq!(commands.code(&["prompt", "get", "greet@9"]), "not_found");
    });
}
