//! Changes that a client has not been notified of, and their conversion to notifications.

use std::{collections::HashSet, hash::Hash, sync::Arc};

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

use crate::subscriptions::{IndexedId, Subscriptions, UriIndex, ids, skill_path};

/// Most changed skills that are collected by id; beyond it, any skill may have changed.
const MAX_CHANGED_SKILLS: usize = 10_000;

/// Selection of the notifications that a client wants.
pub(crate) enum NotificationFilter {
    /// All lists, and the URIs that the session has subscribed to.
    Session(Subscriptions),
    /// The lists and URIs of a listen request.
    Listen { lists: SubscriptionFilter, uris: UriIndex },
}

impl From<SubscriptionFilter> for NotificationFilter {
    fn from(mut lists: SubscriptionFilter) -> Self {
        let uris = lists.resource_subscriptions.take().unwrap_or_default();
        Self::Listen { lists, uris: uris.iter().map(String::as_str).collect() }
    }
}

impl NotificationFilter {
    pub(super) fn has_tools(&self) -> bool {
        self.has_list(|lists| lists.tools_list_changed)
    }

    fn has_list(&self, list: impl Fn(&SubscriptionFilter) -> Option<bool>) -> bool {
        match self {
            Self::Session(_) => true,
            Self::Listen { lists, .. } => list(lists) == Some(true),
        }
    }

    fn with_uris<T>(&self, query: impl FnOnce(&UriIndex) -> T) -> T {
        match self {
            Self::Session(subscriptions) => subscriptions.with_index(query),
            Self::Listen { uris, .. } => query(uris),
        }
    }
}

/// Set of changes since the last notification of a client.
#[derive(Debug, Default)]
pub(super) struct PendingChanges {
    skills: HashSet<Arc<str>>,
    /// Skills whose plain URI reads what it read before, while a URI with a version may read something else.
    versions: HashSet<Arc<str>>,
    /// Versions that were yanked, unyanked, purged or collected.
    withdrawn: HashSet<(Arc<str>, u64)>,
    any_skill: bool,
    prompts: bool,
    tools: bool,
}

