use bytes::Bytes;
use serde_json::json;
use skills_agent_skills::Bundle;
use skills_core::{MemoryBudget, OverBudget, PromptDefinition};

use super::*;

fn bundle(root: &str, files: &[(&str, &[u8])]) -> ComparedSkill {
    let files =
        files.iter().map(|(path, bytes)| (path.parse().unwrap(), Bytes::copy_from_slice(bytes)));
    ComparedSkill::from_bundle(&Bundle::new(root.to_owned(), files.collect()).unwrap())
}

fn diff_skills(from: &ComparedSkill, to: &ComparedSkill) -> VersionDiff {
    compare(from, to, &mut RunningWork::of_process()).unwrap()
}

fn statuses(diff: &VersionDiff) -> Vec<(&str, FileStatus)> {
    diff.files.iter().map(|file| (file.path.as_str(), file.status)).collect()
}

#[test]
fn equal_sides_do_not_differ() {
    let side = bundle("# T\n", &[("a.md", b"a"), ("b.bin", b"\0")]);
    let diff = diff_skills(&side, &side.clone());
    assert_eq!(diff.from, diff.to);
    assert!(diff.files.is_empty() && diff.frontmatter.is_empty() && diff.allows.is_empty());
    assert!(!diff.truncated);
}

#[test]
fn files_are_added_removed_changed_and_renamed() {
    let from = bundle(
        "# T\n",
        &[
            ("a.md", b"one\ntwo\n"),
            ("gone.md", b"gone\n"),
            ("old/name.bin", b"\0\x01"),
            ("x.bin", b"\0"),
        ],
    );
    let to = bundle(
        "# T\n",
        &[
            ("a.md", b"one\n2\n"),
            ("new.md", b"new"),
            ("new/name.bin", b"\0\x01"),
            ("x.bin", b"\0\0"),
        ],
    );
    let diff = diff_skills(&from, &to);
    assert_eq!(
        statuses(&diff),
        [
            ("a.md", FileStatus::Changed),
            ("gone.md", FileStatus::Removed),
            ("new.md", FileStatus::Added),
            ("new/name.bin", FileStatus::Renamed),
            ("x.bin", FileStatus::Changed),
        ]
    );
    let [changed, removed, added, renamed, binary] = &diff.files[..] else { panic!() };
    let text = "--- a/a.md\n+++ b/a.md\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n";
    assert_eq!(changed.diff.as_deref(), Some(text));
    assert!(removed.after.is_none() && removed.diff.as_deref().unwrap().contains("-gone"));
    let text = added.diff.as_deref().unwrap();
    assert!(text.starts_with("--- /dev/null\n+++ b/new.md\n") && text.contains("No newline"));
    assert_eq!(renamed.before.as_ref().unwrap().path, "old/name.bin");
    assert_eq!((&renamed.diff, renamed.binary), (&None, false));
    assert_eq!((&binary.diff, binary.binary, binary.truncated), (&None, true, false));
    assert_eq!(binary.after.as_ref().unwrap().size, 2);
}

#[test]
fn changes_of_the_frontmatter_come_first() {
    let from =
        bundle("---\nname: a\ndescription: d\nmetadata:\n  version: '1'\n  x: why\n---\n", &[]);
    let to =
        bundle("---\nname: a\ndescription: e\nmetadata:\n  version: '2'\nlicense: MIT\n---\n", &[]);
    let change = |field: &str, before, after| FieldChange { field: field.into(), before, after };
    assert_eq!(
        diff_skills(&from, &to).frontmatter,
        [
            change("description", Some(json!("d")), Some(json!("e"))),
            change("license", None, Some(json!("MIT"))),
            change("metadata.version", Some(json!("1")), Some(json!("2"))),
            change("metadata.x", Some(json!("why")), None),
        ]
    );
}

