//! Table of all settings: name, class and parser. A new setting is one line of [`SETTINGS`].

use std::time::Duration;

use axum::http::{HeaderName, header::InvalidHeaderName};
use skills_core::GitProtocol;
use skills_http::{Access, Guard};
use skills_registry::SectionAccess;

use super::{
    Config, StoreChoice,
    document::{Entries, Node, Unusable, Value},
    sources,
};
use crate::{
    database::Database,
    token_rules::{self, TokenUse},
};

/// Longest time that can be set.
const MAX_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Longest name of a server.
const MAX_SERVER_NAME_BYTES: usize = 128;

/// Consequence of an unusable value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// An error: the setting controls access, and its default may be more open than intended.
    Security,
    /// A warning: the setting is part of the published contract, which never blocks a start, or its default is safe.
    Plain,
}

/// One setting.
pub(super) struct Setting {
    /// Name with the names of its sections, separated by dots.
    pub(super) path: &'static str,
    pub(super) class: Class,
    /// Parses a value into the configuration.
    pub(super) read: Read,
}

type Read = fn(&mut Config, &Node) -> Result<(), Unusable>;

/// The settings, in the order of the documentation.
pub(super) const SETTINGS: &[Setting] = &[
    plain("state_timeout_ms", |c, v| set(&mut c.state_timeout_ms, at_least_one(v))),
    security("inject_caller_id", |c, v| set(&mut c.inject_caller_id, v.flag())),
    security("sections", |c, v| set(&mut c.sections, sections(v))),
    security("store", |c, v| match &v.value {
        Value::Map(entries) => store_map(c, v, entries),
        _ => set(&mut c.store, store(v)),
    }),
    plain("server_name", |c, v| set(&mut c.server_name, server_name(v).map(Some))),
    plain("scopes.skills", |c, v| set(&mut c.scopes.skills, v.text().map(str::to_owned))),
    plain("scopes.prompts", |c, v| set(&mut c.scopes.prompts, v.text().map(str::to_owned))),
    security("http", |c, v| set(&mut c.http, address(v).map(Some))),
    security("http_token", |c, v| set(&mut c.http_token, credential(v).map(Some))),
    security("allow_host", |c, v| set(&mut c.allow_host, v.parse_list(host))),
    security("allow_origin", |c, v| set(&mut c.allow_origin, v.parse_list(origin))),
    plain("public_url", |c, v| set(&mut c.public_url, parsed(v).map(Some))),
    security("git_host", |c, v| set(&mut c.git_host, git_host(v).map(Some))),
    security("console", |c, v| set(&mut c.console, v.flag())),
    security("tiers.prefix", |c, v| set(&mut c.prefix, parsed(v))),
    plain("limits.FREE", |c, v| set(&mut c.limits.free, number(v))),
    plain("limits.STARTER", |c, v| set(&mut c.limits.starter, number(v))),
    plain("limits.PRO", |c, v| set(&mut c.limits.pro, number(v))),
    plain("limits.SCALE", |c, v| set(&mut c.limits.scale, number(v))),
    security("labels.protected", |c, v| set(&mut c.protected_labels, v.parse_list(str::parse))),
    security("execution.https_only", |c, v| set(&mut c.execution.https_only, v.flag())),
    security("execution.allow_upstream", |c, v| {
        set(&mut c.execution.allow_upstream, v.parse_list(str::parse))
    }),
    plain("retention.versions", |c, v| set(&mut c.retention.versions, at_least_one(v).map(Some))),
    plain("retention.days", |c, v| set(&mut c.retention.days, at_least_one(v).map(Some))),
    plain("search.synonyms", |c, v| set(&mut c.search.synonyms, v.parse_groups())),
    plain("search.model", |c, v| set(&mut c.search.model, v.text().map(|path| Some(path.into())))),
    security("search.log", |c, v| set(&mut c.search.log, v.flag())),
    security("sources", |c, v| set(&mut c.sources, sources::parse(v))),
    security("mdp.token", |c, v| set(&mut c.mdp.token, credential(v).map(Some))),
    security("mdp.forward_credentials", |c, v| set(&mut c.mdp.forward_credentials, v.flag())),
    security("mdp.forward_headers", |c, v| {
        set(&mut c.mdp.forward_headers, v.parse_list(header_name))
    }),
    security("mdp.behind_tls", |c, v| set(&mut c.mdp.behind_tls, v.flag())),
    plain("mdp.limits.clients", |c, v| set(&mut c.mdp.limits.clients, at_least_one(v))),
    plain("mdp.limits.unregistered", |c, v| set(&mut c.mdp.limits.unregistered, at_least_one(v))),
    plain("mdp.limits.catalog_entries", |c, v| {
        set(&mut c.mdp.limits.catalog_entries, at_least_one(v))
    }),
    plain("mdp.limits.catalog_bytes", |c, v| set(&mut c.mdp.limits.catalog_bytes, at_least_one(v))),
    plain("mdp.limits.client_bytes", |c, v| set(&mut c.mdp.limits.client_bytes, at_least_one(v))),
    plain("mdp.limits.path_bytes", |c, v| set(&mut c.mdp.limits.path_bytes, at_least_one(v))),
    plain("mdp.limits.path_depth", |c, v| set(&mut c.mdp.limits.path_depth, at_least_one(v))),
    plain("mdp.limits.message_bytes", |c, v| set(&mut c.mdp.limits.message_bytes, at_least_one(v))),
    plain("mdp.limits.result_bytes", |c, v| set(&mut c.mdp.limits.result_bytes, at_least_one(v))),
    plain("mdp.limits.gathered_bytes", |c, v| {
        set(&mut c.mdp.limits.gathered_bytes, at_least_one(v))
    }),
    plain("mdp.limits.calls_per_client", |c, v| {
        set(&mut c.mdp.limits.calls_per_client, at_least_one(v))
    }),
    plain("mdp.limits.queue_bytes", |c, v| set(&mut c.mdp.limits.queue_bytes, at_least_one(v))),
    plain("mdp.timeouts.answer_ms", |c, v| set(&mut c.mdp.times.answer_within, time(v))),
    plain("mdp.timeouts.register_ms", |c, v| set(&mut c.mdp.times.register_within, time(v))),
    plain("mdp.timeouts.ping_ms", |c, v| set(&mut c.mdp.times.ping_every, time(v))),
    plain("mdp.timeouts.silence_ms", |c, v| set(&mut c.mdp.times.silence, time(v))),
    plain("mdp.timeouts.stall_ms", |c, v| set(&mut c.mdp.times.stall, time(v))),
    plain("mdp.timeouts.poll_ms", |c, v| set(&mut c.mdp.times.poll, time(v))),
    plain("mdp.timeouts.longest_poll_ms", |c, v| set(&mut c.mdp.times.longest_poll, time(v))),
    plain("mdp.timeouts.cookie_ms", |c, v| set(&mut c.mdp.times.cookie, time(v))),
];

