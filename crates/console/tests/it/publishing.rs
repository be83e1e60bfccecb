//! Publishing without scripts: paste, folder, archive, review, confirmation, removal.

use std::io::Write as _;

use crate::{
    browser::{Browser, assert_harmless, text},
    test_console::TestConsole,
};

const DOCUMENT: &str =
    "---\nname: notes\ndescription: Write notes. Use before a release.\n---\n# Notes\n\nOne.\n";

/// Returns the draft that a review waits to be confirmed.
fn draft(page: &str) -> String {
    let (_, rest) = page.split_once("name=\"draft\" value=\"").expect(page);
    rest.split('"').next().unwrap().to_owned()
}

fn review(browser: &mut Browser, fields: &[(&str, &str)], files: &[(&str, &[u8])]) -> String {
    browser.open("/ui/publish");
    let answer = browser.upload("/ui/publish/review", fields, files);
    assert_eq!(answer.status, 200, "{}", text(&answer));
    assert_harmless(&text(&answer), "review");
    text(&answer)
}

fn publish(browser: &mut Browser, fields: &[(&str, &str)], files: &[(&str, &[u8])]) -> String {
    let page = review(browser, fields, files);
    let answer = browser.submit("/ui/publish/confirm", &[("draft", &draft(&page))]);
    assert_eq!(answer.status, 303, "{}", text(&answer));
    answer.header("location").unwrap()
}

#[test]
fn pasted_text_is_reviewed_then_published_and_keeps_its_line_ends() {
    let console = TestConsole::open();
    let mut browser = console.browser();
    let pasted = DOCUMENT.replace('\n', "\r\n");
    let page = review(&mut browser, &[("tier", "official"), ("text", &pasted)], &[]);
    assert!(page.contains("All files are new"), "{page}");
    assert_eq!(console.read("iii://notes"), None, "a review changes nothing");
    let location = publish(&mut browser, &[("tier", "official"), ("text", &pasted)], &[]);
    assert_eq!(location, "/ui/skills/notes?tier=official");
    assert_eq!(console.read("iii://notes").as_deref(), Some(DOCUMENT));
}

#[test]
fn the_page_of_a_skill_says_where_it_came_from() {
    let console = TestConsole::open();
    let mut browser = console.browser();
    publish(&mut browser, &[("tier", "official"), ("text", DOCUMENT)], &[]);
    console.register_from("/skills/pdf", "pdf", "# PDF");
    for (path, wanted) in [
        ("/ui/skills/notes", "<span class=\"source\">published in the console</span>"),
        ("/ui/skills/notes?tab=trust", "<dd>published in the console</dd>"),
        ("/ui/skills/pdf", "<span class=\"source\">from <bdi>/skills/pdf</bdi></span>"),
        ("/ui/skills/pdf?tab=trust", "<dd><bdi>/skills/pdf</bdi></dd>"),
    ] {
        let page = browser.open(path);
        assert!(page.contains(wanted), "{path}: {page}");
    }
}

#[test]
fn a_change_is_shown_as_a_difference_and_other_files_are_kept() {
    let console = TestConsole::open();
    let mut browser = console.browser();
    let files: [(&str, &[u8]); 2] =
        [("notes/SKILL.md", DOCUMENT.as_bytes()), ("notes/scripts/log.sh", b"#!/bin/sh\n")];
    publish(&mut browser, &[("tier", "market")], &files);
    let form = browser.open("/ui/publish?id=notes&tier=market");
    assert!(form.contains("One.") && form.contains("Keep the other files"), "{form}");
    let changed = DOCUMENT.replace("One.", "Two.");
    let page = review(
        &mut browser,
        &[("id", "notes"), ("tier", "market"), ("text", &changed), ("keep", "yes")],
        &[],
    );
    assert!(
        page.contains("class=\"del\"")
            && page.contains("class=\"add\"")
            && !page.contains("removed)"),
        "{page}"
    );
    let without =
        review(&mut browser, &[("id", "notes"), ("tier", "market"), ("text", &changed)], &[]);
    assert!(without.contains("scripts/log.sh") && without.contains("(removed)"), "{without}");
    publish(
        &mut browser,
        &[("id", "notes"), ("tier", "market"), ("text", &changed), ("keep", "yes")],
        &[],
    );
    assert_eq!(console.read("iii://notes/scripts/log.sh").as_deref(), Some("#!/bin/sh\n"));
}

#[test]
fn an_archive_is_unpacked() {
    let console = TestConsole::open();
    let mut browser = console.browser();
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    for (path, text) in [("notes/SKILL.md", DOCUMENT), ("notes/a.txt", "a")] {
        writer.start_file(path, options).unwrap();
        writer.write_all(text.as_bytes()).unwrap();
    }
    let archive = writer.finish().unwrap().into_inner();
    publish(&mut browser, &[("tier", "official")], &[("notes.zip", &archive)]);
    assert_eq!(console.read("iii://notes/a.txt").as_deref(), Some("a"));
    browser.open("/ui/publish");
    let answer = browser.upload(
        "/ui/publish/review",
        &[("tier", "official")],
        &[("notes.zip", b"PK\x03\x04 not a zip")],
    );
    assert_eq!(answer.status, 422);
    assert!(text(&answer).contains("the archive cannot be read"), "{}", text(&answer));
}

