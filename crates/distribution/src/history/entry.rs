//! Versions and labels of a skill while the log is replayed.

use std::{collections::BTreeMap, sync::Arc};

use skills_core::{Tier, VersionSelector};
use skills_registry::Action;

use super::FolderSkill;
use crate::plugin_version::PluginVersions;

/// Skill in all tiers of a view.
#[derive(Debug, Clone, Default)]
pub(super) struct Entry {
    /// Tiers that the log names, in the order of resolution. Most skills are in one.
    tiers: Vec<(Tier, TierEntry)>,
}

/// Skill in one tier.
#[derive(Debug, Clone, Default)]
pub(super) struct TierEntry {
    pub(super) held: Held,
    /// Versions that clients see.
    pub(super) shown: PluginVersions,
    /// Versions in the order of their numbers.
    versions: Vec<(u64, VersionState)>,
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
        let found = self.tiers.binary_search_by_key(&tier.index(), |(tier, _)| tier.index());
        let at = found.unwrap_or_else(|at| {
            // Not the capacity for four: there are many skills.
            self.tiers.reserve_exact(1);
            self.tiers.insert(at, (tier, TierEntry::default()));
            at
        });
        &mut self.tiers[at].1
    }

    /// Returns the content that the id resolves to.
    pub(super) fn visible(&self) -> Option<&Held> {
        self.tiers.iter().map(|(_, tier)| &tier.held).find(|held| !matches!(held, Held::Nothing))
    }

    pub(super) fn visible_skill(&self) -> Option<&Arc<FolderSkill>> {
        match self.visible()? {
            Held::Skill(skill) => Some(skill),
            Held::Nothing | Held::Unusable => None,
        }
    }

    /// Returns the tier that the id resolves to, or else one that has versions.
    pub(super) fn current(&self) -> Option<&TierEntry> {
        let mut tiers = self.tiers.iter().map(|(_, tier)| tier);
        let held = tiers.clone().find(|tier| !matches!(tier.held, Held::Nothing));
        held.or_else(|| tiers.find(|tier| !tier.versions.is_empty()))
    }
}

impl TierEntry {
    /// Records an act. `author` is the author's version of a new version.
    pub(super) fn record(&mut self, action: &Action, author: Option<&str>) {
        match action {
            Action::Put { version: Some(number), is_new: true, .. } => {
                self.shown.add(*number, author);
                let version = (*number, VersionState::default());
                match self.position(*number) {
                    Ok(at) => self.versions[at] = version,
                    Err(at) => {
                        if self.versions.is_empty() {
                            self.versions.reserve_exact(1);
                        }
                        self.versions.insert(at, version);
                    }
                }
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
                if let Ok(at) = self.position(*version) {
                    self.versions.remove(at);
                }
            }
            Action::Put { .. } => {}
        }
    }

    fn position(&self, number: u64) -> Result<usize, usize> {
        self.versions.binary_search_by_key(&number, |(number, _)| *number)
    }

    fn version(&self, number: u64) -> Option<&VersionState> {
        self.position(number).ok().map(|at| &self.versions[at].1)
    }

    fn version_mut(&mut self, number: u64) -> Option<&mut VersionState> {
        self.position(number).ok().map(|at| &mut self.versions[at].1)
    }

    fn set_yanked(&mut self, number: u64, is_yanked: bool) {
        if let Some(version) = self.version_mut(number) {
            version.is_yanked = is_yanked;
        }
    }

    pub(super) fn set_commit(&mut self, number: u64, commit: usize) {
        if let Some(version) = self.version_mut(number) {
            version.commit = Some(commit);
        }
    }

    /// Returns the newest version that is not yanked, up to a limit.
    fn servable(&self, limit: u64) -> Option<u64> {
        let end = self.versions.partition_point(|(number, _)| *number <= limit);
        let mut below = self.versions[..end].iter().rev();
        below.find(|(_, version)| !version.is_yanked).map(|(number, _)| *number)
    }

    /// Returns the version that a selector means. Digests and authors' versions are not followed.
    pub(super) fn select(&self, selector: &VersionSelector) -> Option<u64> {
        match selector {
            VersionSelector::Number(number) => self.version(*number).is_some().then_some(*number),
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
            let version = self.version(self.servable(*number)?)?;
            Some((label.as_str(), version.commit?))
        })
    }
}
