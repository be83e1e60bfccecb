//! Snapshot of the private layer of the key's user. Its changes are not notified on a bus, so a mirror polls it.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::json;
use skills_core::Tier;

use skills_registry::{Catalog, ChangeEvent, RegistryError};

use crate::{
    RemoteRegistry,
    listing::{self, CATALOG},
    responses::{CatalogPage, PromptList},
    rows::{self, ListingSize},
};

/// Time of registration by id, which differs between versions.
type Times = BTreeMap<String, String>;

/// Private entries of a user at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PrivateLayerSnapshot {
    skills: Times,
    prompts: Times,
    /// All visible prompts, because a listing does not tell the tier of a prompt.
    all_prompts: Times,
}

impl PrivateLayerSnapshot {
    pub(super) async fn fetch(remote: &RemoteRegistry) -> Result<Self, RegistryError> {
        let mut private = Self::default();
        let (mut after, mut size): (Option<String>, _) = (None, ListingSize::default());
        loop {
            let payload = json!({ "tier": "private", "after": after });
            let page = listing::page(remote, payload, &mut size).await?;
            let listed =
                page.skills.into_iter().filter(|row| rows::check_skill_id(&row.id).is_ok());
            private.skills.extend(listed.map(|row| (row.id, row.registered_at)));
            match page.next {
                Some(next) if after.as_ref().is_none_or(|after| next > *after) => {
                    after = Some(next);
                }
                _ => break,
            }
        }
        let public: PromptList = remote.call_without_key("prompts::list", &json!({})).await?;
        let visible: PromptList = remote.call("prompts::list", json!({})).await?;
        let times = |list: PromptList| -> Times {
            let listed = list.prompts.into_iter();
            let listed = listed.filter(|row| rows::check_prompt_name(&row.name).is_ok());
            listed.map(|row| (row.name, row.registered_at)).collect()
        };
        let public = times(public);
        private.all_prompts = times(visible);
        private.prompts = private.all_prompts.clone();
        private.prompts.retain(|name, at| public.get(name) != Some(at));
        Ok(private)
    }

    /// Makes the smallest call that needs a key.
    pub(super) async fn check_key(remote: &RemoteRegistry) -> Result<(), RegistryError> {
        let payload = json!({ "tier": "private", "limit": 1 });
        remote.call::<CatalogPage>(CATALOG, payload).await.map(drop)
    }

    /// Returns the differences to a later snapshot.
    pub(super) fn changes(&self, later: &Self) -> Vec<ChangeEvent> {
        let skills = different(&self.skills, &later.skills).map(ChangeEvent::Skill);
        let prompts = different(&self.prompts, &later.prompts).map(ChangeEvent::Prompt);
        skills.chain(prompts).collect()
    }

    /// Returns the differences to a catalog, which may have been requested between two snapshots.
    pub(super) fn differences(&self, catalog: &Catalog) -> Vec<ChangeEvent> {
        let private = catalog.skills_after(None).filter(|row| row.tier == Tier::Private);
        let known = private.map(|row| (row.id.to_string(), row.registered_at.to_string()));
        let known_prompts = catalog.prompts_after(None);
        let known_prompts =
            known_prompts.map(|row| (row.name.to_string(), row.registered_at.to_string()));
        let (known, known_prompts) = (known.collect(), known_prompts.collect());
        let skills = different(&known, &self.skills).map(ChangeEvent::Skill);
        let prompts = different(&known_prompts, &self.all_prompts).map(ChangeEvent::Prompt);
        skills.chain(prompts).collect()
    }
}

fn different<'a>(one: &'a Times, other: &'a Times) -> impl Iterator<Item = Arc<str>> {
    let gone = one.keys().filter(|name| !other.contains_key(*name));
    let new = other.iter().filter(|(name, at)| one.get(*name) != Some(*at)).map(|(name, _)| name);
    gone.chain(new).map(|name| Arc::from(&**name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_removed_and_replaced_skills_are_changes() {
        let snapshot = |skills: &[(&str, &str)]| PrivateLayerSnapshot {
            skills: skills.iter().map(|(id, at)| (id.to_string(), at.to_string())).collect(),
            ..PrivateLayerSnapshot::default()
        };
        let before = snapshot(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let after = snapshot(&[("a", "1"), ("b", "2"), ("d", "1")]);
        let skill = |id: &str| ChangeEvent::Skill(id.into());
        assert_eq!(before.changes(&after), [skill("c"), skill("b"), skill("d")]);
        assert!(after.changes(&after).is_empty());
    }
}
