//! Legacy Markdown format: a heading, a description, parameters in JSON and an implementation in YAML.

use serde_json::{Map, Value};

mod blocks;
mod sections;

use self::{
    blocks::Block,
    sections::{SectionBlock, scan},
};
use crate::{
    ParseContext, check,
    diagnostic::Diagnostics,
    implementation::{merge_request, plugin_hook, response_mapping, set_default_type},
    json_pointer::JsonPointer,
    json_reader,
    spec::{SkillSpec, UNKNOWN_NAME, no_parameters},
};
use skills_agent_skills::frontmatter::{
    self, FrontmatterEntry, FrontmatterError, YamlNode, YamlScalar,
};

/// Text inside a larger text, for line numbers.
struct Lines<'a> {
    text: &'a str,
    /// Number of its first line.
    first: usize,
}

impl Lines<'_> {
    /// Converts a byte offset to line and column, both from 1.
    fn locate(&self, offset: usize) -> String {
        let before = &self.text[..self.text.floor_char_boundary(offset)];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.bytes().filter(|&byte| byte == b'\n').count();
        format!("{}:{}", self.first + line, before[line_start..].chars().count() + 1)
    }
}

fn line_of(found: &SectionBlock<'_>) -> String {
    let line = found.block.as_ref().map(|block| block.line).or(found.heading);
    line.map_or_else(|| "1:1".to_owned(), |line| format!("{line}:1"))
}

pub(super) fn read(text: &str, context: ParseContext, diagnostics: &mut Diagnostics) -> SkillSpec {
    let sections = scan(text);
    if let Some(line) = sections.unclosed {
        let message = "a block of code is opened here and never closed";
        diagnostics.error("unclosed_fence", format_args!("{line}:1"), message);
    }
    let parameters = json_block(&sections.parameters, "parameters", diagnostics);
    let parameters = parameters.map_or_else(no_parameters, |(value, line)| match value {
        Value::Object(_) => {
            check::parameters(&value, &|_| format!("{line}:1"), diagnostics);
            value
        }
        _ => {
            let message = "parameters must be a JSON Schema, which is an object";
            diagnostics.error("wrong_type", format_args!("{line}:1"), message);
            no_parameters()
        }
    });
    let mut implementation = yaml_block(&sections.implementation, diagnostics);
    let line = line_of(&sections.implementation);
    let locate = |_: &str| line.clone();
    merge_request(&mut implementation, &locate, diagnostics);
    set_default_type(&mut implementation, &locate, diagnostics);
    let hook = plugin_hook(
        [(implementation.get("plugin_hook"), line.clone()), (None, String::new())],
        diagnostics,
    );
    let name = sections.name.map(str::to_owned);
    let spec = SkillSpec {
        id: None,
        name: name.clone().unwrap_or_else(|| UNKNOWN_NAME.to_owned()),
        display_name: name,
        description: without_comments(sections.description.unwrap_or_default()).trim().to_owned(),
        parameters,
        returns: json_block(&sections.returns, "returns", diagnostics)
            .map_or(Some(Value::Null), |(value, _)| Some(value)),
        docs: None,
        emoji: None,
        tags: Vec::new(),
        skill_uid: None,
        credits_per_call: None,
        plugin_hook: hook,
        response_mapping: response_mapping(&implementation, &locate, diagnostics),
        implementation,
    };
    if !context.is_embedded {
        check::implementation(&spec, &locate, diagnostics);
    }
    spec
}

/// Returns the block of a section, and reports what is unusual about it.
fn block<'a>(
    found: &SectionBlock<'a>,
    what: &str,
    diagnostics: &mut Diagnostics,
) -> Option<Block<'a>> {
    if let Some(skipped) = &found.skipped {
        let message =
            format!("a block labelled {:?} is not the {what} and is passed over", skipped.label);
        diagnostics.note("block_skipped", format_args!("{}:1", skipped.line), message);
    }
    match (&found.block, found.heading) {
        (Some(block), _) => {
            let usual = if what == "implementation" { "yaml" } else { "json" };
            if !block.label.is_empty() && !block.label.eq_ignore_ascii_case(usual) {
                let message =
                    format!("the block is labelled {:?} and is read as {usual}", block.label);
                diagnostics.note("unusual_label", format_args!("{}:1", block.line), message);
            }
            Some(*block)
        }
        (None, Some(line)) => {
            let message = format!("the section has no block of code with the {what}");
            diagnostics.error("missing_block", format_args!("{line}:1"), message);
            None
        }
        (None, None) => None,
    }
}

fn json_block(
    found: &SectionBlock<'_>,
    what: &str,
    diagnostics: &mut Diagnostics,
) -> Option<(Value, usize)> {
    let block = block(found, what, diagnostics)?;
    let root = JsonPointer::Root;
    match json_reader::read(block.text.trim(), root.key(what), diagnostics) {
        Ok(value) => Some((value, block.line)),
        Err(error) => {
            let skipped = block.text.len() - block.text.trim_start().len();
            let lines = block.text[..skipped].bytes().filter(|&byte| byte == b'\n').count();
            let line = block.line + lines + error.line().saturating_sub(1);
            let message = format!("the {what} are not JSON: {error}");
            diagnostics.error(
                "invalid_json",
                format_args!("{line}:{}", error.column().max(1)),
                message,
            );
            None
        }
    }
}

fn yaml_block(found: &SectionBlock<'_>, diagnostics: &mut Diagnostics) -> Map<String, Value> {
    let Some(block) = block(found, "implementation", diagnostics) else { return Map::new() };
    let lines = Lines { text: block.text, first: block.line };
    match frontmatter::parse_core_schema(block.text) {
        Ok(fields) => object(fields.entries),
        Err(refused) => {
            let (at, code) = match &refused {
                FrontmatterError::Yaml { at, .. } => (*at, "invalid_yaml"),
                FrontmatterError::DuplicateKey { at, .. } => (*at, "duplicate_key"),
                FrontmatterError::NotAMapping { at } => (*at, "wrong_type"),
            };
            let message = match &refused {
                FrontmatterError::NotAMapping { .. } => {
                    "the implementation must be a mapping".to_owned()
                }
                _ if block.text.contains("{{") => {
                    format!(
                        "the implementation is not YAML: {refused}; quote values with placeholders"
                    )
                }
                _ => format!("the implementation is not YAML: {refused}"),
            };
            diagnostics.error(code, lines.locate(at), message);
            Map::new()
        }
    }
}

fn object(entries: Vec<FrontmatterEntry>) -> Map<String, Value> {
    entries.into_iter().map(|entry| (entry.key.value, value(entry.value.value))).collect()
}

/// Converts a value to JSON. The YAML reader accepts two number notations that the core schema does not, and reads
/// integers with leading zeros as fractions.
fn value(node: YamlNode) -> Value {
    match node {
        YamlNode::Scalar(YamlScalar { typed: Value::Number(number), text }) => {
            let digits = text.trim_start_matches(['+', '-']);
            match text.parse::<i64>() {
                Ok(integer) => integer.into(),
                Err(_) if digits.contains('_') || digits.starts_with("0b") => text.into(),
                Err(_) => number.into(),
            }
        }
        YamlNode::Scalar(scalar) => scalar.typed,
        YamlNode::Sequence(items) => items.into_iter().map(|item| value(item.value)).collect(),
        YamlNode::Mapping(entries) => object(entries).into(),
    }
}

/// Removes `<!-- … -->`. An unclosed comment stays.
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
