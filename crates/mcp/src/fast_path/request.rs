//! JSON-RPC requests of the fast path, read by reference.
//!
//! Only plain requests are read: with known members, none of them twice, and without escapes in their strings. So the
//! text of an id can be repeated as it is, and rmcp understands the request in the same way.

use rmcp::model::RequestId;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Most digits of a numeric id: fewer than those of the largest integer that all JSON parsers read exactly.
const MAX_DIGITS: usize = 15;

/// Request that the fast path can serve.
#[derive(Debug)]
pub(super) struct ReadRequest<'a> {
    pub(super) id: JsonId<'a>,
    pub(super) call: ReadCall<'a>,
    /// Text of `_meta`.
    pub(super) meta: Option<&'a str>,
}

/// Method and parameters of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadCall<'a> {
    ReadResource { uri: &'a str },
    ReadSkill { uri: &'a str },
    GetSkill { uri: &'a str },
    ListResources { cursor: Option<&'a str> },
    ListPrompts { cursor: Option<&'a str> },
}

const READ_SKILL: &str = "read_skill";

impl<'a> ReadCall<'a> {
    pub(super) const fn method(&self) -> &'static str {
        match self {
            Self::ReadResource { .. } => "resources/read",
            Self::ReadSkill { .. } => "tools/call",
            Self::GetSkill { .. } => "skills/get",
            Self::ListResources { .. } => "resources/list",
            Self::ListPrompts { .. } => "prompts/list",
        }
    }

    /// Returns the name of the tool; empty for methods other than `tools/call`.
    pub(super) const fn tool(&self) -> &'static str {
        match self {
            Self::ReadSkill { .. } => READ_SKILL,
            _ => "",
        }
    }

    /// Returns the value that the header `Mcp-Name` must have.
    pub(super) const fn header_name(&self) -> Option<&'a str> {
        match self {
            Self::ReadResource { uri } => Some(uri),
            Self::ReadSkill { .. } => Some(READ_SKILL),
            Self::GetSkill { .. } | Self::ListResources { .. } | Self::ListPrompts { .. } => None,
        }
    }
}

/// Id of a request, as its JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JsonId<'a>(&'a str);

impl<'a> JsonId<'a> {
    /// Takes over an id that serializes to the same text again.
    fn parse(text: &'a str) -> Option<Self> {
        let is_number = text.len() <= MAX_DIGITS
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && (text == "0" || !text.starts_with('0'));
        let is_string = text.starts_with('"') && !text.contains('\\');
        (is_number || is_string).then_some(Self(text))
    }

    pub(super) fn to_rmcp(self) -> Option<RequestId> {
        match self.0.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
            Some(text) => Some(RequestId::String(text.into())),
            None => self.0.parse().ok().map(RequestId::Number),
        }
    }

    pub(super) const fn as_bytes(&self) -> &'a [u8] {
        self.0.as_bytes()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    jsonrpc: &'a str,
    #[serde(borrow)]
    id: &'a RawValue,
    method: &'a str,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UriParams<'a> {
    uri: &'a str,
    #[serde(rename = "_meta", borrow, default, deserialize_with = "present")]
    meta: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PageParams<'a> {
    cursor: Option<&'a str>,
    #[serde(rename = "_meta", borrow, default, deserialize_with = "present")]
    meta: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolParams<'a> {
    name: &'a str,
    #[serde(borrow)]
    arguments: &'a RawValue,
    #[serde(rename = "_meta", borrow, default, deserialize_with = "present")]
    meta: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadSkillArguments<'a> {
    uri: &'a str,
}

/// Deserializes a member that is present, also if it is `null`.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(from).map(Some)
}

/// Parses an object: structs could be read from arrays too.
fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    if text.starts_with('{') { serde_json::from_str(text).ok() } else { None }
}

