//! Every rule of the two formats, each marked with whether the gateway these manifests come from does the
//! same.

mod checks;
mod hostile;
mod legacy;
mod tool_document;
mod unified;
mod yaml;

use serde_json::Value;

use super::*;

/// Compatibility with the gateway that manifests come from.
enum Gateway {
    Same,
    /// It does not, for this reason.
    Different(&'static str),
}

use Gateway::{Different, Same};

/// A manifest, whether it is read as elsewhere, and what it must be read as: JSON pointers into the spec on
/// the wire.
type Vector<'a> = (&'a str, Gateway, &'a [(&'a str, Value)]);

fn lenient(text: &str) -> ParsedManifest {
    parse(text, ParseMode::Lenient, None).expect("lenient reading refuses nothing of this size")
}

fn to_public(text: &str) -> Value {
    serde_json::to_value(lenient(text).spec.to_public(skills_core::Tier::Official)).unwrap()
}

fn codes(parsed: &ParsedManifest) -> Vec<&'static str> {
    parsed.diagnostics.iter().map(|found| found.code).collect()
}

/// The codes and places of errors.
fn errors(text: &str) -> Vec<(&'static str, String)> {
    let found = lenient(text).diagnostics.into_iter().filter(|d| d.severity == Severity::Error);
    found.map(|d| (d.code, d.pointer)).collect()
}

fn strict(text: &str) -> Result<ParsedManifest, ManifestError> {
    parse(text, ParseMode::Strict, None)
}

fn check_all(vectors: &[Vector<'_>]) {
    for (text, gateway, expected) in vectors {
        if let Different(reason) = gateway {
            assert!(!reason.is_empty());
        }
        let spec = to_public(text);
        for (pointer, value) in *expected {
            let found = spec.pointer(pointer).unwrap_or(&Value::Null);
            assert_eq!(found, value, "{pointer} of {text:?}");
        }
    }
}
