//! The command line, with a key for a server that is running.

use serde_json::Value;
use skills_testkit::{Ran, program, run};

use crate::{
    site::{ANN, BOB, Site, column, three},
    support::BINARY,
};

async fn skills(site: &Site, key: Option<&'static str>, arguments: &[&'static str]) -> Ran {
    let mut command = program(BINARY);
    command.args(["--url", &site.bus]).args(arguments).current_dir(std::env::temp_dir());
    if let Some(key) = key {
        command.env("SKILLS_KEY", key);
    }
    tokio::task::spawn_blocking(move || run(&mut command)).await.unwrap()
}

async fn json(site: &Site, key: Option<&'static str>, arguments: &[&'static str]) -> Value {
    let ran = skills(site, key, &[arguments, &["--json"]].concat()).await;
    assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

async fn refused(site: &Site, key: Option<&'static str>, arguments: &[&'static str]) -> String {
    let ran = skills(site, key, &[arguments, &["--json"]].concat()).await;
    assert_eq!(ran.code, Some(1), "{arguments:?}");
    assert!(key.is_none_or(|key| !ran.stderr.contains(key)), "{}", ran.stderr);
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    error["error"]["code"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_manages_their_private_skills() {
    let site = Site::new().await;
    three(&site.worker().await, "weather").await;
    let (ann, bob) = (Some(ANN), Some(BOB));
    let tiers = async |key, arguments: &[&'static str]| {
        column(&json(&site, key, arguments).await["skills"], "tier")
    };
    assert_eq!(tiers(ann, &["list"]).await, ["private"]);
    assert_eq!(tiers(bob, &["list"]).await, ["official"]);
    assert_eq!(tiers(ann, &["list", "--all"]).await, ["private", "official", "market"]);
    assert_eq!(tiers(None, &["list", "--all"]).await, ["official", "market"]);
    assert_eq!(tiers(ann, &["list", "--all", "--tier", "market"]).await, ["market"]);

    let shown = json(&site, ann, &["show", "weather", "--explain"]).await;
    assert_eq!(shown["tier"], "private");
    assert_eq!(column(&shown["shadows"], "tier"), ["official", "market"]);
    let market = skills(&site, ann, &["show", "weather", "--tier", "market"]).await;
    assert!(market.stdout.contains("# market"), "{}", market.stdout);
    let read = skills(&site, ann, &["read", "skill://official/weather"]).await;
    assert!(read.stdout.starts_with("# official"), "{}", read.stdout);
    assert_eq!(refused(&site, None, &["read", "skill://private/weather"]).await, "not_found");

    let remove = ["remove", "weather", "--tier", "private"];
    assert_eq!(refused(&site, None, &remove).await, "key_needed");
    assert_eq!(refused(&site, Some("us-nobody"), &remove).await, "unknown_key");
    assert_eq!(json(&site, bob, &remove).await["skills"][0]["removed"], false);
    assert_eq!(json(&site, ann, &remove).await["skills"][0]["removed"], true);
    assert_eq!(tiers(ann, &["list"]).await, ["official"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn skills_are_added_to_a_tier() {
    let site = Site::new().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.md");
    std::fs::write(&file, "# Mine\n\nOf my own.\n").unwrap();
    let add = async |key: Option<&'static str>, tier: &'static str| {
        let mut command = program(BINARY);
        command.args(["--url", &site.bus, "add"]).arg(&file).args(["--tier", tier, "--json"]);
        if let Some(key) = key {
            command.env("SKILLS_KEY", key);
        }
        tokio::task::spawn_blocking(move || run(&mut command)).await.unwrap()
    };
    let status = |ran: &Ran| {
        let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
        answer["skills"][0]["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(status(&add(Some(ANN), "private").await), "added");
    assert_eq!(status(&add(Some(ANN), "private").await), "unchanged");
    assert_eq!(status(&add(Some(ANN), "market").await), "added", "another tier is another place");
    assert_eq!(add(None, "private").await.code, Some(1));
    let rows = json(&site, Some(ANN), &["list", "--all"]).await;
    assert_eq!(column(&rows["skills"], "tier"), ["private", "market"]);
}
