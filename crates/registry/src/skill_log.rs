//! The change log of skills in the order in which it was written, with the content that each change served. Surfaces that
//! derive a history from the log read it page by page.

use std::sync::Arc;

use skills_core::{Caller, EntryKind, SkillId, Tier, Timestamp};
use skills_store::{Action, EntryContent, LogFilter, ServedRecord, Store};

use crate::{ReadVersion, Registry, RegistryError, SkillRow, version_lookup::visible_layers};

/// Most changes of a page.
const MAX_CHANGES: usize = 500;

/// Memory of a page, whose changes have the metadata of skills.
const LOG_BYTES: usize = 8 << 20;

/// Request for a page of the change log of skills.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SkillLogRequest {
    /// Skill id; `None` for all skills.
    pub id: Option<String>,
    /// Tier; `None` for all that the caller sees.
    pub tier: Option<Tier>,
    /// Revision of the last change that is known already; 0 for none.
    pub after: u64,
}

/// Page of the change log of skills, oldest first.
#[derive(Debug, Clone, Default)]
pub struct SkillLogPage {
    /// Changes.
    pub changes: Vec<SkillChange>,
    /// True if there are more changes after the last one.
    pub has_more: bool,
}

/// Change of a skill.
#[derive(Debug, Clone)]
pub struct SkillChange {
    /// Revision; grows by one with each change of any entry.
    pub revision: u64,
    /// Time.
    pub at: Timestamp,
    /// Tier of the skill.
    pub tier: Tier,
    /// Skill id.
    pub id: Arc<str>,
    /// Act.
    pub action: Action,
    /// Version that the plain id read before, in this tier.
    pub before: Option<u64>,
    /// Version that the plain id read afterwards, in this tier.
    pub served: ServedSkill,
}

/// Version of a skill that a change served.
#[derive(Debug, Clone)]
pub enum ServedSkill {
    /// None: the skill was removed, or all its versions were yanked.
    None,
    /// A version, with its row.
    Version(u64, Arc<SkillRow>),
    /// A version whose content was purged or collected since.
    Gone(u64),
    /// A version whose metadata cannot be read.
    Corrupt(u64),
}

impl Registry {
    /// Returns a page of the change log of the skills that a caller sees.
    ///
    /// # Errors
    /// When the id is invalid, private skills are requested without a key, or the store keeps no log.
    pub async fn skill_log_as(
        &self,
        caller: &Caller,
        request: &SkillLogRequest,
    ) -> Result<SkillLogPage, RegistryError> {
        let layers = match request.tier {
            Some(tier) => vec![caller.layer(tier).ok_or(RegistryError::KeyNeeded)?],
            None => visible_layers(caller),
        };
        let id = request.id.as_deref().map(str::parse::<SkillId>).transpose()?;
        let filter = LogFilter {
            kind: Some(EntryKind::Skill),
            layers: Some(layers),
            id: id.map(|id| id.to_shared()),
            ..LogFilter::default()
        };
        let after = request.after;
        let read = move |store: &dyn Store| store.log_after(&filter, after, MAX_CHANGES + 1);
        let mut records = self.read_store(LOG_BYTES, read).await?;
        let has_more = records.len() > MAX_CHANGES;
        records.truncate(MAX_CHANGES);
        Ok(SkillLogPage { changes: records.into_iter().map(Into::into).collect(), has_more })
    }
}

impl From<ServedRecord> for SkillChange {
    fn from(ServedRecord { record, content }: ServedRecord) -> Self {
        let tier = record.key.layer.tier();
        let served = match (record.served, content.as_deref()) {
            (None, _) => ServedSkill::None,
            (Some(version), None) => ServedSkill::Gone(version),
            (Some(version), Some(EntryContent::Skill(meta))) => {
                let pinned = ReadVersion::new(version, None);
                let (id, meta) = (Arc::clone(&record.key.id), meta.clone());
                let row = SkillRow::of_version(id, tier, meta, record.at, pinned);
                ServedSkill::Version(version, Arc::new(row))
            }
            (Some(version), Some(_)) => ServedSkill::Corrupt(version),
        };
        Self {
            revision: record.revision,
            at: record.at,
            tier,
            id: record.key.id,
            action: record.action,
            before: record.before,
            served,
        }
    }
}
