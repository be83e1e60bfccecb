//! JSON types of listings and details. Field names are part of the published API.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Value, value::RawValue};
use skills_core::{Provenance, Tier, ToolMeta};
use skills_registry::{ExplainedLayer, SkillRow};
use skills_vault::MissingSecret;
use utoipa::{IntoParams, ToSchema};

use crate::response::Success;

/// Default number of rows of a page.
const DEFAULT_LIMIT: usize = 100;
/// Maximum number of rows of a page.
pub(crate) const MAX_LIMIT: usize = 1000;

/// Maximum length of a cursor, as in the schema.
pub(crate) const MAX_CURSOR_BYTES: usize = 128;

/// Parses a cursor that is the number of a row. Stores count with signed integers.
pub(crate) fn row_number(cursor: &str) -> Option<u64> {
    let number = cursor.parse().ok().filter(|number| *number <= i64::MAX as u64);
    number.filter(|_| cursor.len() <= MAX_CURSOR_BYTES)
}

/// Tier in a request or response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TierName {
    /// Skills of the caller.
    Private,
    /// Curated skills.
    Official,
    /// Skills published by the community.
    Market,
}

impl From<TierName> for Tier {
    fn from(name: TierName) -> Self {
        match name {
            TierName::Private => Self::Private,
            TierName::Official => Self::Official,
            TierName::Market => Self::Market,
        }
    }
}

impl From<Tier> for TierName {
    fn from(tier: Tier) -> Self {
        match tier {
            Tier::Private => Self::Private,
            Tier::Official => Self::Official,
            Tier::Market => Self::Market,
        }
    }
}

/// Number of rows of a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit(pub(crate) usize);

impl Default for Limit {
    fn default() -> Self {
        Self(DEFAULT_LIMIT)
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let limit = usize::deserialize(deserializer)?;
        match limit {
            1..=MAX_LIMIT => Ok(Self(limit)),
            _ => Err(de::Error::custom(format!("limit is 1 to {MAX_LIMIT}"))),
        }
    }
}

/// Layers of a listing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Layers {
    /// Skills that their ids resolve to.
    #[default]
    Effective,
    /// Every layer in the caller's view, including shadowed skills.
    All,
}

/// Page of a listing.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// Maximum number of rows.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000, default = 100)]
    pub(crate) limit: Limit,
    /// The `next_cursor` of the previous page.
    #[param(max_length = 128)]
    pub(crate) cursor: Option<String>,
}

/// Size of a listing without pages.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct LimitQuery {
    /// Maximum number of rows.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000, default = 100)]
    pub(crate) limit: Limit,
}

/// A skill in a listing.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ListedSkill {
    /// Id of the skill.
    id: String,
    /// Display name.
    name: String,
    /// Purpose of the skill.
    description: String,
    /// Emoji; empty if it has none.
    emoji: String,
    /// Tier of the skill.
    source: TierName,
    /// True if the tier is the official one.
    #[serde(rename = "isOfficial")]
    is_official: bool,
    /// Tags of the skill.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    /// True if the skill can be executed.
    executable: bool,
    /// Price of a call according to the manifest; nothing is charged.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    credits_per_call: Option<serde_json::Number>,
    /// Time at which this version was stored, in RFC 3339.
    updated_at: String,
}

impl From<&SkillRow> for ListedSkill {
    fn from(row: &SkillRow) -> Self {
        let tool = row.meta.tool.as_deref();
        let tool_field =
            |field: fn(&ToolMeta) -> &Option<String>| tool.and_then(|it| field(it).clone());
        let description =
            tool_field(|tool| &tool.description).or_else(|| row.description().map(Cow::into_owned));
        Self {
            id: row.id.to_string(),
            name: tool_field(|tool| &tool.name).unwrap_or_else(|| row.title().to_owned()),
            description: description.unwrap_or_default(),
            emoji: tool_field(|tool| &tool.emoji).unwrap_or_default(),
            source: row.tier.into(),
            is_official: row.tier == Tier::Official,
            tags: tool.map(|tool| tool.tags.clone()).unwrap_or_default(),
            executable: tool.is_some(),
            credits_per_call: tool.and_then(|tool| tool.credits_per_call.clone()),
            updated_at: row.registered_at.to_string(),
        }
    }
}

