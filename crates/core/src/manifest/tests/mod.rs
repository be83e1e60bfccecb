//! Every rule of the two formats, each marked with whether the gateway these manifests come from does the
//! same.

mod checks;
mod hostile;
mod legacy;
mod readable;
mod unified;
mod yaml;

use serde_json::Value;

use super::*;

/// Whether the gateway that manifests come from reads them the same.
enum Gateway {
    Same,
    /// It does not, for this reason.
    Different(&'static str),
}

use Gateway::{Different, Same};

/// A manifest, whether it is read as elsewhere, and what it must be read as: JSON pointers into the spec on
/// the wire.
type Vector<'a> = (&'a str, Gateway, &'a [(&'a str, Value)]);

fn lenient(text: &str) -> Parsed {
    parse(text, Mode::Lenient, None).expect("lenient reading refuses nothing of this size")
}

fn on_wire(text: &str) -> Value {
    serde_json::to_value(lenient(text).spec.on_wire(crate::Tier::Official)).unwrap()
}

fn codes(parsed: &Parsed) -> Vec<&'static str> {
    parsed.diagnostics.iter().map(|found| found.code).collect()
}

/// The codes and places of errors.
fn errors(text: &str) -> Vec<(&'static str, String)> {
    let found = lenient(text).diagnostics.into_iter().filter(|d| d.severity == Severity::Error);
    found.map(|d| (d.code, d.pointer)).collect()
}

fn strict(text: &str) -> Result<Parsed, ManifestError> {
    parse(text, Mode::Strict, None)
}

fn check_all(vectors: &[Vector<'_>]) {
    for (text, gateway, expected) in vectors {
        if let Different(reason) = gateway {
            assert!(!reason.is_empty());
        }
        let spec = on_wire(text);
        for (pointer, value) in *expected {
            let found = spec.pointer(pointer).unwrap_or(&Value::Null);
            assert_eq!(found, value, "{pointer} of {text:?}");
        }
    }
}
