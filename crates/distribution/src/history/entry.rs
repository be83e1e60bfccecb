//! Versions and labels of a skill while the log is replayed.

use std::{collections::BTreeMap, sync::Arc};

use skills_core::{Tier, VersionSelector};
use skills_registry::Action;

use crate::plugin_version::PluginVersions;

/// Act of the log, with what a replay needs of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act<L> {
    /// A version was created.
    New(u64),
    /// The skill was removed.
    Remove,
    /// A label was set to a version, or removed.
    Label(L, Option<u64>),
    /// A version was yanked, or that was undone.
    SetYanked(u64, bool),
    /// The content of a version was purged or collected.
    Drop(u64),
    /// Any other act, such as the registration of content that there was already.
    Other,
}

impl<'a> From<&'a Action> for Act<&'a str> {
    fn from(action: &'a Action) -> Self {
        match action {
            Action::Put { version: Some(number), is_new: true, .. } => Self::New(*number),
            Action::Put { .. } => Self::Other,
            Action::Remove => Self::Remove,
            Action::Label { label, to, .. } => Self::Label(label.as_str(), *to),
            Action::Yank { version, .. } => Self::SetYanked(*version, true),
            Action::Unyank { version } => Self::SetYanked(*version, false),
            Action::Purge { version, .. } | Action::Collect { version } => Self::Drop(*version),
        }
    }
}

/// Skill in all tiers of a view.
#[derive(Debug, Clone)]
pub(super) struct Entry<S> {
    /// Tiers that the log names, in the order of resolution. Most skills are in one.
    tiers: Vec<(Tier, TierEntry<S>)>,
}

/// Skill in one tier.
#[derive(Debug, Clone)]
pub(super) struct TierEntry<S> {
    pub(super) held: Held<S>,
    /// Versions that clients see.
    pub(super) shown: PluginVersions,
    /// Versions in the order of their numbers.
    versions: Vec<(u64, VersionState)>,
    labels: BTreeMap<String, u64>,
}

impl<S> Default for Entry<S> {
    fn default() -> Self {
        Self { tiers: Vec::new() }
    }
}

impl<S> Default for TierEntry<S> {
    fn default() -> Self {
        Self {
            held: Held::Nothing,
            shown: PluginVersions::default(),
            versions: Vec::new(),
            labels: BTreeMap::new(),
        }
    }
}

/// Content of a skill in a tier.
#[derive(Debug, Clone)]
pub(crate) enum Held<S> {
    /// The tier has no such skill.
    Nothing,
    /// The tier has the skill, which is no valid Agent Skill. It shadows lower tiers.
    Unusable,
    /// The tier has the skill.
    Skill(Arc<S>),
}

#[derive(Debug, Clone, Copy, Default)]
struct VersionState {
    /// Number of the commit with this version.
    commit: Option<usize>,
    is_yanked: bool,
}

impl<S> Entry<S> {
    pub(super) fn tier(&mut self, tier: Tier) -> &mut TierEntry<S> {
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
    pub(super) fn visible(&self) -> Option<&Held<S>> {
        self.tiers.iter().map(|(_, tier)| &tier.held).find(|held| !matches!(held, Held::Nothing))
    }

    pub(super) fn visible_skill(&self) -> Option<&Arc<S>> {
        match self.visible()? {
            Held::Skill(skill) => Some(skill),
            Held::Nothing | Held::Unusable => None,
        }
    }

    /// Returns the tier that the id resolves to, or else one that has versions.
    pub(super) fn current(&self) -> Option<&TierEntry<S>> {
        let mut tiers = self.tiers.iter().map(|(_, tier)| tier);
        let held = tiers.clone().find(|tier| !matches!(tier.held, Held::Nothing));
        held.or_else(|| tiers.find(|tier| !tier.versions.is_empty()))
    }
}

impl<S> TierEntry<S> {
    /// Records an act. `author` is the author's version of a new version.
    pub(super) fn record<L: AsRef<str>>(&mut self, act: &Act<L>, author: Option<&str>) {
        match act {
            Act::New(number) => {
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
            Act::Remove => self.labels.clear(),
            Act::Label(label, Some(to)) => {
                self.labels.insert(label.as_ref().to_owned(), *to);
            }
            Act::Label(label, None) => {
                self.labels.remove(label.as_ref());
            }
            Act::SetYanked(version, is_yanked) => self.set_yanked(*version, *is_yanked),
            Act::Drop(version) => {
                if let Ok(at) = self.position(*version) {
                    self.versions.remove(at);
                }
            }
            Act::Other => {}
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

    /// Returns how many versions and labels there are.
    pub(super) fn len(&self) -> usize {
        self.versions.len() + self.labels.len()
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