#[test]
fn unusable_input_keeps_what_was_typed_and_says_what_to_do() {
    let console = TestConsole::open();
    let mut browser = console.browser();
    for (fields, words) in [
        (vec![("tier", "official")], "paste a document"),
        (vec![("tier", "official"), ("text", "# No name")], "fill in the id"),
        (vec![("tier", "official"), ("text", "# X"), ("id", "Not An Id")], "id"),
        (vec![("tier", "nowhere"), ("text", "# X")], "choose a tier"),
    ] {
        browser.open("/ui/publish");
        let answer = browser.upload("/ui/publish/review", &fields, &[]);
        let page = text(&answer);
        assert!(answer.status == 400 || answer.status == 422, "{fields:?}: {}", answer.status);
        assert!(page.contains(words), "{fields:?}: {page}");
        if let Some((_, typed)) =
            fields.iter().find(|(name, _)| *name == "text").filter(|_| words != "choose a tier")
        {
            assert!(page.contains(typed), "{fields:?} is still in the form");
        }
    }
}

#[test]
fn a_version_that_came_meanwhile_is_not_overwritten() {
    let console = TestConsole::open();
    let mut browser = console.browser();
    let page =
        review(&mut browser, &[("id", "notes"), ("tier", "official"), ("text", DOCUMENT)], &[]);
    console.register("notes", "# Somebody else");
    let answer = browser.submit("/ui/publish/confirm", &[("draft", &draft(&page))]);
    assert_eq!(answer.status, 409, "{}", text(&answer));
    assert_eq!(console.read("iii://notes").as_deref(), Some("# Somebody else"));
    let again = browser.submit("/ui/publish/confirm", &[("draft", &draft(&page))]);
    assert_eq!(again.status, 403, "a draft is used once");
}

#[test]
fn a_draft_of_another_session_cannot_be_confirmed() {
    let console = TestConsole::open();
    let (mut one, mut other) = (console.browser(), console.browser());
    let page = review(&mut one, &[("id", "notes"), ("tier", "official"), ("text", DOCUMENT)], &[]);
    other.open("/ui/sign-in");
    assert_eq!(other.submit("/ui/publish/confirm", &[("draft", &draft(&page))]).status, 403);
    assert_eq!(console.read("iii://notes"), None);
}

#[test]
fn the_document_is_validated_while_it_is_typed() {
    let console = TestConsole::open();
    let mut browser = console.browser();
    browser.open("/ui/publish");
    let answer = browser
        .submit("/ui/publish/check", &[("id", "x"), ("text", "---\nname: Bad Name\n---\n# X")]);
    let fragment = text(&answer);
    assert_eq!(answer.status, 200, "{fragment}");
    assert!(
        fragment.contains("line 2")
            && fragment.contains("class=\"hint\"")
            && !fragment.contains("<html"),
        "{fragment}"
    );
    console.register("bad", "---\nname: Bad Name\n---\n# X");
    let edit = browser.open("/ui/publish?id=bad");
    assert!(edit.contains("data-line=\"2\""), "an opened document is validated: {edit}");
    let valid = text(&browser.submit("/ui/publish/check", &[("id", "notes"), ("text", DOCUMENT)]));
    assert!(valid.contains("Valid"), "{valid}");
}

#[test]
fn a_skill_is_removed_after_its_name_was_typed() {
    let console = TestConsole::open();
    console.register("notes", "# Notes");
    let mut browser = console.browser();
    browser.open("/ui/skills/notes");
    let fields = |confirm| [("id", "notes"), ("tier", "official"), ("confirm", confirm)];
    assert_eq!(browser.submit("/ui/remove", &fields("note")).status, 400);
    assert!(console.read("iii://notes").is_some());
    assert_eq!(browser.submit("/ui/remove", &fields("notes")).status, 303);
    assert!(console.read("iii://notes").is_none());
}

#[test]
fn a_pasted_document_may_keep_the_files_that_it_would_remove() {
    let console = TestConsole::open();
    let mut browser = console.browser();
    let files: [(&str, &[u8]); 2] =
        [("notes/SKILL.md", DOCUMENT.as_bytes()), ("notes/log.sh", b"#!/bin/sh\n")];
    assert!(!browser.open("/ui/publish").contains("Keep the other files"));
    publish(&mut browser, &[("tier", "official")], &files);
    console.register("plain", "# Plain");
    assert!(!browser.open("/ui/publish?id=plain").contains("Keep the other files"));
    let changed = format!("\n{}", DOCUMENT.replace("One.", "Two."));
    let fields = [("id", "notes"), ("tier", "official"), ("text", changed.as_str())];
    let page = review(&mut browser, &fields, &[]);
    assert!(page.contains("1 other file, which this one leaves out"), "{page}");
    assert!(page.contains("readonly>\n\n---"), "the first line end is kept: {page}");
    let kept = review(&mut browser, &[&fields[..], &[("keep", "yes")]].concat(), &[]);
    assert!(!kept.contains("leaves out") && !kept.contains("(removed)"), "{kept}");
    let wrong = [("id", "notes"), ("tier", "official"), ("text", ""), ("keep", "yes")];
    let answer = browser.upload("/ui/publish/review", &wrong, &[]);
    assert!(text(&answer).contains("Keep the other files of the present version (1)"));
}

#[test]
fn only_people_with_a_private_tier_read_about_it() {
    let console = TestConsole::open();
    assert!(!console.browser().open("/ui/publish").contains("seen by you alone"));
    let key = console.key("ann");
    assert!(console.signed_in(&key).open("/ui/publish").contains("seen by you alone"));
}
