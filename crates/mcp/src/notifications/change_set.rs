//! Changes that clients have not been notified of, and their conversion to notifications.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use rmcp::model::{
    PromptListChangedNotification, ResourceListChangedNotification, ResourceUpdatedNotification,
    ResourceUpdatedNotificationParam, ServerNotification, SubscriptionFilter,
    ToolListChangedNotification,
};
use skills_core::{
    VersionSelector,
    id::INDEX_ID,
    skill::{ROOT_PATH, SKILL_LEAVES},
};
use skills_registry::ChangeEvent;

use crate::subscriptions::{IndexedId, UriIndex, first_segment, ids, skill_path};

/// Set of lists that clients can be notified of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lists {
    pub(crate) resources: bool,
    pub(crate) prompts: bool,
    pub(crate) tools: bool,
}

impl Lists {
    pub(crate) const ALL: Self = Self { resources: true, prompts: true, tools: true };
}

impl From<&SubscriptionFilter> for Lists {
    fn from(filter: &SubscriptionFilter) -> Self {
        Self {
            resources: filter.resources_list_changed == Some(true),
            prompts: filter.prompts_list_changed == Some(true),
            tools: filter.tools_list_changed == Some(true),
        }
    }
}

/// Set of changes.
#[derive(Debug, Default)]
pub(super) struct ChangeSet {
    /// Lists that are different.
    pub(super) lists: Lists,
    /// Any skill may have changed; the sets of ids are empty.
    pub(super) any_skill: bool,
    skills: HashSet<Arc<str>>,
    /// Live clients with changed skills: the first segments of their ids.
    live_clients: HashSet<Box<str>>,
    /// Skills whose plain URI reads what it read before, while a URI with a version may read something else.
    versions: HashSet<Arc<str>>,
    /// Versions that were yanked, unyanked, purged or collected, by skill.
    withdrawn: HashMap<Arc<str>, HashSet<u64>>,
    /// Number of ids and versions in the sets.
    len: usize,
}

