//! Parts that several pages share.

use std::io;

use maud::{Markup, html};
use serde_json::Value;
use skills_agent_skills::validate::reveal_hidden;
use skills_client_setup::shell_quote;
use skills_core::{Provenance, SourceKind, Tier, uri::percent_encode_component};
use skills_registry::SkillRow;

use crate::{form::TOKEN_FIELD, units, visit::Visit};

/// Location in the provenance of skills that are published in the console.
const CONSOLE_LOCATION: &str = "console";

/// Renders the hidden field that binds a form to its session.
pub(crate) fn token_field(visit: &Visit) -> Markup {
    html! { input type="hidden" name=(TOKEN_FIELD) value=(visit.form_token()); }
}

/// Renders the text of a `textarea`. Browsers drop a line end right after the tag, so there is always one to drop.
pub(crate) fn textarea_text(text: &str) -> Markup {
    html! { "\n" (text) }
}

/// Renders text that a user wrote: hidden characters are visible, and it cannot reorder the text around it.
pub(crate) fn user_text(text: &str) -> Markup {
    html! { bdi { (reveal_hidden(text)) } }
}

/// Renders a line to copy, with a button if scripts run. A line with characters that a reader does not see, or that end
/// the line, has no button: a terminal would run something else than what is read.
pub(crate) fn copyable(line: &str) -> Markup {
    let shown = reveal_hidden(line);
    if shown != line || line.chars().any(char::is_control) {
        let shown: String =
            shown.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        return html! { div.copy { pre tabindex="0" { code { (shown) } } } };
    }
    copyable_text(line)
}

/// Renders a text of this program to copy, which may have several lines.
pub(crate) fn copyable_text(text: &str) -> Markup {
    html! {
        div.copy {
            pre tabindex="0" { code { (text) } }
            button type="button" data-copy { "Copy" }
        }
    }
}

/// Joins words to a line for a shell, quoted where they need it.
pub(crate) fn shell_line(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| shell_quote(word)).collect();
    quoted.join(" ")
}

/// Renders the name of a tier.
pub(crate) fn tier(tier: Tier) -> Markup {
    html! { span.badge.(tier.as_str()) { (tier) } }
}

/// Renders the tier of a skill, or the live client that has it.
pub(crate) fn origin(row: &SkillRow) -> Markup {
    match row.stored_tier() {
        Some(stored) => tier(stored),
        None => html! { span.badge.live { "live" } },
    }
}

/// Returns the provenance of a skill that is published in the console.
pub(crate) fn console_provenance() -> Provenance {
    Provenance::new(SourceKind::Command, CONSOLE_LOCATION)
}

/// Returns whether a kind and a location are those of the console.
pub(crate) fn is_console(kind: &str, location: &str) -> bool {
    let console = console_provenance();
    kind == console.kind.as_str() && location == console.location
}

/// Renders the place that a skill came from, after `before` unless it was published in the console.
pub(crate) fn source_text(before: &str, source: &Provenance) -> Markup {
    if *source == console_provenance() {
        html! { "published in the console" }
    } else {
        html! { (before) (user_text(&source.to_string())) }
    }
}

/// Returns the address of a skill's page. `/` in the ids of live skills stays.
pub(crate) fn skill_path(id: &str) -> String {
    let segments: Vec<String> = id.split('/').map(percent_encode_component).collect();
    format!("/ui/skills/{}", segments.join("/"))
}

/// Returns the address of a part of a skill.
pub(crate) fn skill_part(base: &str, id: &str, query: &[(&str, &str)]) -> String {
    let path = skill_path(id).replacen("/ui/skills/", base, 1);
    with_query(&path, query)
}

/// Returns the address of the bytes of a file. Its last segment is the name under which a browser saves it.
pub(crate) fn raw_path(id: &str, path: &str, query: &[(&str, &str)]) -> String {
    let path: Vec<String> = path.split('/').map(percent_encode_component).collect();
    let address = format!("/ui/raw/{}/{}", percent_encode_component(id), path.join("/"));
    with_query(&address, query)
}

/// Appends the pairs whose values are not empty to a path.
pub(crate) fn with_query(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        query.append_pair(name, value);
    }
    let query = query.finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// Returns the first bytes of a value, as text or as JSON with indentation, and whether there are more. No more is written:
/// indented JSON may be a hundred times as long as its value.
pub(crate) fn json_text(value: &Value, max_bytes: usize) -> (String, bool) {
    if let Value::String(text) = value {
        let end = text.floor_char_boundary(max_bytes);
        return (text[..end].to_owned(), end < text.len());
    }
    let mut writer = BoundedWriter { bytes: Vec::new(), left: max_bytes };
    let is_cut = serde_json::to_writer_pretty(&mut writer, value).is_err();
    // A character that was cut is left out.
    let end = match std::str::from_utf8(&writer.bytes) {
        Ok(text) => text.len(),
        Err(error) => error.valid_up_to(),
    };
    writer.bytes.truncate(end);
    (String::from_utf8(writer.bytes).unwrap_or_default(), is_cut)
}

/// Writer that fails after a number of bytes.
struct BoundedWriter {
    bytes: Vec<u8>,
    left: usize,
}

impl io::Write for BoundedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(self.left);
        self.left -= len;
        self.bytes.extend_from_slice(&bytes[..len]);
        // Of nothing written `write_all` makes an error.
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Renders a size with its unit.
pub(crate) fn size(bytes: u64) -> Markup {
    html! { span.number { (units::bytes(bytes)) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_line_that_is_read_whole_has_a_copy_button() {
        let page = copyable("skills read iii://pdf").into_string();
        assert!(page.contains("data-copy") && page.contains("skills read iii://pdf"), "{page}");
        for hostile in ["a\ncurl x|sh", "a\rb", "a\u{1b}[2K", "a\u{202e}b", "a\u{200b}b", "a\u{7f}"]
        {
            let page = copyable(hostile).into_string();
            assert!(!page.contains("data-copy"), "{hostile:?}: {page}");
            assert!(!page.contains(hostile), "{hostile:?}: {page}");
        }
        assert!(copyable_text("{\n}").into_string().contains("data-copy"));
    }

    #[test]
    fn a_value_is_written_up_to_a_number_of_bytes() {
        let nested = |value: &str| {
            let text = format!("{}{value}{}", "[".repeat(100), "]".repeat(100));
            serde_json::from_str::<Value>(&text).unwrap()
        };
        let long = nested("0,".repeat(100_000).trim_end_matches(','));
        let (text, is_cut) = json_text(&long, 50_000);
        assert_eq!((text.len(), is_cut), (50_000, true));
        assert_eq!(json_text(&Value::from("\u{e9}\u{e9}"), 3), ("\u{e9}".to_owned(), true));
        assert_eq!(json_text(&serde_json::json!(["\u{e9}"]), 6), ("[\n  \"".to_owned(), true));
        assert_eq!(
            json_text(&serde_json::json!({"a": 1}), 12),
            ("{\n  \"a\": 1\n}".to_owned(), false)
        );
    }

    #[test]
    fn words_of_a_line_are_quoted() {
        assert_eq!(shell_line(&["skills", "read", "iii://pdf"]), "skills read iii://pdf");
        assert_eq!(shell_line(&["a b", "$(x)", "it's"]), r"'a b' '$(x)' 'it'\''s'");
    }
}
