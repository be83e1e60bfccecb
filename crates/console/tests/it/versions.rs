//! Versions: the timeline, comparison, promotion, rollback and yank, without scripts.

use crate::{
    browser::{assert_harmless, text},
    test_console::{ADMIN_KEY, Credentials, TOKEN, TestConsole},
};

const PATH: &str = "/ui/skills/notes?tab=versions";

/// Starts a console with three versions of a skill.
fn console() -> TestConsole {
    let console = TestConsole::open();
    for (number, tools) in [(1, "Read"), (2, "Read Bash(git:*)"), (3, "Read Bash(git:*)")] {
        let head =
            format!("---\nname: notes\ndescription: Write notes.\nallowed-tools: {tools}\n---\n");
        console.register("notes", &format!("{head}# Notes\n\nText {number} <b>.\n"));
    }
    console
}

#[test]
fn versions_are_listed_and_read() {
    let console = console();
    let mut browser = console.browser();
    let page = browser.open(PATH);
    for number in 1..=3 {
        assert!(page.contains(&format!("Version {number}")), "{page}");
    }
    assert_eq!(page.matches(">served<").count(), 1);
    assert_harmless(&page, "versions");
    let first = browser.open("/ui/skills/notes?version=1");
    assert!(first.contains("Text 1") && first.contains("You look at one version"), "{first}");
    assert!(browser.open("/ui/skills/notes?version=1&tab=files").contains("version=1"));
    assert_eq!(browser.get("/ui/skills/notes?version=9").status, 404);
}

#[test]
fn two_versions_are_compared_beginning_with_what_the_change_allows() {
    let console = console();
    let mut browser = console.browser();
    let page = browser.open(&format!("{PATH}&from=1&to=3"));
    assert!(page.contains("This change allows more") && page.contains("Bash(git:*)"), "{page}");
    assert!(page.contains("class=\"del\"") && page.contains("Text 3 &lt;b&gt;"), "{page}");
    assert_harmless(&page, "comparison");
    let same = browser.open(&format!("{PATH}&from=2&to=2"));
    assert!(same.contains("No file is different"), "{same}");
}

#[test]
fn a_version_is_promoted_rolled_back_and_yanked() {
    let console = console();
    let mut browser = console.browser();
    browser.open(PATH);
    let target = |version| [("id", "notes"), ("tier", "official"), ("version", version)];
    let with = |version, field, value| {
        let mut fields = target(version).to_vec();
        fields.push((field, value));
        fields
    };
    let promoted = browser.submit("/ui/versions/label", &with("2", "label", "stable"));
    assert_eq!(promoted.status, 303, "{}", text(&promoted));
    assert!(console.read("iii://notes").unwrap().contains("Text 2"));
    assert_eq!(
        browser.submit("/ui/versions/label", &with("2", "label", "Not A Label")).status,
        422
    );
    let yanked = browser.submit("/ui/versions/yank", &with("2", "reason", "It is <wrong>"));
    assert_eq!(yanked.status, 303, "{}", text(&yanked));
    let page = browser.open(PATH);
    assert!(page.contains("It is &lt;wrong&gt;") && page.contains("Undo the yank of 2"), "{page}");
    let back = browser.submit("/ui/versions/rollback", &with("1", "message", "As before"));
    assert_eq!(back.status, 303, "{}", text(&back));
    let page = browser.open(PATH);
    assert!(page.contains("Version 4") && page.contains("As before"), "{page}");
    let mut undo = target("2").to_vec();
    undo.extend([("reason", "undone"), ("undo", "yes")]);
    assert_eq!(browser.submit("/ui/versions/yank", &undo).status, 303);
    assert!(!browser.open(PATH).contains("Undo the yank"));
}

#[test]
fn a_protected_label_is_moved_by_an_administrator_alone() {
    let console = TestConsole::with(Credentials { admin_key: true, ..Credentials::default() });
    console.register("notes", "# Notes");
    let fields = [("id", "notes"), ("tier", "official"), ("version", "1"), ("label", "reviewed")];
    let mut local = console.browser();
    local.open(PATH);
    assert_eq!(local.submit("/ui/versions/label", &fields).status, 403);
    let mut admin = console.signed_in(ADMIN_KEY);
    admin.open(PATH);
    assert_eq!(admin.submit("/ui/versions/label", &fields).status, 303);
}

#[test]
fn only_people_who_may_write_change_versions() {
    let console = TestConsole::with(Credentials { token: true, admin_key: true });
    console.register("notes", "# Notes");
    let mut browser = console.signed_in(TOKEN);
    assert!(!browser.open(PATH).contains("/ui/versions/"));
    for path in ["/ui/versions/label", "/ui/versions/rollback", "/ui/versions/yank"] {
        let fields = [
            ("id", "notes"),
            ("tier", "official"),
            ("version", "1"),
            ("label", "x"),
            ("reason", "x"),
        ];
        assert_eq!(browser.submit(path, &fields).status, 403, "{path}");
    }
}
