//! Edits of JSON with comments and trailing commas: sets one member, and leaves all other bytes as they are.

use std::{collections::BTreeMap, ops::Range};

use serde::Serialize;
use serde_json::Value;

use crate::EditError;

/// Deepest nesting that is read.
const MAX_DEPTH: usize = 128;

/// Sets the member `name` of the object at a path of keys. Objects that are missing are created.
///
/// # Errors
/// When the text is not JSON, or an object of the path is something else.
pub(super) fn set(
    text: &str,
    path: &[&str],
    name: &str,
    value: &impl Serialize,
) -> Result<String, EditError> {
    let mut object = document(text)?;
    let unit = object.indentation(text).unwrap_or("  ").to_owned();
    let (mut indentation, mut closing) = (unit.clone(), String::new());
    for (at, key) in path.iter().enumerate() {
        let Some(member) = object.member(key) else {
            let value = Nested::new(&path[at + 1..], name, value);
            let member = render(key, &value, &indentation, &unit);
            return Ok(object.insert(text, &member, &indentation, &closing));
        };
        object = Scanner::at(text, member.value.start).object(&format!("{key} is"))?;
        closing = indentation;
        indentation = format!("{closing}{unit}");
        if let Some(found) = object.indentation(text) {
            indentation = found.to_owned();
            closing = found.strip_suffix(unit.as_str()).unwrap_or(&closing).to_owned();
        }
    }
    let rendered = render(name, value, &indentation, &unit);
    Ok(match object.member(name) {
        Some(member) => {
            let value = rendered.split_once(": ").map_or("", |(_, value)| value);
            replace(text, member.value.clone(), value)
        }
        None => object.insert(text, &rendered, &indentation, &closing),
    })
}

/// Returns whether there is a member at a path of keys.
///
/// # Errors
/// When the text is not a JSON object.
pub(super) fn has(text: &str, path: &[&str]) -> Result<bool, EditError> {
    let mut object = Some(document(text)?);
    for key in path {
        let member = object.as_ref().and_then(|object| object.member(key));
        let Some(member) = member else { return Ok(false) };
        object = Scanner::at(text, member.value.start).object("it is").ok();
    }
    Ok(true)
}

/// Reads the outermost object, which must be all there is.
fn document(text: &str) -> Result<Object, EditError> {
    // Editors of Windows write a byte order mark.
    let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut scanner = Scanner::at(text, start);
    let document = scanner.object("the settings are")?;
    scanner.skip_blank()?;
    if scanner.at < text.len() {
        return Err(scanner.error("something follows the settings"));
    }
    Ok(document)
}

