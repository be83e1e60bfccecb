//! Which clients and paths a text is found in.

use serde_json::{Map, Value};

use crate::wire::{ClientInfo, Descriptor, Kind};

/// A text that is looked for, in lower case; nothing when anything will do.
pub(super) struct Wanted(Option<String>);

impl Wanted {
    pub(super) fn of(search: Option<&str>) -> Self {
        Self(search.map(|text| text.trim().to_lowercase()).filter(|text| !text.is_empty()))
    }

    pub(super) const fn is_anything(&self) -> bool {
        self.0.is_none()
    }

    fn is_in(&self, text: &str) -> bool {
        self.0.as_ref().is_none_or(|wanted| text.to_lowercase().contains(wanted))
    }

    fn is_in_any<'a>(&self, texts: impl IntoIterator<Item = Option<&'a str>>) -> bool {
        self.is_anything() || texts.into_iter().flatten().any(|text| self.is_in(text))
    }

    fn is_in_json(&self, object: Option<&Map<String, Value>>) -> bool {
        object.is_some_and(|object| self.is_in(&serde_json::to_string(object).unwrap_or_default()))
    }

    pub(super) fn path(&self, info: &ClientInfo, descriptor: &Descriptor) -> bool {
        let Descriptor { kind, path, description, content_type, .. } = descriptor;
        let method = match kind {
            Kind::Endpoint(method) => Some(method.as_str()),
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
        self.is_in_any(texts)
            || self.is_in_json(descriptor.input_schema.as_ref())
            || self.is_in_json(descriptor.output_schema.as_ref())
    }

    pub(super) fn client(&self, info: &ClientInfo, times: [&str; 2], connection: &Value) -> bool {
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
        self.is_in_any(texts) || self.is_in_json(info.metadata.as_ref())
    }
}
