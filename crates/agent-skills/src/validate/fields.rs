//! Fields of the specification, except the name.

use serde_json::Value;
use skills_core::limits::MAX_DESCRIPTION_CHARS;

use super::{
    MAX_COMPATIBILITY_CHARS, body,
    document::Frontmatter,
    findings::{Findings, quoted},
    links, rules,
};
use crate::{
    agent_skill::AllowedTools,
    frontmatter::{FrontmatterEntry, Located, YamlNode},
};

pub(super) fn check(frontmatter: &Frontmatter, files: Option<&[String]>, findings: &mut Findings) {
    let field = |key: &str| {
        frontmatter.fields.get(key).map(|found| (frontmatter.place(found.at), &found.value))
    };
    match field("description") {
        None => {
            let at = frontmatter.end_of_fence();
            findings.add(&rules::DESCRIPTION_MISSING, at, "there is no description");
        }
        Some((at, value)) => description(at, value, findings),
    }
    if let Some((at, value)) = field("license") {
        license(at, value, files, findings);
    }
    if let Some((at, value)) = field("compatibility") {
        compatibility(at, value, findings);
    }
    if let Some((_, value)) = field("metadata") {
        metadata(frontmatter, value, findings);
    }
    if let Some((at, value)) = field("allowed-tools") {
        tools(at, value, findings);
    }
}

/// Reports a text field that some YAML parsers read as a number or a boolean.
pub(super) fn check_scalar(key: &str, value: &YamlNode, at: usize, findings: &mut Findings) {
    let YamlNode::Scalar(scalar) = value else { return };
    let kind = match scalar.typed {
        Value::Number(_) => "a number",
        Value::Bool(_) => "true or false",
        _ => return,
    };
    let message = format!("{key} is a text, but YAML reads {} as {kind}", quoted(&scalar.text));
    findings.add(&rules::UNQUOTED_SCALAR, at, message);
}

fn description(at: usize, value: &YamlNode, findings: &mut Findings) {
    if !matches!(value, YamlNode::Scalar(_)) {
        return findings.add(&rules::DESCRIPTION_TYPE, at, "the description is not a text");
    }
    let text = value.text().unwrap_or_default();
    if text.trim().is_empty() {
        return findings.add(&rules::DESCRIPTION_MISSING, at, "the description is empty");
    }
    check_scalar("description", value, at, findings);
    let chars = text.chars().count();
    if chars > MAX_DESCRIPTION_CHARS {
        let message = format!(
            "the description has {chars} characters, at most {MAX_DESCRIPTION_CHARS} are allowed"
        );
        findings.add(&rules::DESCRIPTION_TOO_LONG, at, message);
    }
    if !body::says_when(text) {
        let message = "the description does not say when to use the skill";
        findings.add(&rules::DESCRIPTION_WHEN, at, message);
    }
}

fn license(at: usize, value: &YamlNode, files: Option<&[String]>, findings: &mut Findings) {
    if !matches!(value, YamlNode::Scalar(_)) {
        return findings.add(&rules::LICENSE_TYPE, at, "the license is not a text");
    }
    let text = value.text().unwrap_or_default().trim();
    if text.is_empty() {
        return findings.add(&rules::LICENSE_EMPTY, at, "the license is empty");
    }
    check_scalar("license", value, at, findings);
    let extension = text.rsplit_once('.').map(|(_, extension)| extension);
    let is_path = !text.contains(char::is_whitespace)
        && !text.contains("://")
        && (text.starts_with("./") || matches!(extension, Some("txt" | "md" | "html" | "rst")));
    if is_path && files.is_some_and(|files| !links::has_file(text, files)) {
        let message = format!("the bundle has no file {}, which the license names", quoted(text));
        findings.add(&rules::LICENSE_FILE, at, message);
    }
}

fn compatibility(at: usize, value: &YamlNode, findings: &mut Findings) {
    if !matches!(value, YamlNode::Scalar(_)) {
        return findings.add(&rules::COMPATIBILITY_TYPE, at, "compatibility is not a text");
    }
    let text = value.text().unwrap_or_default();
    if text.trim().is_empty() {
        return findings.add(&rules::COMPATIBILITY_EMPTY, at, "compatibility is empty");
    }
    check_scalar("compatibility", value, at, findings);
    let chars = text.chars().count();
    if chars > MAX_COMPATIBILITY_CHARS {
        let message = format!(
            "compatibility has {chars} characters, at most {MAX_COMPATIBILITY_CHARS} are allowed"
        );
        findings.add(&rules::COMPATIBILITY_TOO_LONG, at, message);
    }
}

fn metadata(frontmatter: &Frontmatter, value: &YamlNode, findings: &mut Findings) {
    let place = |spot: &Located<YamlNode>| frontmatter.place(spot.at);
    let entries: &[FrontmatterEntry] = match value {
        YamlNode::Mapping(entries) => entries,
        value if value.is_null() => &[],
        other => {
            let at = frontmatter.fields.get("metadata").map_or(0, place);
            let kind = if matches!(other, YamlNode::Sequence(_)) { "a list" } else { "one value" };
            let message = format!("metadata is {kind}, not a mapping of texts to texts");
            return findings.add(&rules::METADATA_TYPE, at, message);
        }
    };
    for entry in entries {
        let key = quoted(&entry.key.value);
        let kind = match &entry.value.value {
            YamlNode::Mapping(_) => "a mapping",
            YamlNode::Sequence(_) => "a list",
            scalar if scalar.is_null() => "nothing",
            scalar => {
                let name = format!("metadata {key}");
                check_scalar(&name, scalar, place(&entry.value), findings);
                continue;
            }
        };
        let at = frontmatter.place(entry.key.at);
        findings.add(&rules::METADATA_VALUE, at, format!("metadata {key} is {kind}, not a text"));
    }
}

fn tools(at: usize, value: &YamlNode, findings: &mut Findings) {
    let texts: Vec<&YamlNode> = match value {
        YamlNode::Sequence(items) => {
            findings.add(&rules::TOOLS_LIST, at, "allowed-tools is a list, not a text");
            items.iter().map(|item| &item.value).collect()
        }
        scalar => vec![scalar],
    };
    let mut is_empty = true;
    for node in texts {
        let text = match node {
            YamlNode::Scalar(scalar) => match &scalar.typed {
                Value::String(text) => text,
                Value::Null => continue,
                _ => return findings.add(&rules::TOOLS_TYPE, at, "allowed-tools is not a text"),
            },
            _ => return findings.add(&rules::TOOLS_TYPE, at, "allowed-tools is not a text"),
        };
        let found = AllowedTools::parse(text);
        is_empty &= found.names.is_empty();
        if found.has_commas && !matches!(value, YamlNode::Sequence(_)) {
            findings.add(&rules::TOOLS_COMMAS, at, "allowed-tools has commas between tools");
        }
        if found.is_unbalanced {
            let message = format!("a parenthesis in {} is not paired", quoted(text));
            findings.add(&rules::TOOLS_PARENTHESES, at, message);
        }
    }
    if is_empty {
        findings.add(&rules::TOOLS_EMPTY, at, "allowed-tools names no tool");
    }
}
