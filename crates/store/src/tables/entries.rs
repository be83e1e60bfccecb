//! Entries with all their versions, in memory.

use std::{collections::BTreeMap, sync::Arc};

use skills_core::{
    Digest, EntryKey, Label, Timestamp, VersionError, VersionSelector, limits::MAX_LABELS,
    version::STABLE,
};

use crate::{
    Action, BatchError, EntryContent, Labels, PublishOptions, Removal, Retention, ServedVersion,
    StoredEntry, StoredVersion, VersionHeads, VersionMutation, VersionPage,
    selection::{PublishKind, SelectionPurpose, VersionCriteria, protected_versions},
    versions::{rollback_message, too_many_labels},
};

/// Version with its content.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Version {
    pub(crate) info: StoredVersion,
    /// Digest that tells whether a registration changes the entry.
    pub(crate) identity: Digest,
    /// Change of its last registration.
    pub(crate) revision: u64,
    pub(crate) content: Option<Arc<EntryContent>>,
}

/// Entry with its versions, oldest first. The number of a version is its position, from 1, after those that are left out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Entry {
    pub(crate) is_present: bool,
    /// Number of the oldest versions that are left out; none of them is served.
    pub(crate) omitted: u64,
    pub(crate) versions: Vec<Version>,
    pub(crate) labels: BTreeMap<Label, u64>,
}

/// Time and author of a change that is being made.
pub(crate) struct Stamp<'a> {
    pub(crate) revision: u64,
    pub(crate) at: Timestamp,
    pub(crate) actor: &'a Arc<str>,
}

/// Result of a change of versions.
pub(crate) enum Outcome {
    /// The act, and the content that is gone.
    Done(Action, Option<Arc<EntryContent>>),
    /// Everything was as requested; the version that the request was about.
    AsBefore(Option<u64>),
    /// Retention must keep the version.
    Kept,
}

impl Outcome {
    const fn done(action: Action) -> Self {
        Self::Done(action, None)
    }
}

impl Entry {
    pub(crate) fn latest(&self) -> u64 {
        self.omitted + self.versions.len() as u64
    }

    /// Returns the number of the newest version of a present entry, or 0.
    fn current(&self) -> u64 {
        if self.is_present { self.latest() } else { 0 }
    }