impl PendingChanges {
    /// Marks everything as changed.
    pub(super) fn everything() -> Self {
        Self { any_skill: true, prompts: true, tools: true, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.has_skills()
            && self.versions.is_empty()
            && self.withdrawn.is_empty()
            && !self.prompts
            && !self.tools
    }

    pub(super) fn has_skills(&self) -> bool {
        self.any_skill || !self.skills.is_empty()
    }

    pub(super) fn add(&mut self, changed: ChangeEvent) {
        match changed {
            ChangeEvent::Skill(id) => self.any_skill |= !insert(&mut self.skills, id),
            ChangeEvent::SkillVersions(id) => self.any_skill |= !insert(&mut self.versions, id),
            ChangeEvent::SkillVersion { id, version } => {
                self.any_skill |= !insert(&mut self.withdrawn, (id, version));
            }
            ChangeEvent::Prompt(_) => self.prompts = true,
            // A listing has the served definition, and nothing subscribes to a prompt.
            ChangeEvent::PromptVersions(_) | ChangeEvent::Collection(_) => {}
            ChangeEvent::Tools => self.tools = true,
            // The source reports tools of workers separately, once it knows whether they differ.
            ChangeEvent::Functions => {}
            ChangeEvent::Everything => *self = Self::everything(),
        }
    }

    fn affects(&self, uri: &str) -> bool {
        let Some(path) = skill_path(uri) else { return false };
        let is_index = path == INDEX_ID && !self.skills.is_empty();
        let has_changed = ids(uri).any(|IndexedId { id, version }| match version {
            None => self.skills.contains(&*id),
            Some(version) if version.is_exact() => self.affects_version(&id, &version),
            Some(_) => self.skills.contains(&*id) || self.versions.contains(&*id),
        });
        self.any_skill || is_index || has_changed || self.affects_live(path)
    }

    /// Matches the exact address of a version, which never reads other content. A digest may mean any version.
    fn affects_version(&self, id: &str, selector: &VersionSelector) -> bool {
        let is_meant = |version: u64| match selector {
            VersionSelector::Number(number) => *number == version,
            _ => true,
        };
        self.withdrawn.iter().any(|(changed, version)| **changed == *id && is_meant(*version))
    }

    /// Matches live skills: the id of a live skill is the whole path, and the client's id alone stands for all its
    /// skills.
    fn affects_live(&self, path: &str) -> bool {
        if !path.contains('/') {
            let is_of_client =
                |id: &Arc<str>| id.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
            return self.skills.iter().any(is_of_client);
        }
        let has_leaf = |folder: &str| {
            SKILL_LEAVES.iter().any(|leaf| self.skills.contains(&*format!("{folder}{leaf}")))
        };
        self.skills.contains(path) || path.strip_suffix(ROOT_PATH).is_some_and(has_leaf)
    }

    /// Returns the notifications of these changes that a client wants.
    pub(super) fn notifications(&self, filter: &NotificationFilter) -> Vec<ServerNotification> {
        let withdrawn = self.withdrawn.iter().map(|(id, _)| id);
        let changed = self.skills.iter().chain(&self.versions).chain(withdrawn).map(|id| &**id);
        let uris = filter.with_uris(|uris| {
            if self.any_skill {
                uris.all()
            } else {
                uris.affected(changed, |uri| self.affects(uri))
            }
        });
        let updated = |uri| {
            ResourceUpdatedNotification::new(ResourceUpdatedNotificationParam::new(uri)).into()
        };
        let mut notifications: Vec<ServerNotification> = uris.into_iter().map(updated).collect();
        if self.has_skills() && filter.has_list(|lists| lists.resources_list_changed) {
            notifications.push(ResourceListChangedNotification::default().into());
        }
        if self.prompts && filter.has_list(|lists| lists.prompts_list_changed) {
            notifications.push(PromptListChangedNotification::default().into());
        }
        if self.tools && filter.has_tools() {
            notifications.push(ToolListChangedNotification::default().into());
        }
        notifications
    }
}

/// Inserts an id unless the set is full. Returns false if it is.
fn insert<T: Eq + Hash>(ids: &mut HashSet<T>, id: T) -> bool {
    if ids.len() >= MAX_CHANGED_SKILLS {
        return false;
    }
    ids.insert(id);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn methods(changes: &[ChangeEvent], filter: &NotificationFilter) -> Vec<String> {
        let method = |notification: &ServerNotification| {
            let json = serde_json::to_value(notification).unwrap();
            let method = json["method"].as_str().unwrap().trim_start_matches("notifications/");
            match json["params"]["uri"].as_str() {
                Some(uri) => format!("{method} {uri}"),
                None => method.to_owned(),
            }
        };
        let mut pending = PendingChanges::default();
        changes.iter().cloned().for_each(|changed| pending.add(changed));
        pending.notifications(filter).iter().map(method).collect()
    }

    #[test]
    fn a_burst_is_one_notification_of_each_kind() {
        let subscriptions = Subscriptions::default();
        for uri in [
            "iii://a",
            "iii://b",
            "iii://c",
            "iii://skills",
            "skill://a/SKILL.md",
            "skill://market/a/SKILL.md",
            "skill://market/c/SKILL.md",
            "x://a",
        ] {
            subscriptions.add(uri, None).unwrap();
        }
        let filter = NotificationFilter::Session(subscriptions);
        let skill = |id: &str| ChangeEvent::Skill(id.into());
        let changes = [skill("a"), skill("b"), skill("a"), ChangeEvent::Prompt("p".into())];
        let mut methods = methods(&changes, &filter);
        methods.sort();
        assert_eq!(
            methods,
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
        let subscriptions = Subscriptions::default();
        for uri in uris {
            subscriptions.add(uri, None).unwrap();
        }
        let filter = NotificationFilter::Session(subscriptions);
        let mut versions = methods(&[ChangeEvent::SkillVersions("a".into())], &filter);
        versions.sort();
        assert_eq!(
            versions,
            ["resources/updated iii://a@latest", "resources/updated skill://market/a%40canary/x"]
        );
        let mut served = methods(&[ChangeEvent::Skill("a".into())], &filter);
        served.sort();
        assert_eq!(
            served,
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
        let subscriptions = Subscriptions::default();
        for uri in uris {
            subscriptions.add(uri, None).unwrap();
        }
        let filter = NotificationFilter::Session(subscriptions);
        let notified = |changes: &[ChangeEvent]| {
            let mut methods = methods(changes, &filter);
            methods.retain(|method| method.starts_with("resources/updated"));
            methods.sort();
            methods
        };
        for published in [ChangeEvent::Skill("a".into()), ChangeEvent::SkillVersions("a".into())] {
            assert_eq!(notified(&[published]), ["resources/updated iii://a@1.0"]);
        }
        let yanked = ChangeEvent::SkillVersion { id: "a".into(), version: 3 };
        assert_eq!(
            notified(&[yanked]),
            ["resources/updated iii://a@3".to_owned(), format!("resources/updated {digest}")]
        );
    }

    #[test]
    fn a_listen_filter_excludes_other_lists() {
        let filter = SubscriptionFilter::builder().prompts_list_changed().build().into();
        assert_eq!(methods(&[ChangeEvent::Everything], &filter), ["prompts/list_changed"]);
        assert!(methods(&[ChangeEvent::Skill("a".into())], &filter).is_empty());
    }
}