const fn security(path: &'static str, read: Read) -> Setting {
    Setting { path, class: Class::Security, read }
}

const fn plain(path: &'static str, read: Read) -> Setting {
    Setting { path, class: Class::Plain, read }
}

/// Parses the name of a server: it appears in errors that others read.
fn server_name(value: &Node) -> Result<String, Unusable> {
    let name = value.text()?;
    let is_plain = |letter: char| letter.is_ascii_graphic();
    if name.is_empty() || name.len() > MAX_SERVER_NAME_BYTES || !name.chars().all(is_plain) {
        return Err(value.unusable("is not a name of 1 to 128 visible ASCII characters"));
    }
    Ok(name.to_owned())
}

/// Finds a setting by its dotted name.
pub(super) fn find(path: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.path == path)
}

/// Returns the strictest class of the settings in a section; `None` if there is no such section.
pub(super) fn section_class(path: &str) -> Option<Class> {
    let is_inside =
        |it: &&Setting| it.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
    let mut inside = SETTINGS.iter().filter(is_inside).peekable();
    inside.peek()?;
    let strict = inside.any(|setting| setting.class == Class::Security);
    Some(if strict { Class::Security } else { Class::Plain })
}

fn set<T>(slot: &mut T, value: Result<T, Unusable>) -> Result<(), Unusable> {
    *slot = value?;
    Ok(())
}

fn number<T: TryFrom<u64>>(value: &Node) -> Result<T, Unusable> {
    T::try_from(value.whole()?).map_err(|_| value.unusable("is too large"))
}

fn at_least_one<T: TryFrom<u64>>(value: &Node) -> Result<T, Unusable> {
    if value.whole()? == 0 {
        return Err(value.unusable("must be at least 1"));
    }
    number(value)
}

