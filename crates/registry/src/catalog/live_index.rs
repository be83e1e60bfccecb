//! Index of the entries of live clients. It is below all layers: it never shadows a stored entry.
//!
//! An update replaces the entries of one client and costs as much as these. Ids of live skills begin with the id of
//! their client and a slash, which no stored id has. Several clients may claim the name of a prompt; the one that
//! registered first has it, and the next one when that leaves.

use std::{collections::HashSet, sync::Arc};

use imbl::OrdMap;
use skills_core::{EntryKind, PromptDefinition, SkillId, SkillMeta, Timestamp};

use super::{PromptRow, SkillRow, layer_index::Table};
use crate::live::{self, LiveChange, LiveClient, LiveOrigin, LivePrompt, LiveUpdate};

/// Entries of all live clients.
#[derive(Debug, Clone, Default)]
pub(super) struct LiveIndex {
    pub(super) revision: u64,
    pub(super) skills: Table<SkillRow>,
    pub(super) prompts: Table<PromptRow>,
    /// Prompts by name and order of registration of their clients.
    claims: OrdMap<(Arc<str>, u64), Arc<PromptRow>>,
    clients: OrdMap<Arc<str>, Arc<ClientEntries>>,
}

/// Ids of the entries of one client.
#[derive(Debug, Default)]
struct ClientEntries {
    order: u64,
    skills: Vec<Arc<str>>,
    prompts: Vec<Arc<str>>,
}

impl LiveIndex {
    pub(super) fn has_client(&self, client: &str) -> bool {
        self.clients.contains_key(client)
    }

    /// Iterates over the skills of a client, in its order.
    pub(super) fn skills_of(&self, client: &str) -> impl Iterator<Item = &Arc<SkillRow>> {
        let ids = self.clients.get(client).into_iter().flat_map(|entries| &entries.skills);
        ids.filter_map(|id| self.skills.get(id))
    }

    /// Applies the update of a client and returns the changes to notify of.
    pub(super) fn apply(&mut self, update: &LiveUpdate, at: Timestamp) -> Vec<LiveChange> {
        let (id, client) = match update {
            LiveUpdate::Connected(client) => (&client.id, Some(client)),
            LiveUpdate::Disconnected(id) => (id, None),
        };
        let before = self.clients.remove(id.as_str()).unwrap_or_default();
        if client.is_none() && before.skills.is_empty() && before.prompts.is_empty() {
            return vec![];
        }
        self.revision += 1;
        let mut changed = ChangedIds::default();
        for id in &before.skills {
            self.skills.remove(id);
            changed.skills.push(Arc::clone(id));
        }
        // The body of a skill may differ with every registration. A prompt is rendered each time, so only a change of
        // its row counts.
        let names = before.prompts.iter();
        let rows_before: Vec<_> =
            names.map(|name| (Arc::clone(name), self.prompts.get(name).cloned())).collect();
        for name in &before.prompts {
            self.unclaim(name, before.order);
        }
        if let Some(client) = client {
            let entries = self.put(client);
            changed.skills.extend(entries.skills.iter().cloned());
            let old: HashSet<&Arc<str>> = before.prompts.iter().collect();
            let is_new = |name: &&Arc<str>| !old.contains(name);
            changed.prompts.extend(entries.prompts.iter().filter(is_new).cloned());
            self.clients.insert(id.to_shared(), Arc::new(entries));
        }
        let is_other = |(name, row): &(Arc<str>, Option<Arc<PromptRow>>)| {
            self.prompts.get(name).map(Arc::as_ref) != row.as_deref()
        };
        changed.prompts.extend(rows_before.into_iter().filter(is_other).map(|(name, _)| name));
        changed.into_changes(self, at)
    }