    /// Returns the position of a version among those that are not left out.
    fn position(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.omitted + 1)?).ok()
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Version> {
        self.position(number).and_then(|at| self.versions.get(at))
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut Version> {
        self.position(number).and_then(|at| self.versions.get_mut(at))
    }

    /// Leaves out what a registration or a removal does not need: all versions before the served one, or before the newest
    /// one if none is served, and the content of the others.
    #[cfg(feature = "postgres")]
    pub(crate) fn leave_out_history(&mut self) {
        let first = self.served().unwrap_or_else(|| self.latest());
        self.versions.drain(..self.position(first).unwrap_or_default());
        self.omitted = first.saturating_sub(1);
        for version in &mut self.versions {
            version.content = None;
        }
    }

    pub(crate) fn newest(&self, criteria: &VersionCriteria<'_>) -> Option<u64> {
        let versions = self.versions.iter().rev().map(|version| &version.info);
        versions.into_iter().find(|version| criteria.admits(version)).map(|found| found.number)
    }

    pub(crate) fn served(&self) -> Option<u64> {
        let stable = self.labels.iter().find(|(label, _)| label.as_str() == STABLE);
        let limit = stable.map(|(_, number)| *number);
        self.is_present.then(|| self.newest(&VersionCriteria::servable(limit))).flatten()
    }

    /// Returns whether the entry exists and serves nothing.
    pub(crate) fn is_withdrawn(&self) -> bool {
        self.is_present && self.served().is_none()
    }

    pub(crate) fn heads(&self) -> Option<VersionHeads> {
        let served = self.served()?;
        Some(VersionHeads { served, latest: self.latest(), labels: self.labels() })
    }

    pub(crate) fn labels(&self) -> Labels {
        self.labels.iter().map(|(label, number)| (label.clone(), *number)).collect()
    }

    /// Returns the served version as a change has it.
    pub(crate) fn served_version(&self, has_content: bool) -> Option<ServedVersion> {
        let heads = self.heads()?;
        let version = self.get(heads.served)?;
        let content = version.content.clone().filter(|_| has_content);
        let registered_at = version.info.registered_at;
        Some(ServedVersion { registered_at, content, heads: Some(heads) })
    }

    pub(crate) fn stored(&self, key: &EntryKey) -> Option<StoredEntry> {
        let heads = self.heads()?;
        let version = self.get(heads.served)?;
        Some(StoredEntry {
            key: key.clone(),
            revision: version.revision,
            registered_at: version.info.registered_at,
            content: version.content.clone()?,
            heads: Some(heads),
        })
    }

    pub(crate) fn put(
        &mut self,
        key: &EntryKey,
        content: EntryContent,
        options: PublishOptions,
        stamp: &Stamp<'_>,
    ) -> Result<Action, BatchError> {
        self.publish(key, content, options, stamp, PublishKind::Registration)
    }

    fn publish(
        &mut self,
        key: &EntryKey,
        content: EntryContent,
        options: PublishOptions,
        stamp: &Stamp<'_>,
        kind: PublishKind,
    ) -> Result<Action, BatchError> {
        let current = self.current();
        if let Some(expected) = options.expected_version.filter(|expected| *expected != current) {
            let id = key.id.to_string();
            return Err(VersionError::Conflict { id, expected, current }.into());
        }
        let identity = content.digest();
        if let Some(same) = self.get_mut(current)
            && same.identity == identity
            && kind.repeats(same.info.yanked.is_some(), same.info.removal)
        {
            same.info.registered_at = stamp.at;
            same.revision = stamp.revision;
            same.content = Some(Arc::new(content));
            return Ok(Action::Put { version: Some(current), is_new: false, message: None });
        }
        let number = self.latest() + 1;
        let (bytes, files) = content.size();
        let info = StoredVersion {
            number,
            digest: content.content_digest(),
            created_at: stamp.at,
            registered_at: stamp.at,
            actor: Arc::clone(stamp.actor),
            message: options.message.clone(),
            author_version: content.author_version().map(str::to_owned),
            bytes,
            files,
            yanked: None,
            removal: None,
        };
        let (revision, content) = (stamp.revision, Some(Arc::new(content)));
        self.versions.push(Version { info, identity, revision, content });
        self.is_present = true;
        Ok(Action::Put { version: Some(number), is_new: true, message: options.message })
    }

    /// Removes the entry. Returns whether it existed.
    pub(crate) fn remove(&mut self) -> bool {
        self.labels.clear();
        std::mem::take(&mut self.is_present)
    }

    pub(crate) fn change(
        &mut self,
        key: &EntryKey,
        change: VersionMutation,
        stamp: &Stamp<'_>,
    ) -> Result<Outcome, BatchError> {
        match change {
            VersionMutation::Rollback { to, options } => {
                let version = self.usable(key, &to)?;
                let (number, content) = (version.info.number, version.content.clone());
                let content = content.ok_or_else(|| self.missing(key, &to))?;
                let message = Some(rollback_message(number, options.message.as_deref()));
                let options = PublishOptions { message, ..options };
                let kind = PublishKind::Rollback;
                self.publish(key, (*content).clone(), options, stamp, kind).map(Outcome::done)
            }
            VersionMutation::SetLabel { label, version, expected } => {
                self.set_label(key, label, version, expected)
            }
            VersionMutation::Yank { version, reason } => {
                let number = self.withdrawable(key, &version)?.info.number;
                let yanked = self.get_mut(number).map(|version| &mut version.info.yanked);
                if yanked
                    .is_none_or(|yanked| yanked.replace(reason.clone()) == Some(reason.clone()))
                {
                    return Ok(Outcome::AsBefore(Some(number)));
                }
                Ok(Outcome::done(Action::Yank { version: number, reason }))
            }
            VersionMutation::Unyank { version } => {
                let number = self.withdrawable(key, &version)?.info.number;
                match self.get_mut(number).and_then(|version| version.info.yanked.take()) {
                    Some(_) => Ok(Outcome::done(Action::Unyank { version: number })),
                    None => Ok(Outcome::AsBefore(Some(number))),
                }
            }
            VersionMutation::Purge { version, reason } => {
                let found = self.find_existing(key, &version, SelectionPurpose::Withdraw)?;
                let number = found.info.number;
                if found.info.removal == Some(Removal::Purged) {
                    return Ok(Outcome::AsBefore(Some(number)));
                }
                let gone = self.get_mut(number).and_then(|version| {
                    version.info.yanked = Some(reason.clone());
                    version.info.removal = Some(Removal::Purged);
                    version.content.take()
                });
                Ok(Outcome::Done(Action::Purge { version: number, reason }, gone))
            }
            VersionMutation::Collect { version } => {
                if self.is_protected(version) {
                    return Ok(Outcome::Kept);
                }
                let gone = self.get_mut(version).and_then(|version| {
                    version.info.removal = Some(Removal::Collected);
                    version.content.take()
                });
                Ok(Outcome::Done(Action::Collect { version }, gone))
            }
        }
    }

    fn set_label(
        &mut self,
        key: &EntryKey,
        label: Label,
        version: Option<VersionSelector>,
        expected: Option<u64>,
    ) -> Result<Outcome, BatchError> {
        let (kind, id) = (key.kind, key.id.to_string());
        if !self.is_present {
            return Err(VersionError::NoEntry { kind, id }.into());
        }
        let from = self.labels.get(&label).copied();
        let current = from.unwrap_or(0);
        if let Some(expected) = expected.filter(|expected| *expected != current) {
            let label = label.to_string();
            return Err(VersionError::LabelMoved { id, label, expected, current }.into());
        }
        let to = match version {
            Some(selector) => Some(self.usable(key, &selector)?.info.number),
            None if from.is_none() && expected.is_none() => {
                return Err(VersionError::NoLabel { kind, id, label: label.to_string() }.into());
            }
            None => None,
        };
        if from == to {
            return Ok(Outcome::AsBefore(to));
        }
        match to {
            Some(_) if from.is_none() && self.labels.len() >= MAX_LABELS => {
                return Err(too_many_labels(id));
            }
            Some(number) => self.labels.insert(label.clone(), number),
            None => self.labels.remove(&label),
        };
        Ok(Outcome::done(Action::Label { label, from, to }))
    }

    /// Returns whether retention must keep a version.
    fn is_protected(&self, number: u64) -> bool {
        let is_gone = self.get(number).is_none_or(|version| version.info.removal.is_some());
        let Ok(protected) = protected_versions(self);
        is_gone || protected.contains(&number)
    }

    /// Returns the numbers of versions that retention no longer keeps.
    pub(crate) fn expired(&self, retention: &Retention, now: Timestamp) -> Vec<u64> {
        let oldest = retention.oldest_kept(now);
        let kept = self.versions.iter().rev().filter(|version| version.info.removal.is_none());
        let expired = kept.enumerate().filter(|(newer, version)| {
            let is_surplus = retention.versions.is_none_or(|most| *newer as u64 >= most);
            let is_old = oldest.is_none_or(|oldest| version.info.registered_at < oldest);
            is_surplus && is_old && !self.is_protected(version.info.number)
        });
        expired.map(|(_, version)| version.info.number).collect()
    }

    pub(crate) fn page(&self, before: Option<u64>, limit: usize) -> VersionPage {
        let listed = || {
            let versions = self.versions.iter().rev().map(|version| &version.info);
            versions.filter(|version| version.removal != Some(Removal::Collected))
        };
        let is_before = |version: &&StoredVersion| before.is_none_or(|b| version.number < b);
        VersionPage {
            versions: listed().filter(is_before).take(limit).cloned().collect(),
            count: listed().count() as u64,
            served: self.served(),
            labels: self.labels(),
            is_present: self.is_present,
        }
    }
}