/// Value inside objects of one member each.
#[derive(Serialize)]
#[serde(untagged)]
enum Nested<'a, T> {
    Value(&'a T),
    Object(BTreeMap<&'a str, Self>),
}

impl<'a, T> Nested<'a, T> {
    fn new(path: &[&'a str], name: &'a str, value: &'a T) -> Self {
        let innermost = Self::Object(BTreeMap::from([(name, Self::Value(value))]));
        let nest = |inner, key: &&'a str| Self::Object(BTreeMap::from([(*key, inner)]));
        path.iter().rev().fold(innermost, nest)
    }
}

fn replace(text: &str, range: Range<usize>, with: &str) -> String {
    format!("{}{with}{}", &text[..range.start], &text[range.end..])
}

/// Formats a member whose first line is indented already.
fn render(name: &str, value: &impl Serialize, indentation: &str, unit: &str) -> String {
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(unit.as_bytes());
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    // Values of strings and lists cannot fail.
    let _ = value.serialize(&mut serializer);
    let value = String::from_utf8_lossy(&bytes).replace('\n', &format!("\n{indentation}"));
    format!("{}: {value}", Value::from(name))
}

/// Member of an object, by its positions in the text.
#[derive(Debug, Clone)]
struct Member {
    key: String,
    key_start: usize,
    value: Range<usize>,
}

/// Object, by its positions in the text.
#[derive(Debug)]
struct Object {
    /// Position after the opening brace.
    start: usize,
    /// Position of the closing brace.
    end: usize,
    members: Vec<Member>,
    /// Set if a comma follows the last member.
    has_trailing_comma: bool,
}

impl Object {
    /// Returns the last member of a name, which is the one that parsers use.
    fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().rev().find(|member| member.key == name)
    }

    /// Returns the indentation of the first member, if it is on a line of its own.
    fn indentation<'a>(&self, text: &'a str) -> Option<&'a str> {
        let before = &text[self.start..self.members.first()?.key_start];
        let (_, line) = before.rsplit_once('\n')?;
        // A comment may stand in front of the member.
        let blank = line.len() - line.trim_start_matches([' ', '\t']).len();
        Some(&line[..blank])
    }

    /// Inserts a member at the end.
    fn insert(&self, text: &str, member: &str, indentation: &str, closing: &str) -> String {
        let Some(last) = self.members.last() else {
            let inside = format!("\n{indentation}{member}\n{closing}");
            // Comments of an empty object stay.
            let kept = text[self.start..self.end].trim_end();
            return replace(text, self.start..self.end, &format!("{kept}{inside}"));
        };
        let after = last.value.end;
        if self.has_trailing_comma {
            let rest = &text[after..self.end];
            let kept = rest.trim_end();
            return replace(
                text,
                after..self.end,
                &format!("{kept}\n{indentation}{member},\n{closing}"),
            );
        }
        // A comment may follow the last value, so the comma goes right behind it.
        let kept = text[after..self.end].trim_end();
        replace(text, after..self.end, &format!(",{kept}\n{indentation}{member}\n{closing}"))
    }
}