#[test]
fn what_the_later_side_allows_is_called_out() {
    let from = bundle(
        "---\nname: a\ndescription: d\nallowed-tools: Read\n---\nhttps://a.example/x.\n",
        &[("tool", b"text"), ("run", b"#!/bin/sh\n")],
    );
    let to = bundle(
        "---\nname: a\ndescription: d\nallowed-tools: Read Bash(git *)\n---\n[b](https://b.example/y)\n",
        &[
            ("keep.md", b"see https://a.example/x, http://"),
            ("scripts/get.py", b"import x # http://c.example"),
            ("tool", b"#!/bin/sh\ncurl https://b.example/y"),
            ("moved", b"#!/bin/sh\n"),
        ],
    );
    let allows = diff_skills(&from, &to).allows;
    let found: Vec<(AllowanceKind, &str, Option<&str>)> = allows
        .iter()
        .map(|allowance| (allowance.kind, allowance.value.as_str(), allowance.path.as_deref()))
        .collect();
    assert_eq!(
        found,
        [
            (AllowanceKind::AllowedTool, "Bash(git *)", None),
            (AllowanceKind::Script, "scripts/get.py", None),
            (AllowanceKind::Script, "tool", None),
            (AllowanceKind::Url, "https://b.example/y", Some("SKILL.md")),
            (AllowanceKind::Url, "http://c.example", Some("scripts/get.py")),
        ]
    );
}

fn with_manifest(url: &str, root: &str) -> ComparedSkill {
    let text = json!({
        "name": "t",
        "description": "d",
        "parameters": {"type": "object"},
        "implementation": {"endpoint": url, "method": "GET"},
    });
    let text = text.to_string();
    let source = skills_core::tool::ManifestSource::new(&text, "application/json").unwrap();
    let mut meta = skills_agent_skills::skill_meta(root).unwrap();
    meta.tool = Some(Box::new(skills_core::ToolMeta {
        source,
        name: None,
        emoji: None,
        tags: vec![],
        description: None,
        parameters: json!({"type": "object"}),
        credits_per_call: None,
    }));
    let side = DiffSide { version: None, digest: meta.content_digest(), yanked: None };
    let mut input = ComparedSkill::new(side, meta);
    input.insert("SKILL.md".to_owned(), root.to_owned().into());
    input.set_manifest(Some(text.into()));
    input
}

#[test]
fn a_manifest_is_compared_by_its_endpoint_and_not_shown() {
    let from = with_manifest("https://a.example/x", "# T\n");
    let to = with_manifest("https://b.example/y?key=sk-1", "# T\n");
    let diff = diff_skills(&from, &to);
    assert_eq!(diff.frontmatter.len(), 1);
    assert_eq!(diff.frontmatter[0].field, "manifest");
    let endpoint = Allowance {
        kind: AllowanceKind::Endpoint,
        value: "https://b.example/y".to_owned(),
        path: None,
    };
    assert_eq!(diff.allows, [endpoint]);
    assert!(!serde_json::to_string(&diff).unwrap().contains("sk-1"));
}

#[test]
fn a_large_difference_is_cut_and_says_so() {
    let line = |number: usize, side: char| format!("{side} {number}\n");
    let many = |side: char| (0..90_000).map(|number| line(number, side)).collect::<String>();
    let (one, other) = (many('a'), many('b'));
    let files = |text: &str| {
        let names: Vec<String> = (0..8).map(|number| format!("f{number}.md")).collect();
        let files: Vec<(&str, &[u8])> =
            names.iter().map(|name| (name.as_str(), text.as_bytes())).collect();
        bundle("# T\n", &files)
    };
    let diff = diff_skills(&files(&one), &files(&other));
    assert!(diff.truncated);
    let total: usize =
        diff.files.iter().filter_map(|file| file.diff.as_ref()).map(String::len).sum();
    assert!(total <= 1 << 20, "{total}");
    assert_eq!(diff.files.len(), 8);
    let first = diff.files[0].diff.as_ref().unwrap();
    assert!(diff.files[0].truncated && first.ends_with('\n') && first.len() <= 256 << 10);
    let last = &diff.files[7];
    assert!(last.truncated && last.diff.is_none() && last.after.is_some());

    let huge = vec![b'x'; 2 << 20];
    let diff = diff_skills(&bundle("# T\n", &[]), &bundle("# T\n", &[("big.txt", &huge)]));
    assert!(diff.truncated && diff.files[0].truncated);
    assert_eq!(diff.files[0].after.as_ref().unwrap().size, 2 << 20);
}

