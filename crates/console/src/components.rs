//! Parts that several pages share.

use maud::{Markup, html};
use skills_agent_skills::validate::reveal_hidden;
use skills_core::{Provenance, SourceKind, Tier, uri::percent_encode_component};
use skills_registry::SkillRow;

use crate::{form::TOKEN_FIELD, units, visit::Visit};

/// Location in the provenance of skills that are published in the console.
const CONSOLE_LOCATION: &str = "console";

/// Renders the hidden field that binds a form to its session.
pub(crate) fn token_field(visit: &Visit) -> Markup {
    html! { input type="hidden" name=(TOKEN_FIELD) value=(visit.form_token()); }
}

/// Renders text that a user wrote: hidden characters are visible, and it cannot reorder the text around it.
pub(crate) fn user_text(text: &str) -> Markup {
    html! { bdi { (reveal_hidden(text)) } }
}

/// Renders a line to copy, with a button if scripts run.
pub(crate) fn copyable(text: &str) -> Markup {
    html! {
        div.copy {
            pre tabindex="0" { code { (text) } }
            button type="button" data-copy hidden aria-label="Copy" title="Copy" { "Copy" }
        }
    }
}

/// Renders the name of a tier.
pub(crate) fn tier(tier: Tier) -> Markup {
    html! { span.badge.(tier.as_str()) { (tier) } }
}

/// Renders the tier of a skill, or the live client that has it.
pub(crate) fn origin(row: &SkillRow) -> Markup {
    match row.stored_tier() {
        Some(stored) => tier(stored),
        None => html! { span.badge.live { "live" } },
    }
}

/// Returns the provenance of a skill that is published in the console.
pub(crate) fn console_provenance() -> Provenance {
    Provenance::new(SourceKind::Command, CONSOLE_LOCATION)
}

/// Renders the place that a skill came from, after `before` unless it was published in the console.
pub(crate) fn source_text(before: &str, source: &Provenance) -> Markup {
    if *source == console_provenance() {
        html! { "published in the console" }
    } else {
        html! { (before) (user_text(&source.to_string())) }
    }
}

/// Returns the address of a skill's page. `/` in the ids of live skills stays.
pub(crate) fn skill_path(id: &str) -> String {
    let segments: Vec<String> = id.split('/').map(percent_encode_component).collect();
    format!("/ui/skills/{}", segments.join("/"))
}

/// Returns the address of a part of a skill.
pub(crate) fn skill_part(base: &str, id: &str, query: &[(&str, &str)]) -> String {
    let path = skill_path(id).replacen("/ui/skills/", base, 1);
    with_query(&path, query)
}

/// Returns the address of the bytes of a file. Its last segment is the name under which a browser saves it.
pub(crate) fn raw_path(id: &str, path: &str, query: &[(&str, &str)]) -> String {
    let path: Vec<String> = path.split('/').map(percent_encode_component).collect();
    let address = format!("/ui/raw/{}/{}", percent_encode_component(id), path.join("/"));
    with_query(&address, query)
}

/// Appends the pairs whose values are not empty to a path.
pub(crate) fn with_query(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        query.append_pair(name, value);
    }
    let query = query.finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// Renders a size with its unit.
pub(crate) fn size(bytes: u64) -> Markup {
    html! { span.number { (units::bytes(bytes)) } }
}
