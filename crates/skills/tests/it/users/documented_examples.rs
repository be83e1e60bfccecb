//! Runs the examples of docs/gateway.md in order: each `curl` is sent, and its answer contains what the page shows.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::Value;
use skills_testkit::Request;

use crate::support::{TestServer, admin::ADMIN_KEY};

/// Placeholder in the page for values that differ each time.
const ANYTHING: &str = "…";

/// Returns the code blocks of the page in order, each with its language.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let mut blocks = vec![];
    let mut rest = page;
    while let Some((_, after)) = rest.split_once("\n```") {
        let (language, after) = after.split_once('\n').unwrap();
        let (text, after) = after.split_once("\n```").unwrap();
        blocks.push((language, text));
        rest = after;
    }
    blocks
}

/// Splits a command into words as a shell does.
fn words(line: &str, variables: &BTreeMap<&str, String>) -> Vec<String> {
    let (mut words, mut word, mut quote) = (vec![], None::<String>, None);
    for c in line.replace("\\\n", " ").chars() {
        match (quote, c) {
            (None, ' ' | '\n') => words.extend(word.take()),
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (Some(open), c) if c == open => quote = None,
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    let filled = |word: String| {
        let fill = |word: String, (name, value): (&&str, &String)| {
            word.replace(&format!("${name}"), value)
        };
        variables.iter().rev().fold(word, fill)
    };
    words.into_iter().map(filled).collect()
}

/// Checks that an answer contains everything the page shows.
fn has(answer: &Value, shown: &Value) -> bool {
    match (answer, shown) {
        (_, Value::String(text)) if text == ANYTHING => !answer.is_null(),
        (Value::String(answer), Value::String(shown)) if shown.ends_with(ANYTHING) => {
            answer.starts_with(shown.trim_end_matches(ANYTHING))
        }
        (Value::Object(answer), Value::Object(shown)) => shown
            .iter()
            .all(|(name, shown)| answer.get(name).is_some_and(|found| has(found, shown))),
        (Value::Array(answer), Value::Array(shown)) => {
            answer.len() == shown.len()
                && answer.iter().zip(shown).all(|(one, other)| has(one, other))
        }
        (answer, shown) => answer == shown,
    }
}

#[test]
fn the_documented_examples_give_the_documented_answers() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gateway.md");
    let page = fs::read_to_string(page).unwrap();
    let server = TestServer::with_admin();
    let mut variables: BTreeMap<&str, String> = BTreeMap::new();
    variables.insert("SKILLS", String::new());
    variables.insert("ADMIN_KEY", ADMIN_KEY.to_owned());
    let mut blocks = blocks(&page).into_iter().peekable();
    let mut ran = 0;
    while let Some((language, command)) = blocks.next() {
        if language != "sh" || !command.starts_with("curl ") {
            continue;
        }
        let (mut method, mut target, mut headers, mut body) = (None, None, vec![], None);
        let mut arguments = words(command, &variables).into_iter().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "-X" => method = arguments.next(),
                "-H" => headers.extend(arguments.next()),
                "-d" => body = arguments.next(),
                "-s" => {}
                _ => target = Some(argument),
            }
        }
        let method =
            method.unwrap_or_else(|| if body.is_some() { "POST" } else { "GET" }.to_owned());
        let mut request = Request::new(&method, &target.unwrap());
        for header in &headers {
            let (name, value) = header.split_once(": ").unwrap();
            request = request.header(name, value);
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        let answer = request.send(&server.process.http).json();
        let (language, shown) = blocks.next().unwrap();
        assert_eq!(language, "json", "{command} shows no answer");
        let shown: Value =
            serde_json::from_str(shown).unwrap_or_else(|error| panic!("{error}: {shown}"));
        assert!(
            has(&answer, &shown),
            "{command}\nis answered\n{answer}\nand the page shows\n{shown}"
        );
        for (variable, field) in [("KEY", "key"), ("KEY_ID", "key_id")] {
            if let Some(value) = answer[field].as_str() {
                variables.insert(variable, value.to_owned());
            }
        }
        ran += 1;
    }
    assert!(ran >= 15, "only {ran} examples were found");
}

#[test]
fn the_page_lists_every_route() {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gateway.md"));
    let page = page.unwrap();
    let server = TestServer::with_admin();
    let api = server.ask(None, "GET", "/v1/openapi.json", &Value::Null).json();
    for (path, item) in api["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            let row = format!("| `{} {path}` |", method.to_uppercase());
            assert!(page.contains(&row), "docs/gateway.md has no row that starts with {row}");
        }
    }
}