#[test]
fn a_url_of_a_file_that_the_earlier_side_has_is_not_new() {
    let urls = |diff: &VersionDiff| -> Vec<String> {
        let urls = diff.allows.iter().filter(|allowed| allowed.kind == AllowanceKind::Url);
        urls.map(|url| url.value.clone()).collect()
    };
    let page: &[u8] = b"see https://known.example/a";
    let mut from = bundle("# T\n", &[("a.md", page), ("old.md", page)]);
    let to = bundle("# T\n\nhttps://new.example/b\n", &[("a.md", page), ("moved.md", page)]);
    // A large bundle is not read in full: these files were beyond the limit.
    from.forget("a.md");
    from.forget("old.md");
    let diff = diff_skills(&from, &to);
    assert_eq!(urls(&diff), ["https://new.example/b"]);
    assert!(
        diff.truncated,
        "the earlier side may have had the new one in a file that was not read"
    );
    let mut to = bundle("# T\n", &[("a.md", page)]);
    to.forget("a.md");
    let diff = diff_skills(&bundle("# T\n", &[("a.md", page)]), &to);
    assert_eq!((urls(&diff).len(), diff.truncated), (0, false), "it is the same file");
}

#[test]
fn a_difference_ends_when_its_caller_is_gone() {
    let (from, to) = (bundle("# T\n", &[("a.md", b"1\n")]), bundle("# T\n", &[("a.md", b"2\n")]));
    let mut work = RunningWork::of_process();
    work.stop().raise();
    assert_eq!(compare(&from, &to, &mut work), Err(WorkError::Busy));
    let side = bundle("# T\n", &[("a.md", b"https://a.example")]);
    assert!(allows::added(&side, &side, &work).is_err());
}

#[test]
fn lines_are_compared_within_the_memory_that_is_reserved() {
    let text = |side: char| format!("{side}\n").repeat(10_000);
    let sides = || {
        (
            bundle("# T\n", &[("a.md", text('a').as_bytes())]),
            bundle("# T\n", &[("a.md", text('b').as_bytes())]),
        )
    };
    let within = |bytes: usize| {
        let memory = MemoryBudget::new(bytes);
        let mut work = RunningWork::with_memory(&memory);
        let (from, to) = sides();
        compare(&from, &to, &mut work).map(|diff| (diff, work.reserved()))
    };
    assert_eq!(within(1 << 20).unwrap_err(), WorkError::OverBudget(OverBudget));
    let (diff, reserved) = within(16 << 20).unwrap();
    let unified = diff.files[0].diff.as_ref().unwrap().len();
    assert_eq!(reserved, unified, "only the text of the difference is left");
}

#[test]
fn a_file_of_very_many_lines_is_not_compared() {
    let many = "\n".repeat(200_000);
    let diff = diff_skills(&bundle("# T\n", &[]), &bundle("# T\n", &[("a.md", many.as_bytes())]));
    assert!(diff.truncated && diff.files[0].truncated && diff.files[0].diff.is_none());
}

#[test]
fn a_changed_endpoint_is_listed_after_any_number_of_urls() {
    let urls: String = (0..1000).map(|number| format!("https://{number}.example\n")).collect();
    let from = with_manifest("https://a.example/x", "# T\n");
    let diff = diff_skills(&from, &with_manifest("https://b.example/y", &urls));
    assert_eq!((diff.allows.len(), diff.truncated), (MAX_ALLOWANCES, true));
    assert_eq!(diff.allows.last().unwrap().kind, AllowanceKind::Endpoint);
}

#[test]
fn prompts_differ_in_their_fields() {
    let prompt = |description: &str| PromptDefinition {
        description: description.to_owned(),
        arguments: vec![],
        function_id: "a::b".to_owned(),
    };
    let side = || DiffSide { version: Some(1), digest: Digest::of(b""), yanked: None };
    let diff = diff_definitions((side(), &prompt("one")), (side(), &prompt("two")));
    assert_eq!(diff.frontmatter.len(), 1);
    assert_eq!(diff.frontmatter[0].field, "description");
}
