//! Versions and labels of a skill while the log is replayed.

use std::{collections::BTreeMap, sync::Arc};

use skills_core::{Tier, VersionSelector};
use skills_registry::Action;

use super::FolderSkill;
use crate::plugin_version::PluginVersions;

/// Skill in all tiers of a view.
#[derive(Debug, Clone, Default)]
pub(super) struct Entry {
    pub(super) tiers: [TierEntry; 3],
}

/// Skill in one tier.
#[derive(Debug, Clone, Default)]
pub(super) struct TierEntry {
    pub(super) held: Held,
    /// Versions that clients see.
    pub(super) shown: PluginVersions,
    versions: BTreeMap<u64, VersionState>,
    labels: BTreeMap<String, u64>,
}

/// Content of a skill in a tier.
#[derive(Debug, Clone, Default)]
pub(super) enum Held {
    /// The tier has no such skill.
    #[default]
    Nothing,
    /// The tier has the skill, which is no valid Agent Skill. It shadows lower tiers.
    Unusable,
    /// The tier has the skill.
    Skill(Arc<FolderSkill>),
}

#[derive(Debug, Clone, Copy, Default)]
struct VersionState {
    /// Number of the commit with this version.
    commit: Option<usize>,
    is_yanked: bool,
}

impl Entry {
    pub(super) fn tier(&mut self, tier: Tier) -> &mut TierEntry {
        &mut self.tiers[tier.index()]
    }

    /// Returns the content that the id resolves to.
    pub(super) fn visible(&self) -> Option<&Held> {
        self.tiers.iter().map(|tier| &tier.held).find(|held| !matches!(held, Held::Nothing))
    }

    pub(super) fn visible_skill(&self) -> Option<&Arc<FolderSkill>> {
        match self.visible()? {
            Held::Skill(skill) => Some(skill),
            Held::Nothing | Held::Unusable => None,
        }
    }

    /// Returns the tier that the id resolves to, or else one that has versions.
    pub(super) fn current(&self) -> Option<&TierEntry> {
        let held = self.tiers.iter().find(|tier| !matches!(tier.held, Held::Nothing));
        held.or_else(|| self.tiers.iter().find(|tier| !tier.versions.is_empty()))
    }
}

impl TierEntry {
    /// Records an act. `author` is the author's version of a new version.
    pub(super) fn record(&mut self, action: &Action, author: Option<&str>) {
        match action {
            Action::Put { version: Some(number), is_new: true, .. } => {
                self.shown.add(*number, author);
                self.versions.insert(*number, VersionState::default());
            }
            Action::Remove => self.labels.clear(),
            Action::Label { label, to: Some(to), .. } => {
                self.labels.insert(label.to_string(), *to);
            }
            Action::Label { label, to: None, .. } => {
                self.labels.remove(label.as_str());
            }
            Action::Yank { version, .. } => self.set_yanked(*version, true),
            Action::Unyank { version } => self.set_yanked(*version, false),
            Action::Purge { version, .. } | Action::Collect { version } => {
                self.versions.remove(version);
            }
            Action::Put { .. } => {}
        }
    }

    fn set_yanked(&mut self, number: u64, is_yanked: bool) {
        if let Some(version) = self.versions.get_mut(&number) {
            version.is_yanked = is_yanked;
        }
    }

    pub(super) fn set_commit(&mut self, number: u64, commit: usize) {
        if let Some(version) = self.versions.get_mut(&number) {
            version.commit = Some(commit);
        }
    }

    /// Returns the newest version that is not yanked, up to a limit.
    fn servable(&self, limit: u64) -> Option<u64> {
        let mut below = self.versions.range(..=limit).rev();
        below.find(|(_, version)| !version.is_yanked).map(|(number, _)| *number)
    }

    /// Returns the version that a selector means. Digests and authors' versions are not followed.
    pub(super) fn select(&self, selector: &VersionSelector) -> Option<u64> {
        match selector {
            VersionSelector::Number(number) => {
                self.versions.contains_key(number).then_some(*number)
            }
            VersionSelector::Latest => self.servable(u64::MAX),
            VersionSelector::Name(name) => self.servable(*self.labels.get(name)?),
            VersionSelector::Digest(_) => None,
        }
    }

    /// Iterates over versions and their commits.
    pub(super) fn tagged(&self) -> impl Iterator<Item = (u64, usize)> {
        self.versions.iter().filter_map(|(number, version)| Some((*number, version.commit?)))
    }

    /// Iterates over labels and the commits of their versions.
    pub(super) fn labelled(&self) -> impl Iterator<Item = (&str, usize)> {
        self.labels.iter().filter_map(|(label, number)| {
            let version = self.versions.get(&self.servable(*number)?)?;
            Some((label.as_str(), version.commit?))
        })
    }
}
