//! Report of a purge: the bytes that are gone, and the entries that still have files of the purged version.

use serde::{Deserialize, Serialize};
use skills_core::{EntryKey, Layer, Tier};

/// Effect of a purge on the stored files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PurgeReport {
    /// Bytes that are gone. `None` for a private entry: it would tell whether another user has the same files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freed_bytes: Option<u64>,
    /// Entries that still have files of the purged version, with the newest version of each that has one. At most 20, and
    /// only those that the owner of the entry sees.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<FileHolder>,
    /// Number of private entries among the holders of a public entry's files.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub held_privately: u64,
}

const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Version that has a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileHolder {
    /// Tier of the entry.
    pub tier: Tier,
    /// Id of the skill.
    pub id: String,
    /// Number of the version.
    pub version: u64,
}

impl PurgeReport {
    /// Describes a purge of an entry to callers that may change it.
    pub(crate) fn new(key: &EntryKey, freed_bytes: u64, holders: &[(EntryKey, u64)]) -> Self {
        let is_visible = |layer: &Layer| match layer {
            Layer::Private(_) => *layer == key.layer,
            Layer::Official | Layer::Market => true,
        };
        let holder = |(key, version): &(EntryKey, u64)| FileHolder {
            tier: key.layer.tier(),
            id: key.id.to_string(),
            version: *version,
        };
        let (visible, hidden): (Vec<_>, Vec<_>) =
            holders.iter().partition(|(key, _)| is_visible(&key.layer));
        let is_public = !matches!(key.layer, Layer::Private(_));
        Self {
            freed_bytes: is_public.then_some(freed_bytes),
            held_by: visible.into_iter().map(holder).collect(),
            held_privately: if is_public { hidden.len() as u64 } else { 0 },
        }
    }
}
