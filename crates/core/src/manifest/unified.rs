//! The unified format: one JSON object, with `meta` for people and `config` for the machine.

use serde_json::{Map, Value};

use super::{
    Reading, check,
    diagnostic::Report,
    fields::{credits, object, tags, text, wrong_type},
    implementation::{has_type, plugin_hook, response_mapping, settle_type, unfold_request},
    spec::{Docs, SkillSpec, UNKNOWN_NAME},
};

/// Longest pictogram, in bytes: families of seven joined people fit.
const MAX_EMOJI_BYTES: usize = 64;
/// What `source` says when it names where a manifest was stored.
const TIER_LABELS: [&str; 5] = ["private", "official", "market", "community", "public"];

pub(super) fn read(root: &Map<String, Value>, reading: Reading, report: &mut Report) -> SkillSpec {
    let empty = Map::new();
    let part = |key: &str, report: &mut Report| {
        object(root.get(key), format_args!("/{key}"), report).unwrap_or(&empty)
    };
    let (meta, config) = (part("meta", report), part("config", report));
    let (written, docs) = (part("implementation", report), part("docs", report));

    let mut implementation = written.clone();
    implementation.extend(config.clone());
    let place = |field: &str| place(root, field);
    unfold_request(&mut implementation, &place, report);
    if let Some(embedded) = embedded(root, &implementation, reading, report) {
        let own = std::mem::replace(&mut implementation, embedded);
        implementation.extend(own);
    }
    settle_type(&mut implementation, &place, report);

    let id = text(root.get("id"), "/id", report);
    let meta_name = text(meta.get("name"), "/meta/name", report);
    let description = text(meta.get("description"), "/meta/description", report);
    let docs = docs_of(root, docs, report);
    let hooks = [
        (implementation.get("plugin_hook"), place("/plugin_hook")),
        (root.get("plugin_hook"), "/plugin_hook".to_owned()),
    ];
    let spec = SkillSpec {
        name: id.clone().or_else(|| meta_name.clone()).unwrap_or_else(|| UNKNOWN_NAME.to_owned()),
        display_name: meta_name.or_else(|| text(root.get("display_name"), "/display_name", report)),
        id,
        description: description
            .or_else(|| docs.as_ref().map(|docs| docs.short.clone()))
            .unwrap_or_default(),
        parameters: parameters(meta, config, report),
        returns: None,
        docs,
        emoji: emoji(meta, root, report),
        tags: match meta.get("tags") {
            None | Some(Value::Null) => tags(root.get("tags"), "/tags", report),
            of_meta => tags(of_meta, "/meta/tags", report),
        },
        skill_uid: text(root.get("skill_uid"), "/skill_uid", report),
        credits_per_call: [
            (root.get("credits_per_call"), "/credits_per_call"),
            (meta.get("cost"), "/meta/cost"),
            (root.get("cost_per_call"), "/cost_per_call"),
        ]
        .into_iter()
        .find_map(|(value, at)| Some((value.filter(|value| !value.is_null())?, at)))
        .and_then(|(value, at)| credits(value, at, report)),
        plugin_hook: plugin_hook(hooks, report),
        response_mapping: response_mapping(&implementation, &place, report),
        implementation,
    };
    if !reading.is_embedded {
        check::implementation(&spec, &place, report);
    }
    spec
}

/// Where a field of the implementation was written: `request` wins over `config`, which wins over
/// `implementation`.
fn place(root: &Map<String, Value>, field: &str) -> String {
    let block = |key| root.get(key).filter(|block| block.pointer(field).is_some());
    let part = if block("config").is_some() || block("implementation").is_none() {
        "config"
    } else {
        "implementation"
    };
    let in_request = match field {
        "/endpoint" => "/request/url",
        "/method" => "/request/method",
        _ => return format!("/{part}{field}"),
    };
    ["config", "implementation"]
        .into_iter()
        .find(|part| root.get(*part).is_some_and(|block| block.pointer(in_request).is_some()))
        .map_or_else(|| format!("/{part}{field}"), |part| format!("/{part}{in_request}"))
}

/// The implementation of a manifest inside this one, for when this one does not say what type it is.
fn embedded(
    root: &Map<String, Value>,
    implementation: &Map<String, Value>,
    reading: Reading,
    report: &mut Report,
) -> Option<Map<String, Value>> {
    let (source, at) = match root.get("source_text").filter(|value| !value.is_null()) {
        Some(value) => (value, "/source_text"),
        None => (root.get("source")?, "/source"),
    };
    let source = match source {
        Value::Null => return None,
        Value::String(source) if source.trim().is_empty() => return None,
        Value::String(source) => source.as_str(),
        other => return wrong_type("text", other, at, report),
    };
    if at == "/source" {
        if TIER_LABELS.contains(&source) {
            let message = "the tier of an entry is where it is stored; this is not looked at";
            report.note("source_ignored", at, message);
            return None;
        }
        if !source.trim_start().starts_with(['{', '#']) && !source.contains('\n') {
            let message = "neither a tier nor the text of a manifest; this is not looked at";
            report.warning("unknown_source", at, message);
            return None;
        }
        report.note("embedded_source", at, "the text of a manifest belongs under source_text");
    }
    if has_type(implementation) {
        return None;
    }
    let Some(inner) = reading.embedded() else {
        report.error("nested_too_deep", at, "there are too many manifests inside each other");
        return None;
    };
    let mut inside = Report::default();
    let found = super::read(source, inner, &mut inside);
    report.embed(inside, at);
    Some(found?.0.implementation)
}

fn docs_of(
    root: &Map<String, Value>,
    docs: &Map<String, Value>,
    report: &mut Report,
) -> Option<Docs> {
    root.get("docs").filter(|docs| docs.is_object())?;
    let mut field =
        |key: &str| text(docs.get(key), format_args!("/docs/{key}"), report).unwrap_or_default();
    Some(Docs { short: field("short"), full_md: field("full_md") })
}

fn parameters(
    meta: &Map<String, Value>,
    config: &Map<String, Value>,
    report: &mut Report,
) -> Value {
    let places = [
        (meta.get("parameters"), "/meta/parameters"),
        (config.get("parameters"), "/config/parameters"),
    ];
    let found = places.into_iter().find_map(|(value, at)| Some((object(value, at, report)?, at)));
    let Some((schema, at)) = found else { return Map::new().into() };
    let schema = Value::Object(schema.clone());
    check::parameters(&schema, &|pointer| format!("{at}{pointer}"), report);
    schema
}

fn emoji(
    meta: &Map<String, Value>,
    root: &Map<String, Value>,
    report: &mut Report,
) -> Option<String> {
    let (value, at) = match meta.get("emoji") {
        None | Some(Value::Null) => (root.get("emoji"), "/emoji"),
        of_meta => (of_meta, "/meta/emoji"),
    };
    let emoji = text(value, at, report)?;
    if emoji.len() > MAX_EMOJI_BYTES || emoji.chars().any(char::is_control) {
        report.error(
            "invalid_emoji",
            at,
            format!("must be a pictogram of at most {MAX_EMOJI_BYTES} bytes"),
        );
        return None;
    }
    Some(emoji)
}