/// Change of one skill.
#[derive(Debug, Clone, Copy)]
pub(super) enum SkillChange<'a> {
    /// The skill was added, removed or has another body.
    Served(&'a Arc<str>),
    /// Versions or labels changed.
    Versions(&'a Arc<str>),
    /// The exact address of a version reads something else.
    Version(&'a Arc<str>, u64),
}

impl SkillChange<'_> {
    /// Returns the id under which URIs of the skill are indexed.
    pub(super) fn indexed_id(&self) -> &str {
        let (Self::Served(id) | Self::Versions(id) | Self::Version(id, _)) = self;
        first_segment(id)
    }
}

impl ChangeSet {
    /// Returns a set of all changes that there can be.
    pub(super) fn everything() -> Self {
        Self { lists: Lists::ALL, any_skill: true, ..Self::default() }
    }

    pub(super) const fn is_empty(&self) -> bool {
        let Lists { resources, prompts, tools } = self.lists;
        !(resources || prompts || tools || self.any_skill) && self.len == 0
    }

    /// Adds the change that an event tells of; beyond `max` ids, any skill may have changed.
    pub(super) fn add(&mut self, event: ChangeEvent, max: usize) {
        match event {
            ChangeEvent::Skill(id) => {
                self.lists.resources = true;
                self.add_skill(SkillChange::Served(&id), max);
            }
            ChangeEvent::SkillVersions(id) => self.add_skill(SkillChange::Versions(&id), max),
            ChangeEvent::SkillVersion { id, version } => {
                self.add_skill(SkillChange::Version(&id, version), max);
            }
            ChangeEvent::Prompt(_) => self.lists.prompts = true,
            // A listing has the served definition, and nothing subscribes to a prompt.
            ChangeEvent::PromptVersions(_) | ChangeEvent::Collection(_) => {}
            ChangeEvent::Tools => self.lists.tools = true,
            // The source reports tools of workers separately, once it knows whether they differ.
            ChangeEvent::Functions => {}
            ChangeEvent::Everything => *self = Self::everything(),
        }
    }

    /// Adds the change of a skill; beyond `max` ids, any skill may have changed.
    pub(super) fn add_skill(&mut self, change: SkillChange<'_>, max: usize) {
        if self.any_skill {
            return;
        }
        if self.len >= max {
            self.add_any_skill();
            return;
        }
        let is_new = match change {
            SkillChange::Served(id) => {
                if let Some((client, _)) = id.split_once('/')
                    && !self.live_clients.contains(client)
                {
                    self.live_clients.insert(client.into());
                }
                self.skills.insert(Arc::clone(id))
            }
            SkillChange::Versions(id) => self.versions.insert(Arc::clone(id)),
            SkillChange::Version(id, version) => {
                self.withdrawn.entry(Arc::clone(id)).or_default().insert(version)
            }
        };
        self.len += usize::from(is_new);
    }

    /// Adds the change of any skill.
    pub(super) fn add_any_skill(&mut self) {
        let lists = Lists { resources: true, ..self.lists };
        *self = Self { lists, any_skill: true, ..Self::default() };
    }

    /// Returns the changed skills, unless [any](Self::any_skill) may have changed.
    pub(super) fn skills(&self) -> impl Iterator<Item = SkillChange<'_>> {
        let withdrawn = self.withdrawn.iter().flat_map(|(id, versions)| {
            versions.iter().map(move |version| SkillChange::Version(id, *version))
        });
        let served = self.skills.iter().map(SkillChange::Served);
        served.chain(self.versions.iter().map(SkillChange::Versions)).chain(withdrawn)
    }

    fn affects(&self, uri: &str) -> bool {
        let Some(path) = skill_path(uri) else { return false };
        let is_index = path == INDEX_ID && self.lists.resources;
        let has_changed = ids(uri).any(|IndexedId { id, version }| match version {
            None => self.skills.contains(&*id),
            Some(version) if version.is_exact() => self.affects_version(&id, &version),
            Some(_) => self.skills.contains(&*id) || self.versions.contains(&*id),
        });
        is_index || has_changed || self.affects_live(path)
    }

    /// Matches the exact address of a version, which never reads other content. A digest may mean any version.
    fn affects_version(&self, id: &str, selector: &VersionSelector) -> bool {
        self.withdrawn.get(id).is_some_and(|versions| match selector {
            VersionSelector::Number(number) => versions.contains(number),
            _ => true,
        })
    }

    /// Matches live skills: the id of a live skill is the whole path, and the client's id alone stands for all its
    /// skills.
    fn affects_live(&self, path: &str) -> bool {
        if !path.contains('/') {
            return self.live_clients.contains(path);
        }
        let has_leaf = |folder: &str| {
            SKILL_LEAVES.iter().any(|leaf| self.skills.contains(&*format!("{folder}{leaf}")))
        };
        self.skills.contains(path) || path.strip_suffix(ROOT_PATH).is_some_and(has_leaf)
    }

    /// Returns the notifications of these changes for a client with lists and URIs.
    pub(super) fn notifications(&self, lists: Lists, uris: &UriIndex) -> Vec<ServerNotification> {
        let uris = if self.any_skill {
            uris.all()
        } else {
            let withdrawn = self.withdrawn.keys();
            let changed = self.skills.iter().chain(&self.versions).chain(withdrawn);
            uris.affected(changed.map(|id| &**id), |uri| self.affects(uri))
        };
        let updated = |uri| {
            ResourceUpdatedNotification::new(ResourceUpdatedNotificationParam::new(uri)).into()
        };
        let mut notifications: Vec<ServerNotification> = uris.into_iter().map(updated).collect();
        if self.lists.resources && lists.resources {
            notifications.push(ResourceListChangedNotification::default().into());
        }
        if self.lists.prompts && lists.prompts {
            notifications.push(PromptListChangedNotification::default().into());
        }
        if self.lists.tools && lists.tools {
            notifications.push(ToolListChangedNotification::default().into());
        }
        notifications
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 10;

    fn methods(changes: &[ChangeEvent], lists: Lists, uris: &[&str]) -> Vec<String> {
        let method = |notification: &ServerNotification| {
            let json = serde_json::to_value(notification).unwrap();
            let method = json["method"].as_str().unwrap().trim_start_matches("notifications/");
            match json["params"]["uri"].as_str() {
                Some(uri) => format!("{method} {uri}"),
                None => method.to_owned(),
            }
        };
        let mut set = ChangeSet::default();
        changes.iter().cloned().for_each(|changed| set.add(changed, MAX));
        let uris = uris.iter().copied().collect();
        let mut methods: Vec<_> = set.notifications(lists, &uris).iter().map(method).collect();
        methods.sort();
        methods
    }

    fn skill(id: &str) -> ChangeEvent {
        ChangeEvent::Skill(id.into())
    }

    #[test]
    fn a_burst_is_one_notification_of_each_kind() {
        let uris = [
            "iii://a",
            "iii://b",
            "iii://c",
            "iii://skills",
            "skill://a/SKILL.md",
            "skill://market/a/SKILL.md",
            "skill://market/c/SKILL.md",
            "x://a",
        ];
        let changes = [skill("a"), skill("b"), skill("a"), ChangeEvent::Prompt("p".into())];
        assert_eq!(
            methods(&changes, Lists::ALL, &uris),
            [
                "prompts/list_changed",
                "resources/list_changed",
                "resources/updated iii://a",
                "resources/updated iii://b",
                "resources/updated iii://skills",
                "resources/updated skill://a/SKILL.md",
                "resources/updated skill://market/a/SKILL.md",
            ]
        );
    }

    #[test]
    fn a_change_of_versions_notifies_only_uris_with_a_version() {
        let uris = ["iii://a", "iii://a@latest", "skill://market/a%40canary/x", "iii://b@3"];
        assert_eq!(
            methods(&[ChangeEvent::SkillVersions("a".into())], Lists::ALL, &uris),
            ["resources/updated iii://a@latest", "resources/updated skill://market/a%40canary/x"]
        );
        assert_eq!(
            methods(&[skill("a")], Lists::ALL, &uris),
            [
                "resources/list_changed",
                "resources/updated iii://a",
                "resources/updated iii://a@latest",
                "resources/updated skill://market/a%40canary/x",
            ]
        );
    }

    #[test]
    fn an_exact_version_is_notified_of_its_own_withdrawal_alone() {
        let digest = format!("iii://a@sha256:{}", "0".repeat(12));
        let uris = ["iii://a@3", "iii://a%404/x.md", &*digest, "iii://b@3", "iii://a@1.0"];
        let notified = |event| methods(&[event], Lists::default(), &uris);
        for published in [skill("a"), ChangeEvent::SkillVersions("a".into())] {
            assert_eq!(notified(published), ["resources/updated iii://a@1.0"]);
        }
        let yanked = ChangeEvent::SkillVersion { id: "a".into(), version: 3 };
        assert_eq!(
            notified(yanked),
            ["resources/updated iii://a@3".to_owned(), format!("resources/updated {digest}")]
        );
    }

    #[test]
    fn a_live_client_stands_for_all_its_skills() {
        let uris = ["iii://desk", "iii://desk/a/skill.md", "skill://desk/a/SKILL.md", "iii://des"];
        assert_eq!(
            methods(&[skill("desk/a/skill.md")], Lists::default(), &uris),
            [
                "resources/updated iii://desk",
                "resources/updated iii://desk/a/skill.md",
                "resources/updated skill://desk/a/SKILL.md"
            ]
        );
        let other = [skill("desk/b/skill.md")];
        assert_eq!(methods(&other, Lists::default(), &uris), ["resources/updated iii://desk"]);
    }

    #[test]
    fn lists_that_a_client_did_not_ask_for_are_left_out() {
        let prompts = Lists { prompts: true, ..Lists::default() };
        assert_eq!(methods(&[ChangeEvent::Everything], prompts, &[]), ["prompts/list_changed"]);
        assert!(methods(&[skill("a")], prompts, &[]).is_empty());
    }

    #[test]
    fn beyond_its_limit_any_skill_of_a_set_may_have_changed() {
        let some: Vec<_> = (0..MAX).map(|number| skill(&format!("s{number}"))).collect();
        let lists = Lists { resources: true, ..Lists::default() };
        assert_eq!(methods(&some, lists, &["iii://a"]), ["resources/list_changed"]);
        let more = [some, vec![skill("more")]].concat();
        let expected = ["resources/list_changed", "resources/updated iii://a"];
        assert_eq!(methods(&more, lists, &["iii://a"]), expected);
    }
}
