//! Unified format: one JSON object, with `meta` for people and `config` for the machine.

use serde_json::{Map, Value};

use super::{
    ParseContext, check,
    diagnostic::Diagnostics,
    fields::{credits, object, tags, text, wrong_type},
    implementation::{has_type, merge_request, plugin_hook, response_mapping, set_default_type},
    spec::{SkillSpec, ToolDocs, UNKNOWN_NAME},
};

/// Longest emoji, in bytes: families of seven joined people fit.
const MAX_EMOJI_BYTES: usize = 64;
/// Values of `source` that name a tier.
const TIER_LABELS: [&str; 5] = ["private", "official", "market", "community", "public"];

pub(super) fn read(
    root: &Map<String, Value>,
    context: ParseContext,
    diagnostics: &mut Diagnostics,
) -> SkillSpec {
    let empty = Map::new();
    let part = |key: &str, diagnostics: &mut Diagnostics| {
        object(root.get(key), format_args!("/{key}"), diagnostics).unwrap_or(&empty)
    };
    let (meta, config) = (part("meta", diagnostics), part("config", diagnostics));
    let (written, docs) = (part("implementation", diagnostics), part("docs", diagnostics));

    let mut implementation = written.clone();
    implementation.extend(config.clone());
    let locate = |field: &str| locate(root, field);
    merge_request(&mut implementation, &locate, diagnostics);
    if let Some(embedded) = embedded(root, &implementation, context, diagnostics) {
        let own = std::mem::replace(&mut implementation, embedded);
        implementation.extend(own);
    }
    set_default_type(&mut implementation, &locate, diagnostics);

    let id = text(root.get("id"), "/id", diagnostics);
    let meta_name = text(meta.get("name"), "/meta/name", diagnostics);
    let description = text(meta.get("description"), "/meta/description", diagnostics);
    let docs = read_docs(root, docs, diagnostics);
    let hooks = [
        (implementation.get("plugin_hook"), locate("/plugin_hook")),
        (root.get("plugin_hook"), "/plugin_hook".to_owned()),
    ];
    let spec = SkillSpec {
        name: id.clone().or_else(|| meta_name.clone()).unwrap_or_else(|| UNKNOWN_NAME.to_owned()),
        display_name: meta_name
            .or_else(|| text(root.get("display_name"), "/display_name", diagnostics)),
        id,
        description: description
            .or_else(|| docs.as_ref().map(|docs| docs.short.clone()))
            .unwrap_or_default(),
        parameters: parameters(meta, config, diagnostics),
        returns: None,
        docs,
        emoji: emoji(meta, root, diagnostics),
        tags: match meta.get("tags") {
            None | Some(Value::Null) => tags(root.get("tags"), "/tags", diagnostics),
            of_meta => tags(of_meta, "/meta/tags", diagnostics),
        },
        skill_uid: text(root.get("skill_uid"), "/skill_uid", diagnostics),
        credits_per_call: [
            (root.get("credits_per_call"), "/credits_per_call"),
            (meta.get("cost"), "/meta/cost"),
            (root.get("cost_per_call"), "/cost_per_call"),
        ]
        .into_iter()
        .find_map(|(value, at)| Some((value.filter(|value| !value.is_null())?, at)))
        .and_then(|(value, at)| credits(value, at, diagnostics)),
        plugin_hook: plugin_hook(hooks, diagnostics),
        response_mapping: response_mapping(&implementation, &locate, diagnostics),
        implementation,
    };
    if !context.is_embedded {
        check::implementation(&spec, &locate, diagnostics);
    }
    spec
}

/// Returns the location of a field of the implementation: `request` wins over `config`, which wins over
/// `implementation`.
fn locate(root: &Map<String, Value>, field: &str) -> String {
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

/// Parses an embedded manifest for its implementation, if this manifest does not name a type.
fn embedded(
    root: &Map<String, Value>,
    implementation: &Map<String, Value>,
    context: ParseContext,
    diagnostics: &mut Diagnostics,
) -> Option<Map<String, Value>> {
    let (source, at) = match root.get("source_text").filter(|value| !value.is_null()) {
        Some(value) => (value, "/source_text"),
        None => (root.get("source")?, "/source"),
    };
    let source = match source {
        Value::Null => return None,
        Value::String(source) if source.trim().is_empty() => return None,
        Value::String(source) => source.as_str(),
        other => return wrong_type("text", other, at, diagnostics),
    };
    if at == "/source" {
        if TIER_LABELS.contains(&source) {
            let message = "the tier of an entry is where it is stored; this value is ignored";
            diagnostics.note("source_ignored", at, message);
            return None;
        }
        if !source.trim_start().starts_with(['{', '#']) && !source.contains('\n') {
            let message = "neither a tier nor the text of a manifest; this value is ignored";
            diagnostics.warning("unknown_source", at, message);
            return None;
        }
        diagnostics.note("embedded_source", at, "the text of a manifest belongs under source_text");
    }
    if has_type(implementation) {
        return None;
    }
    let Some(inner) = context.embedded() else {
        diagnostics.error("nested_too_deep", at, "manifests are nested too deeply");
        return None;
    };
    let mut inside = Diagnostics::default();
    let found = super::read(source, inner, &mut inside);
    diagnostics.embed(inside, at);
    Some(found?.0.implementation)
}

fn read_docs(
    root: &Map<String, Value>,
    docs: &Map<String, Value>,
    diagnostics: &mut Diagnostics,
) -> Option<ToolDocs> {
    root.get("docs").filter(|docs| docs.is_object())?;
    let mut field = |key: &str| {
        text(docs.get(key), format_args!("/docs/{key}"), diagnostics).unwrap_or_default()
    };
    Some(ToolDocs { short: field("short"), full_md: field("full_md") })
}

fn parameters(
    meta: &Map<String, Value>,
    config: &Map<String, Value>,
    diagnostics: &mut Diagnostics,
) -> Value {
    let places = [
        (meta.get("parameters"), "/meta/parameters"),
        (config.get("parameters"), "/config/parameters"),
    ];
    let found =
        places.into_iter().find_map(|(value, at)| Some((object(value, at, diagnostics)?, at)));
    let Some((schema, at)) = found else { return Map::new().into() };
    let schema = Value::Object(schema.clone());
    check::parameters(&schema, &|pointer| format!("{at}{pointer}"), diagnostics);
    schema
}

fn emoji(
    meta: &Map<String, Value>,
    root: &Map<String, Value>,
    diagnostics: &mut Diagnostics,
) -> Option<String> {
    let (value, at) = match meta.get("emoji") {
        None | Some(Value::Null) => (root.get("emoji"), "/emoji"),
        of_meta => (of_meta, "/meta/emoji"),
    };
    let emoji = text(value, at, diagnostics)?;
    if emoji.len() > MAX_EMOJI_BYTES || emoji.chars().any(char::is_control) {
        diagnostics.error(
            "invalid_emoji",
            at,
            format!("must be a pictogram of at most {MAX_EMOJI_BYTES} bytes"),
        );
        return None;
    }
    Some(emoji)
}
