//! Inputs of the functions about versions. Their outputs are the responses of the registry, unchanged.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skills_core::{EntryKind, Label, VersionSelector};
use skills_registry::{
    CollectRequest, HistoryRequest, LabelRequest, LogRequest, PublishRequest, Published,
    RollbackRequest, YankRequest, log_info::EntryKindName,
};

use super::{HasKey, TierInput};

/// Fields of an input that name an entry and the caller.
pub trait EntryInput: HasKey {
    /// Kind of the entry.
    const KIND: EntryKind;
    /// Namespace of the functions of that kind.
    const NAMESPACE: &str;

    /// Returns the id or name.
    fn name(&self) -> &str;
    /// Returns the tier, if the input has one.
    fn tier(&self) -> Option<TierInput>;
}

/// Skill of an input.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SkillInput {
    /// Id of the skill.
    pub id: String,
    /// Tier of the skill; by default the one that the id resolves to.
    #[serde(default)]
    pub tier: Option<TierInput>,
    /// Key of the calling user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

/// Prompt of an input.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct PromptInput {
    /// Name of the prompt.
    pub name: String,
    /// Tier of the prompt; by default the one that the name resolves to.
    #[serde(default)]
    pub tier: Option<TierInput>,
    /// Key of the calling user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

/// Collection of an input.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct VersionedCollectionInput {
    /// Name of the collection.
    pub name: String,
    /// Tier of the collection; by default the one that the name resolves to.
    #[serde(default)]
    pub tier: Option<TierInput>,
    /// Key of the calling user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

impl EntryInput for SkillInput {
    const KIND: EntryKind = EntryKind::Skill;
    const NAMESPACE: &str = "skills";

    fn name(&self) -> &str {
        &self.id
    }

    fn tier(&self) -> Option<TierInput> {
        self.tier
    }
}

impl EntryInput for PromptInput {
    const KIND: EntryKind = EntryKind::Prompt;
    const NAMESPACE: &str = "prompts";

    fn name(&self) -> &str {
        &self.name
    }

    fn tier(&self) -> Option<TierInput> {
        self.tier
    }
}

impl EntryInput for VersionedCollectionInput {
    const KIND: EntryKind = EntryKind::Collection;
    const NAMESPACE: &str = "collections";

    fn name(&self) -> &str {
        &self.name
    }

    fn tier(&self) -> Option<TierInput> {
        self.tier
    }
}

/// Schema of a version: its number, or the text after `@` of an address.
#[derive(JsonSchema)]
#[schemars(rename = "Version")]
#[serde(untagged)]
pub enum VersionSchema {
    Number(u64),
    Text(String),
}

/// Input of `history` of skills, prompts and collections.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "HistoryInput")]
pub struct HistoryInput<E> {
    #[serde(flatten)]
    pub entry: E,
    /// Most versions of a page: 50 by default, at most 500.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Cursor: `next` of the page before.
    #[serde(default)]
    pub after: Option<String>,
}

/// Input of `diff` of skills, prompts and collections.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "DiffInput")]
pub struct DiffInput<E> {
    #[serde(flatten)]
    pub entry: E,
    /// Earlier version; required unless the id has one, as in `pdf@3`.
    #[serde(default)]
    #[schemars(with = "Option<VersionSchema>")]
    pub from: Option<VersionSelector>,
    /// Later version.
    #[schemars(with = "VersionSchema")]
    pub to: VersionSelector,
}

/// Input of `skills::label` and `prompts::label`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "LabelInput")]
pub struct LabelInput<E> {
    #[serde(flatten)]
    pub entry: E,
    /// Label: 1 to 32 of `a-z`, `0-9` and `-`; not a number and not `latest`.
    #[schemars(with = "String")]
    pub label: Label,
    /// Version that gets the label; `null` removes the label.
    // Required: an input that lacks it must not remove the label.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schemars(with = "Option<VersionSchema>", required)]
    pub version: Option<VersionSelector>,
    /// Number of the version that must have the label now; 0 if none must have it.
    #[serde(default)]
    pub expected: Option<u64>,
}