impl<'a> ReadRequest<'a> {
    /// Parses a request; `None` for any that is not plain or not of the fast path.
    pub(super) fn parse(body: &'a [u8]) -> Option<Self> {
        let envelope: Envelope<'a> = object(std::str::from_utf8(body).ok()?)?;
        if envelope.jsonrpc != "2.0" {
            return None;
        }
        let params = envelope.params.map(RawValue::get);
        let (call, meta) = match envelope.method {
            "resources/read" => {
                let UriParams { uri, meta } = object(params?)?;
                (ReadCall::ReadResource { uri }, meta)
            }
            "tools/call" => {
                let ToolParams { name, arguments, meta } = object(params?)?;
                if name != READ_SKILL {
                    return None;
                }
                let ReadSkillArguments { uri } = object(arguments.get())?;
                (ReadCall::ReadSkill { uri }, meta)
            }
            "skills/get" => {
                let UriParams { uri, meta } = object(params?)?;
                (ReadCall::GetSkill { uri }, meta)
            }
            "resources/list" => {
                let PageParams { cursor, meta } =
                    params.map_or_else(|| Some(PageParams::default()), object)?;
                (ReadCall::ListResources { cursor }, meta)
            }
            "prompts/list" => {
                let PageParams { cursor, meta } =
                    params.map_or_else(|| Some(PageParams::default()), object)?;
                (ReadCall::ListPrompts { cursor }, meta)
            }
            _ => return None,
        };
        Some(Self { id: JsonId::parse(envelope.id.get())?, call, meta: meta.map(RawValue::get) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method_and_params: &str) -> Option<ReadCall<'_>> {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,{method_and_params}}}"#);
        ReadRequest::parse(Box::leak(text.into_boxed_str()).as_bytes()).map(|request| request.call)
    }

    #[test]
    fn plain_requests_are_read() {
        for (text, expected) in [
            (
                r#""method":"resources/read","params":{"uri":"iii://a"}"#,
                ReadCall::ReadResource { uri: "iii://a" },
            ),
            (
                r#""method":"tools/call","params":{"name":"read_skill","arguments":{"uri":"a"}}"#,
                ReadCall::ReadSkill { uri: "a" },
            ),
            (
                r#""method":"skills/get","params":{"uri":"skill://a/SKILL.md"}"#,
                ReadCall::GetSkill { uri: "skill://a/SKILL.md" },
            ),
            (r#""method":"resources/list""#, ReadCall::ListResources { cursor: None }),
            (
                r#""method":"prompts/list","params":{"cursor":"cA"}"#,
                ReadCall::ListPrompts { cursor: Some("cA") },
            ),
        ] {
            assert_eq!(call(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn any_other_request_is_left_to_rmcp() {
        for text in [
            r#""method":"tools/list""#,
            r#""method":"resources/read""#,
            r#""method":"resources/read","params":null"#,
            r#""method":"resources/read","params":["iii://a"]"#,
            r#""method":"resources/read","params":{"uri":7}"#,
            r#""method":"resources/read","params":{"uri":"iii:\/\/a"}"#,
            r#""method":"resources/read","params":{"uri":"a","uri":"b"}"#,
            r#""method":"resources/read","params":{"uri":"a","task":{}}"#,
            r#""method":"resources/read","params":{"uri":"a"},"extra":1"#,
            r#""method":"resources/list","params":null"#,
            r#""method":"resources/list","params":{"limit":1}"#,
            r#""method":"tools/call","params":{"name":"read_skill"}"#,
            r#""method":"tools/call","params":{"name":"read_skill","arguments":{"uris":["a"]}}"#,
            r#""method":"tools/call","params":{"name":"list_skills","arguments":{"uri":"a"}}"#,
        ] {
            assert_eq!(call(text), None, "{text}");
        }
        for text in [
            r#"[{"jsonrpc":"2.0","id":1,"method":"resources/list"}]"#,
            r#"["2.0",1,"resources/list"]"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"resources/list"}"#,
            r#"{"jsonrpc":"2.0","method":"resources/list"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"} x"#,
            "",
        ] {
            assert!(ReadRequest::parse(text.as_bytes()).is_none(), "{text}");
        }
        assert!(ReadRequest::parse(b"{\"jsonrpc\":\"\xff\"}").is_none());
    }

    #[test]
    fn only_ids_that_serialize_to_the_same_text_are_read() {
        for (id, is_read) in [
            ("0", true),
            ("1", true),
            ("999999999999999", true),
            (r#""a b-é""#, true),
            (r#""""#, true),
            ("01", false),
            ("-1", false),
            ("1.0", false),
            ("1e2", false),
            ("9007199254740993", false),
            (r#""a\nb""#, false),
            ("null", false),
            ("[1]", false),
            ("{}", false),
            ("true", false),
        ] {
            let parsed = JsonId::parse(id);
            assert_eq!(parsed.is_some(), is_read, "{id}");
            if let Some(parsed) = parsed {
                assert_eq!(
                    serde_json::to_string(&parsed.to_rmcp().unwrap()).unwrap(),
                    id,
                    "{id:?}"
                );
            }
        }
    }
}
