//! The legacy format: Markdown with a heading, a description, parameters in JSON and an implementation in
//! YAML.

use serde_json::{Map, Value};

use super::{
    Reading, check,
    diagnostic::Report,
    implementation::{plugin_hook, response_mapping, settle_type, unfold_request},
    json_text,
    section::Block,
    sections::{Found, scan},
    spec::{SkillSpec, UNKNOWN_NAME, no_parameters},
};
use crate::{
    frontmatter::{self, Entry, Node, Scalar, Unreadable},
    pointer::At,
};

/// A text in front of which there is something else that has lines.
struct Lines<'a> {
    text: &'a str,
    /// The line on which it begins.
    first: usize,
}

impl Lines<'_> {
    /// A byte offset as line and column, both from 1.
    fn place(&self, offset: usize) -> String {
        let before = &self.text[..self.text.floor_char_boundary(offset)];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.bytes().filter(|&byte| byte == b'\n').count();
        format!("{}:{}", self.first + line, before[line_start..].chars().count() + 1)
    }
}

fn line_of(found: &Found<'_>) -> String {
    let line = found.block.as_ref().map(|block| block.line).or(found.heading);
    line.map_or_else(|| "1:1".to_owned(), |line| format!("{line}:1"))
}

pub(super) fn read(text: &str, reading: Reading, report: &mut Report) -> SkillSpec {
    let sections = scan(text);
    if let Some(line) = sections.unclosed {
        let message = "a block of code is opened here and never closed";
        report.error("unclosed_fence", format_args!("{line}:1"), message);
    }
    let parameters = json_block(&sections.parameters, "parameters", report);
    let parameters = parameters.map_or_else(no_parameters, |(value, line)| match value {
        Value::Object(_) => {
            check::parameters(&value, &|_| format!("{line}:1"), report);
            value
        }
        _ => {
            let message = "parameters must be a JSON Schema, which is an object";
            report.error("wrong_type", format_args!("{line}:1"), message);
            no_parameters()
        }
    });
    let mut implementation = yaml_block(&sections.implementation, report);
    let line = line_of(&sections.implementation);
    let place = |_: &str| line.clone();
    unfold_request(&mut implementation, &place, report);
    settle_type(&mut implementation, &place, report);
    let hook = plugin_hook(
        [(implementation.get("plugin_hook"), line.clone()), (None, String::new())],
        report,
    );
    let name = sections.name.map(str::to_owned);
    let spec = SkillSpec {
        id: None,
        name: name.clone().unwrap_or_else(|| UNKNOWN_NAME.to_owned()),
        display_name: name,
        description: without_comments(sections.description.unwrap_or_default()).trim().to_owned(),
        parameters,
        returns: json_block(&sections.returns, "returns", report)
            .map_or(Some(Value::Null), |(value, _)| Some(value)),
        docs: None,
        emoji: None,
        tags: Vec::new(),
        skill_uid: None,
        credits_per_call: None,
        plugin_hook: hook,
        response_mapping: response_mapping(&implementation, &place, report),
        implementation,
    };
    if !reading.is_embedded {
        check::implementation(&spec, &place, report);
    }
    spec
}

/// The block of a section that is there, with a word on what is odd about it.
fn block<'a>(found: &Found<'a>, what: &str, report: &mut Report) -> Option<Block<'a>> {
    if let Some(skipped) = &found.skipped {
        let message =
            format!("a block labelled {:?} is not the {what} and is passed over", skipped.label);
        report.note("block_skipped", format_args!("{}:1", skipped.line), message);
    }
    match (&found.block, found.heading) {
        (Some(block), _) => {
            let usual = if what == "implementation" { "yaml" } else { "json" };
            if !block.label.is_empty() && !block.label.eq_ignore_ascii_case(usual) {
                let message =
                    format!("the block is labelled {:?} and is read as {usual}", block.label);
                report.note("unusual_label", format_args!("{}:1", block.line), message);
            }
            Some(*block)
        }
        (None, Some(line)) => {
            let message = format!("the section has no block of code with the {what}");
            report.error("missing_block", format_args!("{line}:1"), message);
            None
        }
        (None, None) => None,
    }
}

fn json_block(found: &Found<'_>, what: &str, report: &mut Report) -> Option<(Value, usize)> {
    let block = block(found, what, report)?;
    let root = At::Root;
    match json_text::read(block.text.trim(), root.key(what), report) {
        Ok(value) => Some((value, block.line)),
        Err(error) => {
            let skipped = block.text.len() - block.text.trim_start().len();
            let lines = block.text[..skipped].bytes().filter(|&byte| byte == b'\n').count();
            let line = block.line + lines + error.line().saturating_sub(1);
            let message = format!("the {what} are not JSON: {error}");
            report.error("invalid_json", format_args!("{line}:{}", error.column().max(1)), message);
            None
        }
    }
}

fn yaml_block(found: &Found<'_>, report: &mut Report) -> Map<String, Value> {
    let Some(block) = block(found, "implementation", report) else { return Map::new() };
    let lines = Lines { text: block.text, first: block.line };
    match frontmatter::read_core(block.text) {
        Ok(fields) => object(fields.entries),
        Err(refused) => {
            let (at, code) = match &refused {
                Unreadable::Yaml { at, .. } => (*at, "invalid_yaml"),
                Unreadable::DuplicateKey { at, .. } => (*at, "duplicate_key"),
                Unreadable::NotAMapping { at } => (*at, "wrong_type"),
            };
            let message = match &refused {
                Unreadable::NotAMapping { .. } => "the implementation must be a mapping".to_owned(),
                _ if block.text.contains("{{") => {
                    format!(
                        "the implementation is not YAML: {refused}; quote values with placeholders"
                    )
                }
                _ => format!("the implementation is not YAML: {refused}"),
            };
            report.error(code, lines.place(at), message);
            Map::new()
        }
    }
}

fn object(entries: Vec<Entry>) -> Map<String, Value> {
    entries.into_iter().map(|entry| (entry.key.value, value(entry.value.value))).collect()
}

/// A value as JSON. The reader takes two things for numbers that the core schema does not, and an integer
/// with zeros in front for a fraction.
fn value(node: Node) -> Value {
    match node {
        Node::Scalar(Scalar { typed: Value::Number(number), text }) => {
            let digits = text.trim_start_matches(['+', '-']);
            match text.parse::<i64>() {
                Ok(integer) => integer.into(),
                Err(_) if digits.contains('_') || digits.starts_with("0b") => text.into(),
                Err(_) => number.into(),
            }
        }
        Node::Scalar(scalar) => scalar.typed,
        Node::Sequence(items) => items.into_iter().map(|item| value(item.value)).collect(),
        Node::Mapping(entries) => object(entries).into(),
    }
}

/// A text without `<!-- … -->`. One that is never closed stays.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<!--") {
        let Some((_, tail)) = after.split_once("-->") else { break };
        kept.push_str(before);
        rest = tail;
    }
    kept.push_str(rest);
    kept
}
