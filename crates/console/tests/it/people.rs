//! Keys, secrets and the log.

use skills_core::Owner;
use skills_vault::{Actor, now};

use crate::{browser::text, test_console::TestConsole};

#[test]
fn keys_are_created_shown_once_and_revoked() {
    let console = TestConsole::open();
    let mut browser = console.browser();
    browser.open("/ui/people");
    let answer = browser.submit(
        "/ui/people/keys",
        &[("uid", "ann"), ("plan", "PRO"), ("label", "<b>laptop"), ("days", "30")],
    );
    let page = text(&answer);
    assert_eq!(answer.status, 200, "{page}");
    let key = page.split_once("us-").unwrap().1.split('<').next().unwrap();
    let key = format!("us-{key}");
    assert!(
        page.contains("PRO") && page.contains("in 29 days") && page.contains("&lt;b&gt;laptop"),
        "{page}"
    );
    let again = browser.open("/ui/people");
    assert!(!again.contains(&key), "a key is shown once");
    let mut ann = console.signed_in(&key);
    assert!(ann.open("/ui").contains("ann"));
    let row = &console.vault.keys(None, 0, 10).unwrap()[0];
    browser.open("/ui/people");
    assert_eq!(browser.submit("/ui/people/revoke", &[("key", &row.id())]).status, 303);
    assert!(browser.open("/ui/people").contains("revoked"));
    assert!(ann.open("/ui").contains("This machine"), "the session has ended");
    let log = browser.open("/ui/people/log");
    assert!(log.contains("key.create") && log.contains("key.revoke"), "{log}");
    assert!(!browser.open("/ui/people/log?q=revoke").contains("key.create"));
}

#[test]
fn changes_of_skills_are_in_a_log_of_their_own() {
    let console = TestConsole::open();
    console.register("weather", "# Weather");
    let mut browser = console.browser();
    let log = browser.open("/ui/people/log?log=skills");
    assert!(log.contains("/ui/skills/weather") && log.contains("skill."), "{log}");
    assert!(log.contains("/ui/skills/weather?tier=official"), "{log}");
    assert!(log.contains("just now</time>"), "{log}");
    assert!(!browser.open("/ui/people/log?log=skills&q=nobody").contains("/ui/skills/weather"));
}

#[test]
fn wrong_values_are_refused_with_a_sentence() {
    let console = TestConsole::open();
    let mut browser = console.browser();
    for (fields, status, words) in [
        (vec![("uid", "")], 400, "fill in the user"),
        (vec![("uid", "a:b")], 422, "uid"),
        (vec![("uid", "ann"), ("days", "0")], 400, "1 to 36500 days"),
        (vec![("uid", "ann"), ("days", "many")], 400, "1 to 36500 days"),
    ] {
        browser.open("/ui/people");
        let answer = browser.submit("/ui/people/keys", &fields);
        assert_eq!(answer.status, status, "{fields:?}");
        assert!(text(&answer).contains(words), "{fields:?}: {}", text(&answer));
    }
    browser.open("/ui/people");
    assert_eq!(browser.submit("/ui/people/revoke", &[("key", "00000000")]).status, 404);
}

#[test]
fn secrets_are_listed_by_name_and_never_by_value() {
    let console = TestConsole::open();
    console.key("ann");
    let owner: Owner = "ann".parse().unwrap();
    let actor = Actor { name: "test", at: now() };
    let name = "TOKEN".parse().unwrap();
    console.vault.set_secret(actor, &owner, None, &name, "the-value").unwrap();
    let page = console.browser().open("/ui/people");
    assert!(page.contains("TOKEN") && !page.contains("the-value"), "{page}");
    assert!(page.contains("just now</time>"), "dates are relative: {page}");
}
