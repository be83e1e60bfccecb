use std::fs;

use serde_json::{Value, json};

use super::{answer, document, json_answer, put, skills, text};

/// Two folders of different authors with a skill of one name.
struct TwoSources {
    dir: tempfile::TempDir,
}

impl TwoSources {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), "acme/weather/SKILL.md", document("weather", "By acme."));
        put(dir.path(), "other/weather/SKILL.md", document("weather", "By the other."));
        put(dir.path(), "other/tide/SKILL.md", document("tide", "Tide."));
        let sources = Self { dir };
        sources.add(&["acme"]);
        sources
    }

    fn arguments(&self, command: &str, arguments: &[&str]) -> Vec<String> {
        let data = self.dir.path().join("data");
        let mut all = vec!["--data-dir".to_owned(), text(&data).to_owned(), command.to_owned()];
        all.extend(arguments.iter().map(|argument| match *argument {
            "acme" | "other" => text(&self.dir.path().join(argument)).to_owned(),
            argument => argument.to_owned(),
        }));
        all
    }

    fn run(&self, command: &str, arguments: &[&str]) -> skills_testkit::CommandOutput {
        let arguments = self.arguments(command, arguments);
        skills(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn add(&self, arguments: &[&str]) -> String {
        let arguments = self.arguments("add", arguments);
        answer(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn show(&self, id: &str) -> Value {
        let arguments = self.arguments("show", &[id]);
        json_answer(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn body(&self, id: &str) -> String {
        self.show(id)["skill"].as_str().unwrap().to_owned()
    }
}

#[test]
fn a_skill_of_another_source_is_not_replaced() {
    let sources = TwoSources::new();
    let ran = sources.run("add", &["other"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.starts_with("registered iii://tide ("), "{}", ran.stdout);
    assert!(
        ran.stdout.ends_with("\nadded 1, changed 0, unchanged 0, failed 1\n"),
        "{}",
        ran.stdout
    );
    for words in
        ["iii://weather came from ", "acme/weather, and ", "other/weather would replace it"]
    {
        assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
    assert!(ran.stderr.contains("hint: replace it with --replace"), "{}", ran.stderr);
    assert!(sources.body("weather").contains("By acme."));
    // The same source may change its skill.
    put(sources.dir.path(), "acme/weather/SKILL.md", document("weather", "By acme, again."));
    assert!(sources.add(&["acme"]).starts_with("registered iii://weather ("));
    // Equal content replaces nothing.
    put(sources.dir.path(), "other/weather/SKILL.md", document("weather", "By acme, again."));
    assert_eq!(sources.add(&["other"]), "added 0, changed 0, unchanged 2, failed 0\n");
    let shown = sources.show("weather");
    assert_eq!(shown["source"]["kind"], "path");
    assert!(shown["source"]["location"].as_str().unwrap().ends_with("acme/weather"), "{shown}");
}

#[test]
fn conflicts_are_resolved_as_the_user_says() {
    let sources = TwoSources::new();
    let skipped = sources.add(&["other", "--on-conflict", "skip"]);
    assert!(skipped.contains("skipped iii://weather: it came from "), "{skipped}");
    assert!(sources.body("weather").contains("By acme."));

    sources.add(&["other", "--prefix", "other-"]);
    assert!(sources.body("other-weather").contains("By the other."));

    for _ in 0..2 {
        let ran = sources.run("add", &["other", "--on-conflict", "rename"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stderr.contains("becomes weather-2, since weather is taken"), "{}", ran.stderr);
    }
    assert!(sources.body("weather-2").contains("By the other."));
    assert_eq!(sources.run("show", &["weather-3"]).code, Some(1), "the second time is no conflict");

    let replaced = sources.add(&["other", "--replace"]);
    assert!(replaced.contains("replaced iii://weather ("), "{replaced}");
    assert!(replaced.contains("acme/weather\n"), "{replaced}");
    assert!(sources.body("weather").contains("By the other."));
}

#[test]
fn a_dry_run_names_the_result_of_each_skill() {
    let sources = TwoSources::new();
    put(sources.dir.path(), "acme/new/SKILL.md", document("new", ""));
    put(sources.dir.path(), "acme/same/SKILL.md", document("same", ""));
    sources.add(&["acme", "--dry-run"]);
    fs::remove_dir_all(sources.dir.path().join("acme/new")).unwrap();
    sources.add(&["acme"]);
    put(sources.dir.path(), "acme/new/SKILL.md", document("new", ""));
    put(sources.dir.path(), "acme/weather/SKILL.md", document("weather", "Changed."));
    let dry = sources.add(&["acme", "--dry-run"]);
    let lines: Vec<&str> = dry.lines().map(|line| line.split(" (").next().unwrap()).collect();
    assert_eq!(
        lines,
        [
            "new iii://new",
            "unchanged iii://same",
            "changed iii://weather",
            "added 1, changed 1, unchanged 1, failed 0"
        ]
    );
    let replaces = sources.add(&["other", "--replace", "--dry-run"]);
    assert!(replaces.contains("replaces iii://weather ("), "{replaces}");
    let refused = sources.run("add", &["other", "--dry-run"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stdout.contains("refused iii://weather\n"), "{}", refused.stdout);
    let rows = sources.run("add", &["other", "--dry-run", "--json"]);
    let rows: Value = serde_json::from_str(&rows.stdout).unwrap();
    assert_eq!(rows["skills"][1]["error"]["code"], "source_conflict", "{rows}");
    assert_eq!(rows["summary"]["failed"], json!(1));
}

#[test]
fn content_of_a_worker_and_of_stdin_have_sources_too() {
    let sources = TwoSources::new();
    let ran = sources.run("show", &["weather"]);
    assert!(ran.stdout.contains("source"), "{}", ran.stdout);
    let server = crate::support::TestServer::new();
    let url = server.process.url.as_str();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let worker = server.worker().await;
        crate::support::register(&worker, "weather", "# Of a worker\n").await;
    });
    let acme = sources.dir.path().join("acme");
    let ran = skills(&["--url", url, "add", text(&acme)]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("iii://weather came from worker "), "{}", ran.stderr);
    let added = answer(&["--url", url, "add", text(&acme), "--replace"]);
    assert!(added.contains("which came from worker "), "{added}");
    assert_eq!(json_answer(&["--url", url, "show", "weather"])["source"]["kind"], "path");
}