/// Reader of JSON with comments and trailing commas.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Scanner<'a> {
    const fn at(text: &'a str, at: usize) -> Self {
        Self { text, at, depth: 0 }
    }

    fn error(&self, reason: &str) -> EditError {
        let line = self.text[..self.at.min(self.text.len())].matches('\n').count() + 1;
        EditError(format!("line {line}: {reason}"))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips white space and comments.
    fn skip_blank(&mut self) -> Result<(), EditError> {
        loop {
            let rest = &self.text[self.at..];
            let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
            self.at += blank;
            let rest = &self.text[self.at..];
            if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                let end = rest.find("*/").ok_or_else(|| self.error("a comment does not end"))?;
                self.at += end + 2;
            } else if blank == 0 {
                return Ok(());
            }
        }
    }

    fn object(&mut self, subject: &str) -> Result<Object, EditError> {
        self.skip_blank()?;
        if self.peek() != Some(b'{') {
            return Err(self.error(&format!("{subject} not an object")));
        }
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error("too deeply nested"));
        }
        let start = self.at;
        let (mut members, mut has_trailing_comma) = (Vec::new(), false);
        loop {
            self.skip_blank()?;
            if self.peek() == Some(b'}') {
                let end = self.at;
                self.at += 1;
                self.depth -= 1;
                return Ok(Object { start, end, members, has_trailing_comma });
            }
            if !members.is_empty() && !has_trailing_comma {
                return Err(self.error("a comma is missing"));
            }
            let key_start = self.at;
            let key = self.string()?;
            self.skip_blank()?;
            if self.peek() != Some(b':') {
                return Err(self.error("a colon is missing"));
            }
            self.at += 1;
            self.skip_blank()?;
            let value_start = self.at;
            self.value()?;
            members.push(Member { key, key_start, value: value_start..self.at });
            self.skip_blank()?;
            has_trailing_comma = self.peek() == Some(b',');
            self.at += usize::from(has_trailing_comma);
        }
    }

    fn value(&mut self) -> Result<(), EditError> {
        match self.peek() {
            Some(b'{') => self.object("it is").map(drop),
            Some(b'[') => self.list(),
            Some(b'"') => self.string().map(drop),
            _ => {
                let rest = &self.text[self.at..];
                let is_part = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
                let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
                let word = &rest[..length];
                if serde_json::from_str::<Value>(word).is_err() {
                    return Err(self.error("a value is missing"));
                }
                self.at += length;
                Ok(())
            }
        }
    }

    fn list(&mut self) -> Result<(), EditError> {
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error("too deeply nested"));
        }
        let mut needs_comma = false;
        loop {
            self.skip_blank()?;
            match self.peek() {
                Some(b']') => {
                    self.at += 1;
                    self.depth -= 1;
                    return Ok(());
                }
                Some(b',') if needs_comma => {
                    self.at += 1;
                    needs_comma = false;
                }
                _ if needs_comma => return Err(self.error("a comma is missing")),
                _ => {
                    self.value()?;
                    needs_comma = true;
                }
            }
        }
    }

    fn string(&mut self) -> Result<String, EditError> {
        let rest = &self.text[self.at..];
        let mut strings = serde_json::Deserializer::from_str(rest).into_iter::<String>();
        match strings.next() {
            Some(Ok(text)) => {
                self.at += strings.byte_offset();
                Ok(text)
            }
            _ => Err(self.error("a name in quotes is missing")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn edit(text: &str) -> Result<String, EditError> {
        set(text, &["servers"], "skills", &json!({ "command": "skills", "args": ["mcp"] }))
    }

    fn parse(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_member_is_added_and_everything_else_stays() {
        let text = "{\n  // Mine.\n  \"a\": 1, /* x */\n  \"servers\": {\n    \"other\": {\"command\": \"o\"} // keep\n  }\n}\n";
        let edited = edit(text).unwrap();
        assert!(edited.starts_with("{\n  // Mine.\n  \"a\": 1, /* x */\n  \"servers\": {\n    \"other\": {\"command\": \"o\"}, // keep\n    \"skills\": {\n"), "{edited}");
        assert!(edited.ends_with("\n    }\n  }\n}\n"), "{edited}");
        assert_eq!(edit(&edited).unwrap(), edited, "a second time changes nothing");
    }

    #[test]
    fn the_object_of_servers_is_created() {
        for text in
            ["{}", "{\n}\n", "{\"a\": [1, 2,],}", "\u{feff}{ // c\n}", "{\n\t\"a\": null\n}"]
        {
            let edited = edit(text).unwrap();
            assert_eq!(edit(&edited).unwrap(), edited, "{text}");
            assert!(edited.contains("\"servers\": {"), "{edited}");
        }
        let edited = edit("{\"a\": {\"b\": -1.5e3}}").unwrap();
        assert_eq!(
            parse(&edited),
            json!({ "a": { "b": -1500.0 }, "servers": { "skills": { "command": "skills", "args": ["mcp"] } } })
        );
    }

    #[test]
    fn an_entry_is_replaced() {
        let text = "{\"servers\": {\"skills\": {\"command\": \"old\"}, \"z\": 1}}";
        let edited = edit(text).unwrap();
        assert_eq!(parse(&edited)["servers"]["skills"]["command"], "skills");
        assert_eq!(parse(&edited)["servers"]["z"], 1);
    }

    #[test]
    fn text_of_another_form_is_refused() {
        for text in [
            "[]",
            "1",
            "{",
            "{\"servers\": []}",
            "{\"a\" 1}",
            "{\"a\": 1 \"b\": 2}",
            "{} x",
            "{\"a\": }",
            "/* {}",
            "{'a': 1}",
        ] {
            assert!(edit(text).is_err(), "{text}");
        }
        assert!(edit(&"{\"a\":".repeat(1000)).is_err(), "deep");
        assert!(edit("{\n\n\"servers\": 3}").unwrap_err().0.starts_with("line 3: "));
    }
}
