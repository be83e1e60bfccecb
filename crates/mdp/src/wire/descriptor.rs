//! Descriptions of clients and of their paths.

use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::{Map, Value};

use super::{Method, fields::Fields};
use crate::path;

/// Kind of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DescriptorKind {
    /// Endpoint with one method.
    Endpoint(Method),
    /// Markdown document.
    Skill,
    /// Prompt: messages for a model.
    Prompt,
}

impl DescriptorKind {
    /// Returns the name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Endpoint(_) => "endpoint",
            Self::Skill => "skill",
            Self::Prompt => "prompt",
        }
    }

    /// Returns the method of calls.
    #[must_use]
    pub const fn method(self) -> Method {
        match self {
            Self::Endpoint(method) => method,
            Self::Skill | Self::Prompt => Method::Get,
        }
    }

    const fn has_schemas(self) -> bool {
        !matches!(self, Self::Skill)
    }

    const fn has_content_type(self) -> bool {
        !matches!(self, Self::Prompt)
    }
}

/// Path of a catalog.
#[derive(Debug, Clone, PartialEq)]
pub struct Descriptor {
    /// Kind.
    pub kind: DescriptorKind,
    /// Pattern that is valid for the kind.
    pub path: String,
    /// Description.
    pub description: Option<String>,
    /// Schema of the input.
    pub input_schema: Option<Map<String, Value>>,
    /// Schema of the output.
    pub output_schema: Option<Map<String, Value>>,
    /// Media type of the output.
    pub content_type: Option<String>,
    /// Fields beyond the protocol.
    pub extra: Map<String, Value>,
}

impl Descriptor {
    /// Creates a descriptor without optional fields.
    #[must_use]
    pub fn new(kind: DescriptorKind, path: impl Into<String>) -> Self {
        Self {
            kind,
            path: path.into(),
            description: None,
            input_schema: None,
            output_schema: None,
            content_type: None,
            extra: Map::new(),
        }
    }

    /// Parses and validates JSON.
    ///
    /// # Errors
    /// The error and its place.
    pub fn parse(value: Value, place: &str) -> Result<Self, String> {
        let mut fields = Fields::new(value, place)?;
        let kind = match &*fields.string("type")? {
            "endpoint" => {
                let method = fields.string("method").ok();
                let method = method.and_then(|name| Method::from_name(&name));
                let wanted = "one of GET, POST, PUT, PATCH, DELETE";
                DescriptorKind::Endpoint(method.ok_or_else(|| fields.type_error("method", wanted))?)
            }
            "skill" => DescriptorKind::Skill,
            "prompt" => DescriptorKind::Prompt,
            _ => return Err(fields.type_error("type", "endpoint, skill or prompt")),
        };
        let path = fields.string("path")?;
        check_path(kind, &path).map_err(|error| format!("{place}.path: {error}"))?;
        let description = fields.optional_string("description")?;
        let (input_schema, output_schema) = if kind.has_schemas() {
            (fields.optional_object("inputSchema")?, fields.optional_object("outputSchema")?)
        } else {
            (None, None)
        };
        let content_type =
            if kind.has_content_type() { fields.optional_string("contentType")? } else { None };
        let mut extra = fields.into_rest();
        // A field of another kind would be mistaken for that of this one, and its type is not checked.
        for name in ["method", "contentType", "inputSchema", "outputSchema"] {
            extra.remove(name);
        }
        Ok(Self { kind, path, description, input_schema, output_schema, content_type, extra })
    }
}

impl Serialize for Descriptor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", self.kind.as_str())?;
        map.serialize_entry("path", &self.path)?;
        if let DescriptorKind::Endpoint(method) = self.kind {
            map.serialize_entry("method", &method)?;
        }
        for (name, text) in
            [("description", &self.description), ("contentType", &self.content_type)]
        {
            if let Some(text) = text {
                map.serialize_entry(name, text)?;
            }
        }
        for (name, schema) in
            [("inputSchema", &self.input_schema), ("outputSchema", &self.output_schema)]
        {
            if let Some(schema) = schema {
                map.serialize_entry(name, schema)?;
            }
        }
        for (name, value) in &self.extra {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

fn check_path(kind: DescriptorKind, path: &str) -> Result<(), String> {
    path::parse_pattern(path).map_err(|error| error.to_string())?;
    let (is_skill, is_prompt) = (path::is_skill(path), path::is_prompt(path));
    match kind {
        DescriptorKind::Skill if !is_skill => {
            Err("the last segment of a skill is skill.md".to_owned())
        }
        DescriptorKind::Prompt if !is_prompt => {
            Err("the last segment of a prompt is prompt.md".to_owned())
        }
        DescriptorKind::Endpoint(_) if is_skill || is_prompt => {
            Err("skill.md and prompt.md are reserved for skills and prompts".to_owned())
        }
        _ => Ok(()),
    }
}

/// Description of a client.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ClientInfo {
    /// Id.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// Custom data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Fields beyond the protocol.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl ClientInfo {
    /// Creates a description without optional fields.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self { id: id.into(), name: name.into(), ..Self::default() }
    }
}