/// A page of skills.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SkillList {
    pub(crate) success: Success,
    pub(crate) data: Vec<ListedSkill>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_cursor: Option<String>,
}

/// A skill in full.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SkillDetail {
    pub(crate) success: Success,
    #[schema(value_type = Spec)]
    pub(crate) spec: Box<RawValue>,
    /// Tier of the skill.
    pub(crate) source: TierName,
    /// True if the tier is the official one.
    pub(crate) is_official: bool,
    /// Number of the version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<u64>,
    /// Reason why the version was yanked, as in the header `X-Skill-Yanked`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) yanked: Option<String>,
    /// Repository or address that the content was imported from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) provenance: Option<ImportedFrom>,
    /// Secrets of the skill; only for callers with a user key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secrets: Option<Secrets>,
    /// Resolution of the name, on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) explain: Option<Explained>,
}

/// Repository or address that a version was imported from. Paths of this machine and workers are not shown.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ImportedFrom {
    /// `git` or `url`.
    kind: &'static str,
    /// URL without credentials.
    location: String,
    /// Path in the repository, or name on the site.
    #[serde(skip_serializing_if = "String::is_empty")]
    path: String,
    /// Branch, tag or commit that was requested.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
    /// Commit of the content.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
}

impl ImportedFrom {
    /// Returns the public part of a provenance; `None` if it names this machine or a worker.
    pub(crate) fn new(source: &Provenance) -> Option<Self> {
        source.is_public().then(|| Self {
            kind: source.kind.as_str(),
            location: source.location.clone(),
            path: source.path.clone(),
            reference: source.reference.clone(),
            commit: source.commit.clone(),
        })
    }
}

/// Secrets of a skill.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Secrets {
    /// Required secrets.
    pub(crate) required: Vec<String>,
    /// Optional secrets.
    pub(crate) optional: Vec<String>,
    /// Required secrets that a call would not get.
    pub(crate) missing: Vec<Missing>,
}

/// A required secret that a call would not get.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Missing {
    name: String,
    /// `not_set`, `not_granted` to this skill of the market, or `origin_changed`: granted when it called another
    /// server.
    #[schema(value_type = String, examples("not_set"))]
    reason: skills_vault::MissingReason,
}

impl From<MissingSecret> for Missing {
    fn from(missing: MissingSecret) -> Self {
        Self { name: missing.name, reason: missing.reason }
    }
}

/// Resolution of a name.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Explained {
    /// Entry that the name resolves to.
    pub(crate) answer: Option<StoredAt>,
    /// Entries that it shadows, in order of resolution.
    pub(crate) shadows: Vec<StoredAt>,
    /// Locations that were tried, in order, up to the entry.
    pub(crate) tried: Vec<StoredAt>,
}

/// Location of an entry.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StoredAt {
    tier: TierName,
    id: String,
}

impl StoredAt {
    pub(crate) fn new(tier: Tier, id: &str) -> Self {
        Self { tier: tier.into(), id: id.to_owned() }
    }
}

impl From<ExplainedLayer> for StoredAt {
    fn from(place: ExplainedLayer) -> Self {
        Self::new(place.tier, &place.id)
    }
}

/// Normalised skill. Fields that the manifest leaves out are absent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Spec {
    pub(crate) id: String,
    /// Equal to the id.
    pub(crate) name: String,
    /// Display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) display_name: Option<String>,
    pub(crate) description: String,
    /// JSON Schema of the arguments.
    pub(crate) parameters: Value,
    /// Request that the skill sends, without credentials; of type `document` if it has no manifest.
    pub(crate) implementation: Value,
    /// Documentation of the skill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) docs: Option<Docs>,
    /// Tier of the skill.
    pub(crate) source: TierName,
    #[serde(rename = "isOfficial")]
    pub(crate) is_official: bool,
}

/// Documentation of a skill.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Docs {
    /// One sentence.
    pub(crate) short: String,
    /// Full text in Markdown.
    pub(crate) full_md: String,
}