/// Input of `skills::rollback` and `prompts::rollback`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "RollbackInput")]
pub struct RollbackInput<E> {
    #[serde(flatten)]
    pub entry: E,
    /// Version whose content is registered again.
    #[schemars(with = "VersionSchema")]
    pub to: VersionSelector,
    /// Message of the new version, at most 1 KiB.
    #[serde(default)]
    pub message: Option<String>,
    /// Number that the newest version must have.
    #[serde(default)]
    pub expected_version: Option<u64>,
}

/// Input of `skills::yank` and `prompts::yank`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "YankInput")]
pub struct YankInput<E> {
    #[serde(flatten)]
    pub entry: E,
    /// Version that is withdrawn.
    #[schemars(with = "VersionSchema")]
    pub version: VersionSelector,
    /// Reason, at most 1 KiB; required unless the yank is undone.
    #[serde(default)]
    pub reason: String,
    /// Undo the yank.
    #[serde(default)]
    pub undo: bool,
    /// Remove the content for good.
    #[serde(default)]
    pub purge: bool,
}

/// Input of `skills::log`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct LogInput {
    /// Restrict the log to `skill` or `prompt`.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub kind: Option<EntryKindName>,
    /// Restrict the log to this id or name.
    #[serde(default, alias = "name")]
    pub id: Option<String>,
    /// Restrict the log to this tier.
    #[serde(default)]
    pub tier: Option<TierInput>,
    /// Earliest time, in RFC 3339.
    #[serde(default)]
    pub since: Option<String>,
    /// Text that the actor contains.
    #[serde(default)]
    pub by: Option<String>,
    /// Most records of a page: 50 by default, at most 500.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Cursor: `next` of the page before.
    #[serde(default)]
    pub after: Option<String>,
    /// Key of the calling user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

/// Input of `skills::gc`. A version is kept if either limit keeps it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct CollectInput {
    /// Number of the newest versions of each entry that are kept.
    #[serde(default)]
    pub versions: Option<u64>,
    /// Days for which versions are kept.
    #[serde(default)]
    pub days: Option<u64>,
    /// Only report what would be removed.
    #[serde(default)]
    pub dry_run: bool,
}

/// Version of a registration, which the published output does not have.
#[derive(Debug, Serialize)]
pub struct PublishedVersion {
    /// Version with the content; absent in a registry without history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// False if the newest version had the same content already.
    pub created: bool,
    /// Version that the plain id reads now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served: Option<u64>,
}

impl From<&Published> for PublishedVersion {
    fn from(published: &Published) -> Self {
        let Published { version, created, served, .. } = *published;
        Self { version, created, served }
    }
}

impl<E: EntryInput> HistoryInput<E> {
    pub(crate) fn request(&self, id: String) -> HistoryRequest {
        let tier = self.entry.tier().map(Into::into);
        HistoryRequest { id, tier, limit: self.limit, after: self.after.clone() }
    }
}

impl<E: EntryInput> From<LabelInput<E>> for LabelRequest {
    fn from(input: LabelInput<E>) -> Self {
        let LabelInput { entry, label, version, expected } = input;
        let (id, tier) = (entry.name().to_owned(), entry.tier().map(Into::into));
        Self { id, tier, label, version, expected }
    }
}

impl<E: EntryInput> From<RollbackInput<E>> for RollbackRequest {
    fn from(input: RollbackInput<E>) -> Self {
        let RollbackInput { entry, to, message, expected_version } = input;
        let (id, tier) = (entry.name().to_owned(), entry.tier().map(Into::into));
        Self { id, tier, to, publish: PublishRequest { message, expected_version } }
    }
}

impl<E: EntryInput> From<YankInput<E>> for YankRequest {
    fn from(input: YankInput<E>) -> Self {
        let YankInput { entry, version, reason, undo, purge } = input;
        let (id, tier) = (entry.name().to_owned(), entry.tier().map(Into::into));
        Self { id, tier, version, reason, undo, purge }
    }
}

impl From<LogInput> for LogRequest {
    fn from(input: LogInput) -> Self {
        let LogInput { kind, id, tier, since, by, limit, after, .. } = input;
        Self { kind, id, tier: tier.map(Into::into), since, by, limit, after }
    }
}

impl From<CollectInput> for CollectRequest {
    fn from(CollectInput { versions, days, dry_run }: CollectInput) -> Self {
        Self { versions, days, dry_run }
    }
}
