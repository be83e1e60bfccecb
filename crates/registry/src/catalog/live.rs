//! The shelf of what live clients have. It stands below all layers: what is stored is never passed by it.
//!
//! It is changed a client at a time, at the cost of what that client has. Ids of skills begin with the id of
//! their client and a slash, which no stored id has, so that they stand beside each other. Names of prompts may
//! be claimed by several clients; the one that registered first has them, and the next when that goes.

use std::{collections::HashSet, sync::Arc};

use imbl::OrdMap;
use skills_core::{Kind, PromptDefinition, SkillId, SkillMeta, Timestamp};

use super::{PromptRow, SkillRow, shelf::Table};
use crate::live::{self, LiveChange, LiveClient, LivePrompt, LiveUpdate, Origin};

/// What all live clients have.
#[derive(Debug, Clone, Default)]
pub(super) struct Live {
    pub(super) revision: u64,
    pub(super) skills: Table<SkillRow>,
    pub(super) prompts: Table<PromptRow>,
    /// Everyone who claims a name, in order.
    claims: OrdMap<(Arc<str>, u64), Arc<PromptRow>>,
    clients: OrdMap<Arc<str>, Arc<Held>>,
}

/// What one client has.
#[derive(Debug, Default)]
struct Held {
    order: u64,
    skills: Vec<Arc<str>>,
    prompts: Vec<Arc<str>>,
}

impl Live {
    pub(super) fn has(&self, client: &str) -> bool {
        self.clients.contains_key(client)
    }

    /// The skills of a client, in its own order.
    pub(super) fn of(&self, client: &str) -> impl Iterator<Item = &Arc<SkillRow>> {
        let ids = self.clients.get(client).into_iter().flat_map(|held| &held.skills);
        ids.filter_map(|id| self.skills.get(id))
    }

    /// Takes in what became of a client, and returns what is to be told of it.
    pub(super) fn apply(&mut self, update: &LiveUpdate, at: Timestamp) -> Vec<LiveChange> {
        let (id, client) = match update {
            LiveUpdate::Here(client) => (&client.id, Some(client)),
            LiveUpdate::Gone(id) => (id, None),
        };
        let before = self.clients.remove(id.as_str()).unwrap_or_default();
        if client.is_none() && before.skills.is_empty() && before.prompts.is_empty() {
            return vec![];
        }
        self.revision += 1;
        let mut touched = Touched::default();
        for id in &before.skills {
            self.skills.remove(id);
            touched.skills.push(Arc::clone(id));
        }
        // What a skill gives may be different, though nothing is said of it; a prompt is rendered anew each time.
        let names = before.prompts.iter();
        let known: Vec<_> =
            names.map(|name| (Arc::clone(name), self.prompts.get(name).cloned())).collect();
        for name in &before.prompts {
            self.unclaim(name, before.order);
        }
        if let Some(client) = client {
            let held = self.put(client);
            touched.skills.extend(held.skills.iter().cloned());
            let old: HashSet<&Arc<str>> = before.prompts.iter().collect();
            let is_new = |name: &&Arc<str>| !old.contains(name);
            touched.prompts.extend(held.prompts.iter().filter(is_new).cloned());
            self.clients.insert(id.to_shared(), Arc::new(held));
        }
        let is_other = |(name, row): &(Arc<str>, Option<Arc<PromptRow>>)| {
            self.prompts.get(name).map(Arc::as_ref) != row.as_deref()
        };
        touched.prompts.extend(known.into_iter().filter(is_other).map(|(name, _)| name));
        touched.told(self, at)
    }

