//! The command line with a key, against a running server.

use serde_json::Value;
use skills_testkit::{CommandOutput, program, run};

use crate::{
    support::{BINARY, terminal::with_typed_line},
    tiers::fixture::{ANN, BOB, InProcessServer, column, register_in_three_tiers},
};

async fn skills(
    server: &InProcessServer,
    key: Option<&'static str>,
    arguments: &[&'static str],
) -> CommandOutput {
    let mut command = program(BINARY);
    command.args(["--url", &server.bus]).args(arguments).current_dir(std::env::temp_dir());
    if let Some(key) = key {
        command.env("SKILLS_KEY", key);
    }
    tokio::task::spawn_blocking(move || run(&mut command)).await.unwrap()
}

async fn json(
    server: &InProcessServer,
    key: Option<&'static str>,
    arguments: &[&'static str],
) -> Value {
    let ran = skills(server, key, &[arguments, &["--json"]].concat()).await;
    assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

async fn refused(
    server: &InProcessServer,
    key: Option<&'static str>,
    arguments: &[&'static str],
) -> String {
    let ran = skills(server, key, &[arguments, &["--json"]].concat()).await;
    assert_eq!(ran.code, Some(1), "{arguments:?}");
    assert!(key.is_none_or(|key| !ran.stderr.contains(key)), "{}", ran.stderr);
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    error["error"]["code"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_manages_their_private_skills() {
    let server = InProcessServer::new().await;
    register_in_three_tiers(&server.worker().await, "weather").await;
    let (ann, bob) = (Some(ANN), Some(BOB));
    let tiers = async |key, arguments: &[&'static str]| {
        column(&json(&server, key, arguments).await["skills"], "tier")
    };
    assert_eq!(tiers(ann, &["list"]).await, ["private"]);
    assert_eq!(tiers(bob, &["list"]).await, ["official"]);
    assert_eq!(tiers(ann, &["list", "--all"]).await, ["private", "official", "market"]);
    assert_eq!(tiers(None, &["list", "--all"]).await, ["official", "market"]);
    assert_eq!(tiers(ann, &["list", "--all", "--tier", "market"]).await, ["market"]);

    let shown = json(&server, ann, &["show", "weather", "--explain"]).await;
    assert_eq!(shown["tier"], "private");
    assert_eq!(column(&shown["shadows"], "tier"), ["official", "market"]);
    let market = skills(&server, ann, &["show", "weather", "--tier", "market"]).await;
    assert!(market.stdout.contains("# market"), "{}", market.stdout);
    let read = skills(&server, ann, &["read", "skill://official/weather"]).await;
    assert!(read.stdout.starts_with("# official"), "{}", read.stdout);
    assert_eq!(refused(&server, None, &["read", "skill://private/weather"]).await, "not_found");

    let remove = ["remove", "weather", "--tier", "private"];
    assert_eq!(refused(&server, None, &remove).await, "key_needed");
    assert_eq!(refused(&server, Some("us-nobody"), &remove).await, "unknown_key");
    let nothing = skills(&server, bob, &remove).await;
    assert_eq!((nothing.code, nothing.stdout.as_str()), (Some(1), ""), "{}", nothing.stderr);
    assert!(nothing.stderr.contains("skill not found in the private tier: weather"));
    assert_eq!(json(&server, ann, &remove).await["skills"][0]["removed"], true);
    assert_eq!(tiers(ann, &["list"]).await, ["official"]);
}

/// `remove` and `show` mean the same skill.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn remove_resolves_names_as_show_does() {
    let server = InProcessServer::new().await;
    register_in_three_tiers(&server.worker().await, "weather").await;
    for (key, tier) in [(Some(ANN), "private"), (Some(ANN), "official"), (None, "market")] {
        let shown = json(&server, key, &["show", "weather"]).await;
        assert_eq!(shown["tier"], tier, "{key:?}");
        let ran = skills(&server, key, &["remove", "weather"]).await;
        assert_eq!(ran.stdout, format!("removed iii://weather ({tier})\n"), "{}", ran.stderr);
    }
    let ran = skills(&server, Some(ANN), &["remove", "weather"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("skill not found: weather"), "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removing_what_others_see_is_confirmed_on_a_terminal() {
    let server = InProcessServer::new().await;
    register_in_three_tiers(&server.worker().await, "weather").await;
    let typed = async |arguments: &[&'static str], line: &'static str| {
        let mut command = program(BINARY);
        command.args(["--url", &server.bus, "remove", "weather"]).args(arguments);
        command.env("SKILLS_KEY", ANN);
        tokio::task::spawn_blocking(move || with_typed_line(command, line)).await.unwrap()
    };
    // The caller's own skill needs no question.
    let (text, code) = typed(&[], "n").await;
    assert!(text.contains("removed iii://weather (private)"), "{text}");
    assert_eq!(code, Some(0));
    let (text, _) = typed(&[], "n").await;
    assert!(text.contains("from the official tier, for all users? [y/N]"), "{text}");
    assert!(text.contains("kept iii://weather (official)"), "{text}");
    let (text, _) = typed(&[], "y").await;
    assert!(text.contains("removed iii://weather (official)"), "{text}");
    let (text, _) = typed(&["--yes"], "n").await;
    assert!(text.contains("removed iii://weather (market)") && !text.contains("[y/N]"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn skills_are_added_to_a_tier() {
    let server = InProcessServer::new().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.md");
    std::fs::write(&file, "# Mine\n\nOf my own.\n").unwrap();
    let add = async |key: Option<&'static str>, tier: &'static str| {
        let mut command = program(BINARY);
        command.args(["--url", &server.bus, "add"]).arg(&file).args(["--tier", tier, "--json"]);
        if let Some(key) = key {
            command.env("SKILLS_KEY", key);
        }
        tokio::task::spawn_blocking(move || run(&mut command)).await.unwrap()
    };
    let status = |ran: &CommandOutput| {
        let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
        answer["skills"][0]["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(status(&add(Some(ANN), "private").await), "added");
    assert_eq!(status(&add(Some(ANN), "private").await), "unchanged");
    assert_eq!(status(&add(Some(ANN), "market").await), "added", "another tier is another place");
    assert_eq!(add(None, "private").await.code, Some(1));
    let rows = json(&server, Some(ANN), &["list", "--all"]).await;
    assert_eq!(column(&rows["skills"], "tier"), ["private", "market"]);
}
