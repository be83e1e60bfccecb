//! What a client says it is, and what it has at which path.

use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::{Map, Value};

use super::{Method, fields::Fields};
use crate::path;

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Something that can be asked in one way.
    Endpoint(Method),
    /// A Markdown document to be read.
    Skill,
    /// Messages for a model.
    Prompt,
}

impl Kind {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Endpoint(_) => "endpoint",
            Self::Skill => "skill",
            Self::Prompt => "prompt",
        }
    }

    /// How it is asked.
    #[must_use]
    pub const fn method(self) -> Method {
        match self {
            Self::Endpoint(method) => method,
            Self::Skill | Self::Prompt => Method::Get,
        }
    }

    const fn has(self, field: Optional) -> bool {
        match field {
            Optional::Schemas => !matches!(self, Self::Skill),
            Optional::ContentType => !matches!(self, Self::Prompt),
        }
    }
}

/// Fields that not every kind has.
enum Optional {
    Schemas,
    ContentType,
}

/// One path of a catalogue.
#[derive(Debug, Clone, PartialEq)]
pub struct Descriptor {
    /// What it is.
    pub kind: Kind,
    /// A pattern that the kind may have.
    pub path: String,
    /// What it is for.
    pub description: Option<String>,
    /// What it takes.
    pub input_schema: Option<Map<String, Value>>,
    /// What it gives.
    pub output_schema: Option<Map<String, Value>>,
    /// The media type of what it gives.
    pub content_type: Option<String>,
    /// What it has beyond the protocol.
    pub extra: Map<String, Value>,
}

impl Descriptor {
    /// One with nothing but a kind and a path.
    #[must_use]
    pub fn new(kind: Kind, path: impl Into<String>) -> Self {
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

    /// Reads one and checks it.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn read(value: Value, place: &str) -> Result<Self, String> {
        let mut fields = Fields::of(value, place)?;
        let kind = match &*fields.string("type")? {
            "endpoint" => {
                let method = fields.string("method").ok();
                let method = method.and_then(|name| Method::from_name(&name));
                let wanted = "one of GET, POST, PUT, PATCH, DELETE";
                Kind::Endpoint(method.ok_or_else(|| fields.wrong("method", wanted))?)
            }
            "skill" => Kind::Skill,
            "prompt" => Kind::Prompt,
            _ => return Err(fields.wrong("type", "endpoint, skill or prompt")),
        };
        let path = fields.string("path")?;
        check(kind, &path).map_err(|error| format!("{place}.path: {error}"))?;
        let description = fields.optional_string("description")?;
        let (input_schema, output_schema) = match kind.has(Optional::Schemas) {
            true => {
                (fields.optional_object("inputSchema")?, fields.optional_object("outputSchema")?)
            }
            false => (None, None),
        };
        let content_type = match kind.has(Optional::ContentType) {
            true => fields.optional_string("contentType")?,
            false => None,
        };
        let mut extra = fields.rest();
        // What a kind does not have would be taken for what others have, in whatever shape it came.
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
        if let Kind::Endpoint(method) = self.kind {
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

fn check(kind: Kind, path: &str) -> Result<(), String> {
    path::pattern(path).map_err(|error| error.to_string())?;
    let (is_skill, is_prompt) = (path::is_skill(path), path::is_prompt(path));
    match kind {
        Kind::Skill if !is_skill => Err("the last segment of a skill is skill.md".to_owned()),
        Kind::Prompt if !is_prompt => Err("the last segment of a prompt is prompt.md".to_owned()),
        Kind::Endpoint(_) if is_skill || is_prompt => {
            Err("skill.md and prompt.md are reserved for skills and prompts".to_owned())
        }
        _ => Ok(()),
    }
}

/// What a client says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientInfo {
    /// What it is addressed by.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// What it runs on.
    pub platform: Option<String>,
    /// Anything else.
    pub metadata: Option<Map<String, Value>>,
    /// What it has beyond the protocol.
    pub extra: Map<String, Value>,
}

impl ClientInfo {
    /// One with nothing but an id and a name.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            description: None,
            version: None,
            platform: None,
            metadata: None,
            extra: Map::new(),
        }
    }
}

impl Serialize for ClientInfo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("name", &self.name)?;
        for (name, text) in [
            ("description", &self.description),
            ("version", &self.version),
            ("platform", &self.platform),
        ] {
            if let Some(text) = text {
                map.serialize_entry(name, text)?;
            }
        }
        if let Some(metadata) = &self.metadata {
            map.serialize_entry("metadata", metadata)?;
        }
        for (name, value) in &self.extra {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// A client with its catalogue, as it registers.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientDescriptor {
    /// Who it is.
    pub info: ClientInfo,
    /// What it has, in its own order.
    pub paths: Vec<Descriptor>,
}

impl ClientDescriptor {
    /// Reads one and checks it.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn read(value: Value) -> Result<Self, String> {
        let mut fields = Fields::of(value, "client")?;
        let paths = read_paths(fields.array("paths")?, "client.paths")?;
        let mut info = ClientInfo {
            id: fields.string("id")?,
            name: fields.string("name")?,
            description: fields.optional_string("description")?,
            version: fields.optional_string("version")?,
            platform: fields.optional_string("platform")?,
            metadata: fields.optional_object("metadata")?,
            extra: Map::new(),
        };
        info.extra = fields.rest();
        // Listings say these of every client themselves.
        for name in ["status", "connectedAt", "lastSeenAt", "connection", "pathCount"] {
            info.extra.remove(name);
        }
        Ok(Self { info, paths })
    }
}

/// Reads a catalogue.
pub(super) fn read_paths(values: Vec<Value>, place: &str) -> Result<Vec<Descriptor>, String> {
    let read = |(at, value)| {
        let mut descriptor = Descriptor::read(value, &format!("{place}[{at}]"))?;
        // Listings say these of every path themselves.
        for name in ["clientId", "clientName"] {
            descriptor.extra.remove(name);
        }
        Ok(descriptor)
    };
    values.into_iter().enumerate().map(read).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<Descriptor, String> {
        Descriptor::read(value, "paths[0]")
    }

    #[test]
    fn what_is_read_is_written_with_all_it_had() {
        for value in [
            json!({"type": "skill", "path": "/a/skill.md"}),
            json!({"type": "skill", "path": "/a/SKILL.md", "description": "d", "x-order": [1, null]}),
            json!({"type": "skill", "path": "/skill.md", "contentType": "text/html"}),
            json!({"type": "prompt", "path": "/a/prompt.md", "inputSchema": {}}),
            json!({"type": "endpoint", "path": "/a/:id", "method": "PATCH", "outputSchema": {"a": 1}}),
        ] {
            let descriptor = read(value.clone()).unwrap();
            assert_eq!(serde_json::to_value(&descriptor).unwrap(), value);
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
            assert_eq!(serde_json::to_value(read(value).unwrap()).unwrap(), left);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
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
    fn a_client_cannot_speak_for_the_listing() {
        let paths = json!([{"type": "skill", "path": "/skill.md", "clientId": "other"}]);
        let client = json!({"id": "a", "name": "A", "status": "x", "team": 1, "paths": paths});
        let client = ClientDescriptor::read(client).unwrap();
        assert_eq!(client.info.extra.keys().collect::<Vec<_>>(), ["team"]);
        assert!(client.paths[0].extra.is_empty());
        assert!(ClientDescriptor::read(json!({"id": "a", "name": "A"})).is_err());
    }
}