    fn put(&mut self, client: &LiveClient) -> Held {
        let mut held = Held { order: client.order, ..Held::default() };
        for skill in &client.skills {
            let id = live::skill_id(&client.id, &skill.path);
            // Of two at one path the first counts.
            if self.skills.get(&id).is_some() {
                continue;
            }
            let meta = SkillMeta {
                title: skill.title.clone(),
                description: skill.description.clone(),
                files: vec![],
                agent: None,
                tool: None,
            };
            self.skills.insert(&id, SkillRow::live(Arc::clone(&id), meta, client.since));
            held.skills.push(id);
        }
        for prompt in &client.prompts {
            let Some(name) = live::name(&client.id, &prompt.path) else { continue };
            let name = name.to_shared();
            if self.claims.contains_key(&(Arc::clone(&name), client.order)) {
                continue;
            }
            let row = Arc::new(prompt_row(&client.id, &name, prompt, client.since));
            self.claims.insert((Arc::clone(&name), client.order), row);
            self.settle(&name);
            held.prompts.push(name);
        }
        held
    }

    fn unclaim(&mut self, name: &Arc<str>, order: u64) {
        self.claims.remove(&(Arc::clone(name), order));
        self.settle(name);
    }

    /// Gives a name to the first of those who claim it.
    fn settle(&mut self, name: &Arc<str>) {
        let claims = (Arc::clone(name), 0)..=(Arc::clone(name), u64::MAX);
        match self.claims.range(claims).next() {
            Some((_, row)) => self.prompts.share(name, Arc::clone(row)),
            None => self.prompts.remove(name),
        }
    }
}

/// What may be different, some of it twice.
#[derive(Default)]
struct Touched {
    skills: Vec<Arc<str>>,
    prompts: Vec<Arc<str>>,
}

