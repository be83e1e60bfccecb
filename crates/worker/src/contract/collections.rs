//! Inputs and outputs of the functions of collections.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::TierInput;

/// Input of `collections::list`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct CollectionsInput {
    /// Key of the calling user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

/// Input of `collections::get`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CollectionInput {
    /// Name of the collection.
    pub name: String,
    /// Key of the calling user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

/// Input of `collections::put`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct PutCollectionInput {
    /// Name of the collection: lowercase letters, digits, `-` and `_`.
    pub name: String,
    /// Title for people.
    pub title: String,
    /// What the collection is for.
    #[serde(default)]
    pub description: String,
    /// Addresses of the skills: `id` or `id@label`.
    #[serde(default)]
    pub skills: Vec<String>,
    /// Tier to store it in; official by default.
    #[serde(default)]
    pub tier: Option<TierInput>,
    /// Message of the version.
    #[serde(default)]
    pub message: Option<String>,
    /// Number that the newest version must have; 0 for a collection that must not exist.
    #[serde(default)]
    pub expected_version: Option<u64>,
    /// Key of the calling user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

/// Input of `collections::remove`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RemoveCollectionInput {
    /// Name of the collection.
    pub name: String,
    /// Tier to remove it from; official by default.
    #[serde(default)]
    pub tier: Option<TierInput>,
    /// Key of the calling user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

/// Output of `collections::remove`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RemoveCollectionOutput {
    pub name: String,
    /// False if there was no such collection.
    pub removed: bool,
}