fn time(value: &Node) -> Result<Duration, Unusable> {
    let time = Duration::from_millis(at_least_one(value)?);
    if time > MAX_TIME {
        return Err(value.unusable("must not be more than a day"));
    }
    Ok(time)
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(value: &Node) -> Result<T, Unusable> {
    value.text()?.parse().map_err(|error: T::Err| value.unusable(format!("is unusable: {error}")))
}

fn sections(value: &Node) -> Result<SectionAccess, Unusable> {
    match value.text()? {
        "linked" => Ok(SectionAccess::Linked),
        "any" => Ok(SectionAccess::Any),
        _ => Err(value.unusable("must be linked or any")),
    }
}

fn store(value: &Node) -> Result<StoreChoice, Unusable> {
    match value.text()? {
        "auto" => Ok(StoreChoice::Auto),
        "state" => Ok(StoreChoice::State),
        "embedded" => Ok(StoreChoice::Embedded),
        _ => Err(value.unusable("must be auto, state or embedded")),
    }
}

/// Names in the long form of `store`.
const STORE_ENTRIES: [&str; 3] = ["mode", "url", "max_stale"];
/// Most letters in which a name is a misspelled one.
const MAX_MISSPELLED: usize = 2;

/// Parses the long form of `store`: its mode, the URL of a database, and how long reads go on without it.
fn store_map(config: &mut Config, node: &Node, entries: &Entries) -> Result<(), Unusable> {
    for (name, value) in entries {
        let read = match name.value.as_str() {
            "mode" => set(&mut config.store, store(value)),
            "url" => set(&mut config.database, database(value).map(Some)),
            "max_stale" => set(&mut config.max_stale, duration(value).map(Some)),
            // Any other name may be a URL with its password in the wrong place.
            other => {
                let is_near = |known: &str| strsim::osa_distance(known, other) <= MAX_MISSPELLED;
                let Some(known) = STORE_ENTRIES.into_iter().find(|known| is_near(known)) else {
                    return Err(node.unusable("has only mode, url and max_stale"));
                };
                let hint = Some(format!("write it as {known}"));
                let at = name.referenced.into();
                Err(Unusable { at, hint, ..value.unusable("is not a setting") })
            }
        };
        read.map_err(|error| Unusable { entry: Some(name.value.clone()), ..error })?;
    }
    Ok(())
}

fn database(value: &Node) -> Result<Database, Unusable> {
    value.text()?.parse().map_err(|reason: String| Unusable {
        hint: Some("correct it, such as postgres://user@host/database".to_owned()),
        ..value.unusable(format!("is unusable: {reason}"))
    })
}

/// Parses a time such as `30s`, `5m` or `1h`.
fn duration(value: &Node) -> Result<Duration, Unusable> {
    let no_time = || Unusable {
        hint: Some("write a time such as 30s, 5m or 1h".to_owned()),
        ..value.unusable("is not a time with a unit")
    };
    // A number without a unit is the common mistake.
    let text = value.text().map_err(|error| match value.value {
        Value::Whole(_) | Value::OtherNumber => no_time(),
        _ => error,
    })?;
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        _ => 0,
    };
    let time = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(seconds));
    time.filter(|time| *time > 0).map(Duration::from_secs).ok_or_else(no_time)
}

fn address(value: &Node) -> Result<String, Unusable> {
    let text = value.text()?;
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
    if port.is_none_or(|port| port.parse::<u16>().is_err()) {
        return Err(value.unusable("must be an address such as 127.0.0.1:47372"));
    }
    Ok(text.to_owned())
}

fn git_host(value: &Node) -> Result<String, Unusable> {
    let text = value.text()?;
    let location =
        if text.contains("://") { format!("{text}/a/b") } else { format!("https://{text}/a/b") };
    let is_host = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
    if !is_host(text) || GitProtocol::of_location(&location).is_none() {
        return Err(value.unusable("must be a host such as git.example.com, or a URL"));
    }
    Ok(text.to_owned())
}

fn credential(value: &Node) -> Result<String, Unusable> {
    let text = value.text()?;
    match token_rules::problem(text, TokenUse::Required) {
        Some(problem) => Err(value.unusable(problem)),
        None => Ok(text.to_owned()),
    }
}

/// Parses a header name and returns it in lower case.
fn header_name(text: &str) -> Result<String, InvalidHeaderName> {
    Ok(HeaderName::try_from(text)?.as_str().to_owned())
}

fn host(text: &str) -> Result<String, skills_http::AccessRuleError> {
    Guard::new(Access { hosts: vec![text.to_owned()], ..Access::default() })?;
    Ok(text.to_owned())
}

fn origin(text: &str) -> Result<String, skills_http::AccessRuleError> {
    Guard::new(Access { origins: vec![text.to_owned()], ..Access::default() })?;
    Ok(text.to_owned())
}
