//! Text search in clients and paths.

use serde_json::{Map, Value};

use crate::wire::{ClientInfo, Descriptor, DescriptorKind};

/// Search text in lower case; `None` matches everything.
pub(super) struct SearchFilter(Option<String>);

impl SearchFilter {
    pub(super) fn new(search: Option<&str>) -> Self {
        Self(search.map(|text| text.trim().to_lowercase()).filter(|text| !text.is_empty()))
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn matches(&self, text: &str) -> bool {
        self.0.as_ref().is_none_or(|search| text.to_lowercase().contains(search))
    }

    fn matches_any<'a>(&self, texts: impl IntoIterator<Item = Option<&'a str>>) -> bool {
        self.is_empty() || texts.into_iter().flatten().any(|text| self.matches(text))
    }

    fn matches_json(&self, object: Option<&Map<String, Value>>) -> bool {
        object
            .is_some_and(|object| self.matches(&serde_json::to_string(object).unwrap_or_default()))
    }

    pub(super) fn matches_path(&self, info: &ClientInfo, descriptor: &Descriptor) -> bool {
        let Descriptor { kind, path, description, content_type, .. } = descriptor;
        let method = match kind {
            DescriptorKind::Endpoint(method) => Some(method.as_str()),
            _ => None,
        };
        let texts = [
            Some(info.id.as_str()),
            Some(&info.name),
            Some(kind.as_str()),
            Some(path),
            description.as_deref(),
            content_type.as_deref(),
            method,
        ];
        self.matches_any(texts)
            || self.matches_json(descriptor.input_schema.as_ref())
            || self.matches_json(descriptor.output_schema.as_ref())
    }

    pub(super) fn matches_client(
        &self,
        info: &ClientInfo,
        times: [&str; 2],
        connection: &Value,
    ) -> bool {
        let secure = if connection["secure"] == true { "secure" } else { "insecure" };
        let texts = [
            Some(info.id.as_str()),
            Some(&info.name),
            info.description.as_deref(),
            info.version.as_deref(),
            info.platform.as_deref(),
            Some("online"),
            Some(times[0]),
            Some(times[1]),
            connection["mode"].as_str(),
            connection["authSource"].as_str(),
            Some(secure),
        ];
        self.matches_any(texts) || self.matches_json(info.metadata.as_ref())
    }
}