/// Client with its catalog, as in a registration.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientDescriptor {
    /// Description of the client.
    pub info: ClientInfo,
    /// Paths, in the order of the client.
    pub paths: Vec<Descriptor>,
}

impl ClientDescriptor {
    /// Parses and validates JSON.
    ///
    /// # Errors
    /// The error and its place.
    pub fn parse(value: Value) -> Result<Self, String> {
        let mut fields = Fields::new(value, "client")?;
        let paths = parse_paths(fields.array("paths")?, "client.paths")?;
        let mut info = ClientInfo {
            id: fields.string("id")?,
            name: fields.string("name")?,
            description: fields.optional_string("description")?,
            version: fields.optional_string("version")?,
            platform: fields.optional_string("platform")?,
            metadata: fields.optional_object("metadata")?,
            extra: Map::new(),
        };
        info.extra = fields.into_rest();
        // Listings set these fields themselves.
        for name in ["status", "connectedAt", "lastSeenAt", "connection", "pathCount"] {
            info.extra.remove(name);
        }
        Ok(Self { info, paths })
    }
}

/// Parses the paths of a catalog.
pub(super) fn parse_paths(values: Vec<Value>, place: &str) -> Result<Vec<Descriptor>, String> {
    let parse = |(at, value)| {
        let mut descriptor = Descriptor::parse(value, &format!("{place}[{at}]"))?;
        // Listings set these fields themselves.
        for name in ["clientId", "clientName"] {
            descriptor.extra.remove(name);
        }
        Ok(descriptor)
    };
    values.into_iter().enumerate().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<Descriptor, String> {
        Descriptor::parse(value, "paths[0]")
    }

    #[test]
    fn a_parsed_descriptor_serializes_to_its_input() {
        for value in [
            json!({"type": "skill", "path": "/a/skill.md"}),
            json!({"type": "skill", "path": "/a/SKILL.md", "description": "d", "x-order": [1, null]}),
            json!({"type": "skill", "path": "/skill.md", "contentType": "text/html"}),
            json!({"type": "prompt", "path": "/a/prompt.md", "inputSchema": {}}),
            json!({"type": "endpoint", "path": "/a/:id", "method": "PATCH", "outputSchema": {"a": 1}}),
        ] {
            let descriptor = read(value.clone()).unwrap();
            assert_eq!(serde_json::to_value(&descriptor).unwrap(), value, "{value:?}");
        }
    }

    #[test]
    fn fields_that_only_other_kinds_have_are_dropped() {
        for (value, left) in [
            (
                json!({"type": "skill", "path": "/skill.md", "method": 7, "inputSchema": 1, "x": 2}),
                json!({"type": "skill", "path": "/skill.md", "x": 2}),
            ),
            (
                json!({"type": "prompt", "path": "/prompt.md", "contentType": 5, "method": null}),
                json!({"type": "prompt", "path": "/prompt.md"}),
            ),
        ] {
            assert_eq!(
                serde_json::to_value(read(value.clone()).unwrap()).unwrap(),
                left,
                "{value:?}"
            );
        }
    }

    #[test]
    fn an_error_names_the_invalid_field() {
        for (value, words) in [
            (json!(7), "paths[0] must be an object"),
            (json!({"path": "/a/skill.md"}), "paths[0].type"),
            (json!({"type": "tool", "path": "/a"}), "paths[0].type"),
            (json!({"type": "skill"}), "paths[0].path"),
            (json!({"type": "skill", "path": "/a/prompt.md"}), "is skill.md"),
            (json!({"type": "prompt", "path": "/a/skill.md"}), "is prompt.md"),
            (json!({"type": "skill", "path": "/A/skill.md"}), "\"A\" is not a segment"),
            (json!({"type": "endpoint", "path": "/a"}), "method"),
            (json!({"type": "endpoint", "path": "/a", "method": "HEAD"}), "method"),
            (json!({"type": "endpoint", "path": "/a/SKILL.md", "method": "GET"}), "reserved"),
            (json!({"type": "endpoint", "path": "/prompt.md", "method": "GET"}), "reserved"),
            (json!({"type": "skill", "path": "/skill.md", "contentType": 5}), "contentType"),
            (json!({"type": "skill", "path": "/skill.md", "description": null}), "description"),
            (json!({"type": "prompt", "path": "/prompt.md", "inputSchema": []}), "inputSchema"),
        ] {
            let error = read(value).expect_err(words);
            assert!(error.contains(words), "{words}: {error}");
        }
    }

    #[test]
    fn a_client_cannot_set_fields_of_listings() {
        let paths = json!([{"type": "skill", "path": "/skill.md", "clientId": "other"}]);
        let client = json!({"id": "a", "name": "A", "status": "x", "team": 1, "paths": paths});
        let client = ClientDescriptor::parse(client).unwrap();
        assert_eq!(client.info.extra.keys().collect::<Vec<_>>(), ["team"]);
        assert!(client.paths[0].extra.is_empty());
        assert!(ClientDescriptor::parse(json!({"id": "a", "name": "A"})).is_err());
    }
}
