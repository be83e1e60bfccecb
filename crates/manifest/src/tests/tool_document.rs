//! The document of a tool.

use proptest::prelude::*;
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag};
use serde_json::json;

use super::*;
use skills_agent_skills::markdown::summarize;
use skills_core::limits::MAX_SKILL_BYTES;

#[derive(Debug, PartialEq, Default)]
struct Outline {
    titles: usize,
    sections: usize,
    rows: usize,
    cells: usize,
    others: usize,
}

fn outline(document: &str) -> Outline {
    let mut found = Outline::default();
    for event in Parser::new_ext(document, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { level: HeadingLevel::H1, .. }) => found.titles += 1,
            Event::Start(Tag::Heading { .. }) => found.sections += 1,
            Event::Start(Tag::TableRow) => found.rows += 1,
            Event::Start(Tag::TableCell) => found.cells += 1,
            Event::Start(Tag::List(_) | Tag::BlockQuote(_) | Tag::HtmlBlock)
            | Event::Html(_)
            | Event::InlineHtml(_)
            | Event::Rule => found.others += 1,
            _ => {}
        }
    }
    found
}

fn document(manifest: &Value) -> String {
    tool_document(&lenient(&manifest.to_string()).spec, &"z".parse().unwrap())
}

#[test]
fn everything_a_reader_needs() {
    let text = document(&json!({
        "id": "z", "meta": {"name": "Global Weather", "emoji": "🌤", "description": "Says how it is.\n\nAnywhere.",
            "tags": ["weather", "snake_case"],
            "parameters": {"properties": {
                "location": {"type": "string", "description": "City | place"},
                "unit": {"enum": ["c", "f"], "default": "c"},
                "days": {"type": ["integer", "null"]},
                "spots": {"type": "array", "items": {"type": "string"}},
            }, "required": ["location"]}},
        "docs": {"full_md": "More *here*."},
    }));
    for part in [
        "# 🌤 Global Weather\n\nSays how it is.\n\nAnywhere.\n\nTags: weather, snake_case\n\n## Parameters\n",
        "\n| `location` | string | yes | City \\| place |  |\n",
        "\n| `unit` | any | no |  | one of \"c\", \"f\"; default \"c\" |\n",
        "\n| `days` | integer or null | no |  |  |\n",
        "\n| `spots` | array of string | no |  |  |\n",
        "\n## How to call it\n\nCall the tool `z` with the arguments, or `POST /v1/execute/z` with:\n",
        "\"payload\": {\n    \"location\": \"…\"\n",
        "\n## Documentation\n\nMore *here*.\n",
    ] {
        assert!(text.contains(part), "{part}\n---\n{text}");
    }
    let summary = summarize(&text);
    assert_eq!(summary.title.as_deref(), Some("🌤 Global Weather"));
    assert_eq!(summary.description.as_deref(), Some("Says how it is."));
    assert!(document(&json!({"id": "z"})).starts_with("# z\n\n## Parameters\n\nNone.\n"));
}

#[test]
fn it_has_a_largest_size() {
    let long = "é|\n<#`".repeat(3000);
    let properties: serde_json::Map<_, _> = (0..700)
        .map(|n| {
            (
                format!("{n}{}", "|".repeat(290)),
                json!({"type": "x".repeat(400), "default": "|".repeat(400)}),
            )
        })
        .collect();
    let text = document(&json!({
        "id": "z", "meta": {"name": long, "description": long, "tags": vec!["|".repeat(64); 64],
            "parameters": {"properties": properties}},
        "docs": {"full_md": "é".repeat(20_000)},
    }));
    assert!(text.len() <= MAX_SKILL_BYTES && text.len() > 100_000, "{}", text.len());
    let cut = json!({"id": "z", "docs": {"full_md": "é".repeat(200_000)}});
    assert!((MAX_SKILL_BYTES - 8..=MAX_SKILL_BYTES).contains(&document(&cut).len()));
    assert!(text.contains(" more are not listed.\n"));
}

#[test]
fn control_characters_do_not_hide_a_block() {
    for description in ["`\r```", "\0# a", "1\u{7f}. a", "\u{1} > a"] {
        let text = document(&json!({"id": "z", "meta": {"description": description}}));
        let expected = Outline { titles: 1, sections: 2, rows: 0, cells: 0, others: 0 };
        assert_eq!(outline(&text), expected, "{description:?}: {text}");
    }
}

proptest! {
    /// Field values never add structure: there is one title, two sections and a row of five cells per parameter.
    #[test]
    fn no_field_becomes_structure(
        fields in prop::collection::vec("(#|\\||`|```|~~~|\n|\r|  |    |<|>|<b>|<!--|-->|- |1\\. |1\\)|=|---|\\\\|\\[|\\]|\\(|\\)|a|b c|&amp;|\\*|_|!|:-|:)*", 5),
    ) {
        let [name, description, tag, property, text] = &fields[..] else { unreachable!() };
        let text = document(&json!({
            "id": "z", "tags": [tag], "emoji": tag,
            "meta": {"name": name, "description": description, "parameters": {"properties": {
                property: {"type": text, "description": text, "default": text, "enum": [text]},
                "other": {"description": description},
            }, "required": [property]}},
        }));
        let rows = if property == "other" { 1 } else { 2 };
        let expected = Outline { titles: 1, sections: 2, rows, cells: (rows + 1) * 5, others: 0 };
        prop_assert_eq!(outline(&text), expected, "{}", text);
    }
}
