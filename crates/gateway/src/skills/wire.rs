//! The shapes of listings and details. The names of fields are those that callers have always known.

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Value, value::RawValue};
use skills_core::{Tier, ToolMeta};
use skills_registry::{Place, SkillRow};
use skills_vault::Lack;
use utoipa::{IntoParams, ToSchema};

use crate::envelope::Success;

/// Rows of a page, unless fewer or more are asked for.
const DEFAULT_LIMIT: usize = 100;
/// Most of them.
pub(crate) const MAX_LIMIT: usize = 1000;

/// Longest cursor, as the description says.
pub(crate) const MAX_CURSOR_BYTES: usize = 128;

/// A tier, as it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TierName {
    /// Of who asks.
    Private,
    /// Curated.
    Official,
    /// Published by the community.
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

/// How many rows a page has.
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

/// Which layers a listing shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Layers {
    /// What answers to its id.
    #[default]
    Effective,
    /// Every layer that the caller sees, with what is shadowed.
    All,
}

/// A page, as it is asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// Most rows of the page.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000, default = 100)]
    pub(crate) limit: Limit,
    /// Where the page before ended: its `next_cursor`.
    #[param(max_length = 128)]
    pub(crate) cursor: Option<String>,
}

/// A skill in a listing.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ListedSkill {
    /// What it answers to.
    id: String,
    /// What people call it.
    name: String,
    /// What it is for.
    description: String,
    /// A pictogram; empty when it has none.
    emoji: String,
    /// The tier it is stored in.
    source: TierName,
    /// Whether that is the official one.
    #[serde(rename = "isOfficial")]
    is_official: bool,
    /// What it is about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    /// Whether it can be executed.
    executable: bool,
    /// What a call is said to cost; nothing is charged.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    credits_per_call: Option<serde_json::Number>,
    /// When this version was stored, in RFC 3339.
    updated_at: String,
}

impl From<&SkillRow> for ListedSkill {
    fn from(row: &SkillRow) -> Self {
        let tool = row.meta.tool.as_deref();
        let of_tool =
            |field: fn(&ToolMeta) -> &Option<String>| tool.and_then(|it| field(it).clone());
        let description =
            of_tool(|tool| &tool.description).or_else(|| row.meta.description.clone());
        Self {
            id: row.id.to_string(),
            name: of_tool(|tool| &tool.name).unwrap_or_else(|| row.title().to_owned()),
            description: description.unwrap_or_default(),
            emoji: of_tool(|tool| &tool.emoji).unwrap_or_default(),
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
    /// Where the next page begins; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_cursor: Option<String>,
}

/// A skill in full.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SkillDetail {
    pub(crate) success: Success,
    #[schema(value_type = Spec)]
    pub(crate) spec: Box<RawValue>,
    /// The tier it is stored in.
    pub(crate) source: TierName,
    /// Whether that is the official one.
    pub(crate) is_official: bool,
    /// What it needs to be executed; for who asks with a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secrets: Option<Secrets>,
    /// Why the name leads here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) explain: Option<Explained>,
}

/// The secrets of a skill.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Secrets {
    /// Those it cannot do without.
    pub(crate) required: Vec<String>,
    /// Those it can do without.
    pub(crate) optional: Vec<String>,
    /// Those it cannot do without and would not get.
    pub(crate) missing: Vec<Missing>,
}

/// A secret that a skill would not get.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Missing {
    name: String,
    /// `not_set`, `not_granted` to this skill of the market, or `origin_changed`: granted when it called another
    /// server.
    #[schema(value_type = String, examples("not_set"))]
    reason: skills_vault::LackReason,
}

impl From<Lack> for Missing {
    fn from(lack: Lack) -> Self {
        Self { name: lack.name, reason: lack.reason }
    }
}

/// Why a name leads where it leads.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Explained {
    /// Where the entry is that answers.
    pub(crate) answer: Option<StoredAt>,
    /// The entries that would answer if it did not, in order.
    pub(crate) shadows: Vec<StoredAt>,
    /// Where was looked, in order, up to the entry that answers.
    pub(crate) tried: Vec<StoredAt>,
}

/// A place where an entry may be.
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

impl From<Place> for StoredAt {
    fn from(place: Place) -> Self {
        Self::new(place.tier, &place.id)
    }
}

/// A skill, whatever it was written in. What a manifest leaves out is absent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Spec {
    pub(crate) id: String,
    /// The same as the id.
    pub(crate) name: String,
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) display_name: Option<String>,
    pub(crate) description: String,
    /// The JSON Schema of its arguments.
    pub(crate) parameters: Value,
    /// How it is called, without credentials; of type `document` if it is only read.
    pub(crate) implementation: Value,
    /// What it says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) docs: Option<Docs>,
    /// The tier it is stored in.
    pub(crate) source: TierName,
    #[serde(rename = "isOfficial")]
    pub(crate) is_official: bool,
}

/// What a skill says of itself.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Docs {
    /// In a sentence.
    pub(crate) short: String,
    /// In Markdown.
    pub(crate) full_md: String,
}
