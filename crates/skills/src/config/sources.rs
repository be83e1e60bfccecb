//! The setting `sources`: places that a server imports skills from.

use std::{collections::HashSet, time::Duration};

use globset::{Glob, GlobSet, GlobSetBuilder};
use skills_core::{Label, Tier, git_location::is_reference};

use super::document::{Node, Unusable, Value};
use crate::cli::parse_duration;

/// Default time between two imports.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(60 * 60);
/// Longest name of a source.
const MAX_NAME_BYTES: usize = 64;

/// A place that a server imports skills from.
#[derive(Debug, Clone)]
pub struct SourceSettings {
    /// Name, which is also that of the file with its state.
    pub name: String,
    /// Source, as `skills add` takes it.
    pub from: String,
    /// Branch, tag or commit of a repository.
    pub reference: Option<String>,
    /// Ids or paths to import; all if it is empty.
    pub include: GlobSet,
    /// Ids or paths not to import.
    pub exclude: GlobSet,
    /// Tier of the imported skills.
    pub tier: Tier,
    /// Time between two imports.
    pub interval: Duration,
    /// Label that each imported version gets.
    pub label: Option<Label>,
    /// Patterns as they are written, for comparison.
    patterns: (Vec<String>, Vec<String>),
}

impl PartialEq for SourceSettings {
    fn eq(&self, other: &Self) -> bool {
        let key = |it: &Self| {
            (
                it.name.clone(),
                it.from.clone(),
                it.reference.clone(),
                it.patterns.clone(),
                it.tier,
                it.interval,
                it.label.clone(),
            )
        };
        key(self) == key(other)
    }
}

impl Eq for SourceSettings {}

impl SourceSettings {
    /// Returns whether a skill is imported, by its id and its path in the source.
    #[must_use]
    pub fn includes(&self, id: &str, path: &str) -> bool {
        let matches = |set: &GlobSet| set.is_match(id) || (!path.is_empty() && set.is_match(path));
        (self.include.is_empty() || matches(&self.include)) && !matches(&self.exclude)
    }
}

/// Parses the list of sources.
pub(super) fn parse(value: &Node) -> Result<Vec<SourceSettings>, Unusable> {
    let Value::List(entries) = &value.value else {
        return Err(value.unusable("must be a list of sources"));
    };
    let sources = entries.iter().map(parse_source).collect::<Result<Vec<_>, _>>()?;
    let mut names = HashSet::new();
    match sources.iter().position(|source| !names.insert(source.name.as_str())) {
        Some(at) => {
            Err(entries.get(at).unwrap_or(value).unusable("has the name of another source"))
        }
        None => Ok(sources),
    }
}

fn parse_source(entry: &Node) -> Result<SourceSettings, Unusable> {
    let Value::Map(fields) = &entry.value else {
        return Err(entry.unusable("must have sources with name, from and tier"));
    };
    let (mut name, mut from, mut tier) = (None, None, None);
    let (mut reference, mut label, mut interval) = (None, None, DEFAULT_INTERVAL);
    let (mut include, mut exclude) = (vec![], vec![]);
    for (key, value) in fields {
        match key.value.as_str() {
            "name" => name = Some(source_name(value)?),
            "from" => from = Some(value.text()?.to_owned()),
            "ref" => reference = Some(git_reference(value)?),
            "include" => include = patterns(value)?,
            "exclude" => exclude = patterns(value)?,
            "tier" => tier = Some(public_tier(value)?),
            "interval" => interval = time_span(value)?,
            "label" => {
                let text = value.text()?;
                label = Some(text.parse().map_err(|error: skills_core::RuleError| {
                    value.unusable(format!("has an unusable label: {error}"))
                })?);
            }
            other => return Err(value.unusable(format!("has an unknown field {other:?}"))),
        }
    }
    let required = |field: Option<String>, what: &str| {
        field.ok_or_else(|| entry.unusable(format!("has a source without {what}")))
    };
    let set = |patterns: &[String]| {
        let mut builder = GlobSetBuilder::new();
        for pattern in patterns {
            builder.add(Glob::new(pattern).map_err(|error| {
                entry.unusable(format!("has a source with an unusable pattern: {error}"))
            })?);
        }
        builder.build().map_err(|error| {
            entry.unusable(format!("has a source with unusable patterns: {error}"))
        })
    };
    Ok(SourceSettings {
        name: required(name, "a name")?,
        from: required(from, "from")?,
        reference,
        include: set(&include)?,
        exclude: set(&exclude)?,
        tier: tier.ok_or_else(|| entry.unusable("has a source without a tier"))?,
        interval,
        label,
        patterns: (include, exclude),
    })
}

fn source_name(value: &Node) -> Result<String, Unusable> {
    let text = value.text()?;
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if text.is_empty() || text.len() > MAX_NAME_BYTES || !text.chars().all(is_plain) {
        return Err(value.unusable(format!(
            "has a name that is not 1 to {MAX_NAME_BYTES} lowercase letters, digits and hyphens"
        )));
    }
    Ok(text.to_owned())
}

fn git_reference(value: &Node) -> Result<String, Unusable> {
    let text = value.text()?;
    if !is_reference(text) {
        return Err(value.unusable("has a ref that is not a branch, a tag or a commit"));
    }
    Ok(text.to_owned())
}

fn patterns(value: &Node) -> Result<Vec<String>, Unusable> {
    value.parse_list(|text| Glob::new(text).map(|_| text.to_owned()))
}

/// Parses a tier that has no owner.
fn public_tier(value: &Node) -> Result<Tier, Unusable> {
    match value.text()?.parse() {
        Ok(tier @ (Tier::Official | Tier::Market)) => Ok(tier),
        _ => Err(value.unusable("has a tier that is neither official nor market")),
    }
}

fn time_span(value: &Node) -> Result<Duration, Unusable> {
    let span = parse_duration(value.text()?).map_err(|reason| value.unusable(reason))?;
    if span.is_zero() {
        return Err(value.unusable("has an interval of no time"));
    }
    Ok(span)
}
