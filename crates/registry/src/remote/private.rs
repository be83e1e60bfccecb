//! The private layer of who asks, as a registry behind a bus tells of it. Nobody announces on a bus what happens
//! there, so it is looked at from time to time.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::json;
use skills_core::Tier;

use super::{
    RemoteRegistry,
    answers::{CatalogPage, PromptList},
    listing::CATALOG,
};
use crate::{Catalog, Changed, RegistryError};

/// When each entry was registered, which is another moment for every version.
type Moments = BTreeMap<String, String>;

/// What a look has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Private {
    skills: Moments,
    prompts: Moments,
    /// Those of everyone among them: a list does not say whose a prompt is.
    all_prompts: Moments,
}

impl Private {
    pub(super) async fn look(remote: &RemoteRegistry) -> Result<Self, RegistryError> {
        let mut private = Self::default();
        let mut after: Option<String> = None;
        loop {
            let wanted = json!({ "tier": "private", "after": after });
            let page: CatalogPage = remote.call(CATALOG, wanted).await?;
            private.skills.extend(page.skills.into_iter().map(|row| (row.id, row.registered_at)));
            match page.next {
                Some(next) if after.as_ref().is_none_or(|after| next > *after) => {
                    after = Some(next);
                }
                _ => break,
            }
        }
        let everyones: PromptList = remote.call_any("prompts::list", &json!({})).await?;
        let seen: PromptList = remote.call("prompts::list", json!({})).await?;
        let moments = |list: PromptList| -> Moments {
            list.prompts.into_iter().map(|row| (row.name, row.registered_at)).collect()
        };
        let everyones = moments(everyones);
        private.all_prompts = moments(seen);
        private.prompts = private.all_prompts.clone();
        private.prompts.retain(|name, at| everyones.get(name) != Some(at));
        Ok(private)
    }

    /// What is different in a later look.
    pub(super) fn changes(&self, later: &Self) -> Vec<Changed> {
        let skills = different(&self.skills, &later.skills).map(Changed::Skill);
        let prompts = different(&self.prompts, &later.prompts).map(Changed::Prompt);
        skills.chain(prompts).collect()
    }

    /// What is different in a catalog, which may have been asked for between two looks.
    pub(super) fn unlike(&self, catalog: &Catalog) -> Vec<Changed> {
        let private = catalog.skills_after(None).filter(|row| row.tier == Tier::Private);
        let known = private.map(|row| (row.id.to_string(), row.registered_at.to_string()));
        let known_prompts = catalog.prompts_after(None);
        let known_prompts =
            known_prompts.map(|row| (row.name.to_string(), row.registered_at.to_string()));
        let (known, known_prompts) = (known.collect(), known_prompts.collect());
        let skills = different(&known, &self.skills).map(Changed::Skill);
        let prompts = different(&known_prompts, &self.all_prompts).map(Changed::Prompt);
        skills.chain(prompts).collect()
    }
}

fn different<'a>(one: &'a Moments, other: &'a Moments) -> impl Iterator<Item = Arc<str>> {
    let gone = one.keys().filter(|name| !other.contains_key(*name));
    let new = other.iter().filter(|(name, at)| one.get(*name) != Some(*at)).map(|(name, _)| name);
    gone.chain(new).map(|name| Arc::from(&**name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_went_or_has_another_moment() {
        let look = |skills: &[(&str, &str)]| Private {
            skills: skills.iter().map(|(id, at)| (id.to_string(), at.to_string())).collect(),
            ..Private::default()
        };
        let before = look(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let after = look(&[("a", "1"), ("b", "2"), ("d", "1")]);
        let skill = |id: &str| Changed::Skill(id.into());
        assert_eq!(before.changes(&after), [skill("c"), skill("b"), skill("d")]);
        assert!(after.changes(&after).is_empty());
    }
}