    fn put(&mut self, client: &LiveClient) -> ClientEntries {
        let mut entries = ClientEntries { order: client.order, ..ClientEntries::default() };
        for skill in &client.skills {
            let id = live::skill_id(&client.id, &skill.path);
            // The first of two skills at one path counts.
            if self.skills.get(&id).is_some() {
                continue;
            }
            let meta = SkillMeta {
                heading: skill.title.clone(),
                first_paragraph: skill.description.clone(),
                ..SkillMeta::default()
            };
            self.skills.insert(&id, SkillRow::live(Arc::clone(&id), meta, client.since));
            entries.skills.push(id);
        }
        for prompt in &client.prompts {
            let Some(name) = live::prompt_name(&client.id, &prompt.path) else { continue };
            let name = name.to_shared();
            if self.claims.contains_key(&(Arc::clone(&name), client.order)) {
                continue;
            }
            let row = Arc::new(prompt_row(&client.id, &name, prompt, client.since));
            self.claims.insert((Arc::clone(&name), client.order), row);
            self.assign_name(&name);
            entries.prompts.push(name);
        }
        entries
    }

    fn unclaim(&mut self, name: &Arc<str>, order: u64) {
        self.claims.remove(&(Arc::clone(name), order));
        self.assign_name(name);
    }

    /// Assigns the name of a prompt to the first client that claims it.
    fn assign_name(&mut self, name: &Arc<str>) {
        let claims = (Arc::clone(name), 0)..=(Arc::clone(name), u64::MAX);
        match self.claims.range(claims).next() {
            Some((_, row)) => self.prompts.insert(name, Arc::clone(row)),
            None => self.prompts.remove(name),
        }
    }
}

/// Ids that may be different, possibly with duplicates.
#[derive(Default)]
struct ChangedIds {
    skills: Vec<Arc<str>>,
    prompts: Vec<Arc<str>>,
}