impl Touched {
    fn told(self, live: &Live, at: Timestamp) -> Vec<LiveChange> {
        let unique = |mut ids: Vec<Arc<str>>| {
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        let skills = unique(self.skills).into_iter().map(|id| {
            let is_here = live.skills.get(&id).is_some();
            LiveChange { kind: Kind::Skill, id, is_here, at }
        });
        let prompts = unique(self.prompts).into_iter().map(|id| {
            let is_here = live.prompts.get(&id).is_some();
            LiveChange { kind: Kind::Prompt, id, is_here, at }
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
        function_id: live::RENDERED_BY.to_owned(),
    };
    let origin = Origin { client: client.to_shared(), path: prompt.path.as_str().into() };
    PromptRow::live(Arc::clone(name), definition, since, origin)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use skills_core::Caller;

    use super::*;
    use crate::{
        Catalog,
        catalog::tests::of_documents,
        live::{LivePrompt, LiveSkill},
    };

    fn client(id: &str, order: u64, skills: &[&str], prompts: &[&str]) -> LiveUpdate {
        let skill = |path: &&str| LiveSkill {
            path: (*path).to_owned(),
            title: None,
            description: Some("d".to_owned()),
        };
        let prompt = |path: &&str| LivePrompt { path: (*path).to_owned(), ..LivePrompt::default() };
        LiveUpdate::Here(LiveClient {
            id: id.parse().unwrap(),
            order,
            since: Timestamp::from_micros(1),
            skills: skills.iter().map(skill).collect(),
            prompts: prompts.iter().map(prompt).collect(),
        })
    }

    fn gone(id: &str) -> LiveUpdate {
        LiveUpdate::Gone(id.parse().unwrap())
    }

    fn after(catalog: &Catalog, updates: &[LiveUpdate]) -> (Catalog, Vec<String>) {
        let (next, told) = catalog.with_live(updates, Timestamp::from_micros(2));
        let shown = |change: &LiveChange| {
            let sign = if change.is_here { '+' } else { '-' };
            format!("{sign}{} {}", change.kind.as_str(), change.id)
        };
        (next, told.iter().map(shown).collect())
    }

    fn ids(catalog: &Catalog) -> Vec<String> {
        catalog.skills_after(None).map(|row| row.id.to_string()).collect()
    }

    #[test]
    fn what_a_client_has_comes_and_goes_with_it() {
        let stored = of_documents(&[("desk", "# Stored desk"), ("zoo", "# Zoo")]);
        let (one, told) = after(&stored, &[client("desk", 1, &["/a/skill.md"], &["/p/prompt.md"])]);
        assert_eq!(told, ["+skill desk/a/skill.md", "+prompt desk-p"]);
        assert_eq!(ids(&one), ["desk", "desk/a/skill.md", "zoo"]);
        assert_eq!(one.skill_count(), 3);
        let row = one.skill("desk/a/skill.md").unwrap();
        assert_eq!(row.origin(), Some(("desk", "/a/skill.md")));
        assert_eq!(one.prompt("desk-p").unwrap().definition.function_id, live::RENDERED_BY);
        assert_eq!(one.skill("desk").unwrap().title(), "Stored desk");
        assert!(one.stored("desk/a/skill.md").is_none() && one.stored("desk").is_some());
        let error = one.readable_skill(None, "desk/a/skill.md").unwrap_err();
        assert_eq!(error.code(), "not_found");
        assert_ne!(one.version(), stored.version());
        assert_eq!(one.stored_version(), stored.stored_version());
        assert_eq!(one.revision(), stored.revision());

        let same = client("desk", 1, &["/a/skill.md"], &["/p/prompt.md"]);
        let (_, told) = after(&one, &[same]);
        assert_eq!(told, ["+skill desk/a/skill.md"], "it may give something else now");
        let (two, told) = after(&one, &[client("desk", 1, &["/b/skill.md"], &[])]);
        assert_eq!(told, ["-skill desk/a/skill.md", "+skill desk/b/skill.md", "-prompt desk-p"]);
        let (none, told) = after(&two, &[gone("desk"), gone("desk"), gone("nobody")]);
        assert_eq!(told, ["-skill desk/b/skill.md"]);
        assert_eq!(ids(&none), ["desk", "zoo"]);
        assert!(!none.has_client("desk") && one.has_client("desk"));
    }

    #[test]
    fn the_index_has_them_under_their_client() {
        let stored = of_documents(&[("zoo", "# Zoo")]);
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
    fn a_name_is_of_who_claimed_it_first_and_then_of_the_next() {
        let path = |catalog: &Catalog| {
            let origin = catalog.prompt("a-b-c")?.origin.clone()?;
            Some(format!("{}{}", origin.client, origin.path))
        };
        let late = client("a", 7, &[], &["/b/c/prompt.md", "/b-c/prompt.md"]);
        let (catalog, _) = after(&Catalog::default(), &[late]);
        assert_eq!(path(&catalog).as_deref(), Some("a/b/c/prompt.md"), "the first of a client");
        let (catalog, _) = after(&catalog, &[client("a-b", 3, &[], &["/c/prompt.md"])]);
        assert_eq!(path(&catalog).as_deref(), Some("a-b/c/prompt.md"));
        let (catalog, told) = after(&catalog, &[gone("a-b")]);
        assert_eq!(told, ["+prompt a-b-c"], "it is there, and another");
        assert_eq!(path(&catalog).as_deref(), Some("a/b/c/prompt.md"));
        let (catalog, _) = after(&catalog, &[gone("a")]);
        assert_eq!(path(&catalog), None);
    }

    #[test]
    fn the_prefix_leads_to_nothing_live() {
        let (catalog, _) =
            after(&Catalog::default(), &[client("uniskill_a", 1, &["/skill.md"], &[])]);
        assert!(catalog.skill("uniskill_a/skill.md").is_some());
        assert!(catalog.skill("a/skill.md").is_none());
    }

    #[test]
    fn views_show_them_too() {
        let stored = Arc::new(of_documents(&[("zoo", "# Zoo")]));
        let (catalog, _) = after(&stored, &[client("a", 1, &["/skill.md"], &[])]);
        let seen = Arc::new(catalog).seen_by(&Caller::Anonymous);
        assert_eq!(ids(&seen), ["a/skill.md", "zoo"]);
        assert_eq!(seen.layered_after(None).count(), 2);
    }

    proptest! {
        /// Whatever came before, the shelf holds what the clients have that are here.
        #[test]
        fn the_shelf_is_what_clients_have_now(
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