impl ChangedIds {
    fn into_changes(self, live: &LiveIndex, at: Timestamp) -> Vec<LiveChange> {
        let unique = |mut ids: Vec<Arc<str>>| {
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        let skills = unique(self.skills).into_iter().map(|id| {
            let is_present = live.skills.get(&id).is_some();
            LiveChange { kind: EntryKind::Skill, id, is_present, at }
        });
        let prompts = unique(self.prompts).into_iter().map(|id| {
            let is_present = live.prompts.get(&id).is_some();
            LiveChange { kind: EntryKind::Prompt, id, is_present, at }
        });
        skills.chain(prompts).collect()
    }
}

fn prompt_row(
    client: &SkillId,
    name: &Arc<str>,
    prompt: &LivePrompt,
    since: Timestamp,
) -> PromptRow {
    let description = prompt.description.as_deref().filter(|text| !text.trim().is_empty());
    let definition = PromptDefinition {
        description: description
            .map_or_else(|| format!("{} of {client}", prompt.path), str::to_owned),
        arguments: prompt.arguments.clone(),
        function_id: live::LIVE_PROMPT_FUNCTION.to_owned(),
    };
    let origin = LiveOrigin { client: client.to_shared(), path: prompt.path.as_str().into() };
    PromptRow::live(Arc::clone(name), definition, since, origin)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use skills_core::Caller;

    use skills_core::Coded as _;

    use super::*;
    use crate::{
        Catalog,
        catalog::tests::catalog_with_documents,
        live::{LivePrompt, LiveSkill},
    };

    fn client(id: &str, order: u64, skills: &[&str], prompts: &[&str]) -> LiveUpdate {
        let skill = |path: &&str| LiveSkill {
            path: (*path).to_owned(),
            title: None,
            description: Some("d".to_owned()),
        };
        let prompt = |path: &&str| LivePrompt { path: (*path).to_owned(), ..LivePrompt::default() };
        LiveUpdate::Connected(LiveClient {
            id: id.parse().unwrap(),
            order,
            since: Timestamp::from_micros(1),
            skills: skills.iter().map(skill).collect(),
            prompts: prompts.iter().map(prompt).collect(),
        })
    }

    fn gone(id: &str) -> LiveUpdate {
        LiveUpdate::Disconnected(id.parse().unwrap())
    }

    fn after(catalog: &Catalog, updates: &[LiveUpdate]) -> (Catalog, Vec<String>) {
        let (next, changes) = catalog.with_live(updates, Timestamp::from_micros(2));
        let shown = |change: &LiveChange| {
            let sign = if change.is_present { '+' } else { '-' };
            format!("{sign}{} {}", change.kind.as_str(), change.id)
        };
        (next, changes.iter().map(shown).collect())
    }

    fn ids(catalog: &Catalog) -> Vec<String> {
        catalog.skills_after(None).map(|row| row.id.to_string()).collect()
    }

    #[test]
    fn entries_of_a_client_are_listed_while_it_is_connected() {
        let stored = catalog_with_documents(&[("desk", "# Stored desk"), ("zoo", "# Zoo")]);
        let (one, changes) =
            after(&stored, &[client("desk", 1, &["/a/skill.md"], &["/p/prompt.md"])]);
        assert_eq!(changes, ["+skill desk/a/skill.md", "+prompt desk-p"]);
        assert_eq!(ids(&one), ["desk", "desk/a/skill.md", "zoo"]);
        assert_eq!(one.skill_count(), 3);
        let row = one.skill("desk/a/skill.md").unwrap();
        assert_eq!(row.origin(), Some(("desk", "/a/skill.md")));
        assert_eq!(
            one.prompt("desk-p").unwrap().definition.function_id,
            live::LIVE_PROMPT_FUNCTION
        );
        assert_eq!(one.skill("desk").unwrap().title(), "Stored desk");
        assert!(one.stored("desk/a/skill.md").is_none() && one.stored("desk").is_some());
        let error = one.readable_skill(None, "desk/a/skill.md").unwrap_err();
        assert_eq!(error.code().as_str(), "not_found");
        assert_ne!(one.version(), stored.version());
        assert_eq!(one.stored_version(), stored.stored_version());
        assert_eq!(one.revision(), stored.revision());

        let same = client("desk", 1, &["/a/skill.md"], &["/p/prompt.md"]);
        let (_, changes) = after(&one, &[same]);
        assert_eq!(changes, ["+skill desk/a/skill.md"], "it may give something else now");
        let (two, changes) = after(&one, &[client("desk", 1, &["/b/skill.md"], &[])]);
        assert_eq!(changes, ["-skill desk/a/skill.md", "+skill desk/b/skill.md", "-prompt desk-p"]);
        let (none, changes) = after(&two, &[gone("desk"), gone("desk"), gone("nobody")]);
        assert_eq!(changes, ["-skill desk/b/skill.md"]);
        assert_eq!(ids(&none), ["desk", "zoo"]);
        assert!(!none.has_client("desk") && one.has_client("desk"));
    }

    #[test]
    fn the_index_lists_live_skills_under_their_client() {
        let stored = catalog_with_documents(&[("zoo", "# Zoo")]);
        let updates = [
            client("b", 1, &["/skill.md", "/x/skill.md"], &[]),
            client("a", 2, &["/skill.md"], &[]),
        ];
        let (catalog, _) = after(&stored, &updates);
        assert_eq!(
            &*catalog.index(),
            "# Skills\n\n- [Zoo](iii://zoo)\n\n## a (live)\n\n\
             - [a/skill.md](iii://a/skill.md): d (live: a)\n\n## b (live)\n\n\
             - [b/skill.md](iii://b/skill.md): d (live: b)\n\
             - [b/x/skill.md](iii://b/x/skill.md): d (live: b)\n"
        );
        let (alone, _) = after(&Catalog::default(), &updates);
        assert!(alone.index().starts_with("# Skills\n\n## a (live)\n\n- "));
        assert_eq!(catalog.client_root("a"), Ok("skill.md"));
        let (catalog, _) = after(&catalog, &[client("b", 1, &["/x/skill.md"], &[])]);
        let list = catalog.client_root("b").expect_err("no root");
        assert!(list.starts_with("# b\n\n- [b/x/skill.md](iii://b/x/skill.md)"), "{list}");
    }

    #[test]
    fn a_prompt_name_belongs_to_the_first_client_that_claims_it() {
        let path = |catalog: &Catalog| {
            let origin = catalog.prompt("a-b-c")?.origin.clone()?;
            Some(format!("{}{}", origin.client, origin.path))
        };
        let late = client("a", 7, &[], &["/b/c/prompt.md", "/b-c/prompt.md"]);
        let (catalog, _) = after(&Catalog::default(), &[late]);
        assert_eq!(path(&catalog).as_deref(), Some("a/b/c/prompt.md"), "the first of a client");
        let (catalog, _) = after(&catalog, &[client("a-b", 3, &[], &["/c/prompt.md"])]);
        assert_eq!(path(&catalog).as_deref(), Some("a-b/c/prompt.md"));
        let (catalog, changes) = after(&catalog, &[gone("a-b")]);
        assert_eq!(changes, ["+prompt a-b-c"], "it is there, and another");
        assert_eq!(path(&catalog).as_deref(), Some("a/b/c/prompt.md"));
        let (catalog, _) = after(&catalog, &[gone("a")]);
        assert_eq!(path(&catalog), None);
    }

    #[test]
    fn the_prefix_does_not_apply_to_live_skills() {
        let (catalog, _) =
            after(&Catalog::default(), &[client("uniskill_a", 1, &["/skill.md"], &[])]);
        assert!(catalog.skill("uniskill_a/skill.md").is_some());
        assert!(catalog.skill("a/skill.md").is_none());
    }

    #[test]
    fn views_include_live_skills() {
        let stored = Arc::new(catalog_with_documents(&[("zoo", "# Zoo")]));
        let (catalog, _) = after(&stored, &[client("a", 1, &["/skill.md"], &[])]);
        let seen = Arc::new(catalog).view_for(&Caller::Anonymous);
        assert_eq!(ids(&seen), ["a/skill.md", "zoo"]);
        assert_eq!(seen.layered_after(None).count(), 2);
    }

    proptest! {
        #[test]
        fn the_index_has_the_entries_of_connected_clients(
            steps in prop::collection::vec(("[a-c]", prop::collection::btree_set("/[x-z]", 0..3), any::<bool>()), 0..12),
        ) {
            let mut catalog = Catalog::default();
            let mut here = std::collections::BTreeMap::new();
            for (order, (id, folders, comes)) in steps.into_iter().enumerate() {
                let skills: Vec<String> = folders.iter().map(|f| format!("{f}/skill.md")).collect();
                let prompts: Vec<String> = folders.iter().map(|f| format!("{f}/prompt.md")).collect();
                let update = if comes {
                    let skills: Vec<&str> = skills.iter().map(String::as_str).collect();
                    let prompts: Vec<&str> = prompts.iter().map(String::as_str).collect();
                    here.insert(id.clone(), folders);
                    client(&id, order as u64, &skills, &prompts)
                } else {
                    here.remove(&id);
                    gone(&id)
                };
                catalog = catalog.with_live(&[update], Timestamp::from_micros(1)).0;
            }
            let expected: Vec<String> = here
                .iter()
                .flat_map(|(id, folders)| folders.iter().map(move |f| format!("{id}{f}/skill.md")))
                .collect();
            prop_assert_eq!(ids(&catalog), expected);
            let prompts: Vec<String> =
                catalog.prompts_after(None).map(|row| row.name.to_string()).collect();
            let expected: Vec<String> = here
                .iter()
                .flat_map(|(id, folders)| folders.iter().map(move |f| format!("{id}-{}", &f[1..])))
                .collect();
            prop_assert_eq!(prompts, expected);
            prop_assert_eq!(catalog.skill_count(), catalog.skills_after(None).count());
        }
    }
}
