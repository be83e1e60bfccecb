//! Rows that were dropped from the listings of a remote registry because they break a rule.
//!
//! A [`SkillRegistry`](crate::SkillRegistry) reports them; a client of a remote registry collects them.

use skills_core::{
    EntryKind,
    text::{MAX_QUOTED_CHARS, first_chars},
};

/// Dropped rows that are remembered one by one; the others are counted.
const MAX_REMEMBERED: usize = 100;

/// A row of a remote listing that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedRow {
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Beginning of the id or name.
    pub id: String,
    /// Broken rule.
    pub reason: String,
}

/// Rows that were dropped from the listings of a remote registry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RejectedRows {
    rows: Vec<RejectedRow>,
    /// Number of further rows of each kind.
    more: [usize; EntryKind::ALL.len()],
}

impl RejectedRows {
    /// Remembers a dropped row once.
    pub fn add(&mut self, kind: EntryKind, id: &str, reason: impl Into<String>) {
        let id = first_chars(id, MAX_QUOTED_CHARS).to_owned();
        if self.rows.iter().any(|row| row.kind == kind && row.id == id) {
            return;
        }
        if self.rows.len() < MAX_REMEMBERED {
            self.rows.push(RejectedRow { kind, id, reason: reason.into() });
        } else {
            self.more[slot(kind)] += 1;
        }
    }

    /// Returns the rows after some entries were listed again; `again` has the rows that were dropped again.
    #[must_use]
    pub fn updated(&self, skills: &[&str], prompts: bool, again: &Self) -> Self {
        let is_listed_again = |row: &RejectedRow| match row.kind {
            EntryKind::Skill => skills.iter().any(|id| first_chars(id, MAX_QUOTED_CHARS) == row.id),
            EntryKind::Prompt => prompts,
            EntryKind::Collection => true,
        };
        let is_kept = |row: &&RejectedRow| !is_listed_again(row) || again.rows.contains(row);
        let rows = self.rows.iter().filter(is_kept).cloned().collect();
        let mut updated = Self { rows, more: self.more };
        if prompts {
            updated.more[slot(EntryKind::Prompt)] = 0;
        }
        for RejectedRow { kind, id, reason } in &again.rows {
            updated.add(*kind, id, reason.as_str());
        }
        for kind in EntryKind::ALL {
            updated.more[slot(kind)] += again.more[slot(kind)];
        }
        // Rows that are only counted have no ids: those that were listed again must not count twice.
        let skills = slot(EntryKind::Skill);
        if self.more[skills] > 0 {
            updated.more[skills] = self.more[skills];
        }
        updated
    }

    /// Returns the rows that are remembered one by one.
    #[must_use]
    pub fn rows(&self) -> &[RejectedRow] {
        &self.rows
    }

    /// Returns the number of all dropped rows of a kind.
    #[must_use]
    pub fn count(&self, kind: EntryKind) -> usize {
        self.rows_of(kind).count() + self.more[slot(kind)]
    }

    fn rows_of(&self, kind: EntryKind) -> impl Iterator<Item = &RejectedRow> {
        self.rows.iter().filter(move |row| row.kind == kind)
    }

    /// Logs each kind once, with its count and an example.
    pub fn log(&self, suppressed: u64) {
        for kind in EntryKind::ALL {
            if let Some(RejectedRow { id, reason, .. }) = self.rows_of(kind).next() {
                let count = self.count(kind);
                tracing::warn!(
                    kind = kind.as_str(),
                    count,
                    ?id,
                    reason,
                    suppressed,
                    "dropped invalid rows of a remote registry"
                );
            }
        }
    }
}

const fn slot(kind: EntryKind) -> usize {
    match kind {
        EntryKind::Skill => 0,
        EntryKind::Prompt => 1,
        EntryKind::Collection => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_rows_are_remembered_once_and_bounded() {
        let mut rejected = RejectedRows::default();
        rejected.add(EntryKind::Prompt, "X", "bad");
        for number in 0..300 {
            rejected.add(EntryKind::Skill, &format!("X{number}"), "bad");
            rejected.add(EntryKind::Prompt, "X", "bad");
        }
        assert_eq!((rejected.count(EntryKind::Skill), rejected.count(EntryKind::Prompt)), (300, 1));
        assert_eq!(rejected.rows().len(), MAX_REMEMBERED);
    }

    #[test]
    fn rows_that_are_listed_again_are_not_counted_again() {
        let mut before = RejectedRows::default();
        for id in ["a", "b"] {
            before.add(EntryKind::Skill, id, "bad");
        }
        before.add(EntryKind::Prompt, "P", "bad");
        let mut again = RejectedRows::default();
        again.add(EntryKind::Skill, "a", "bad");
        assert_eq!(before.updated(&["a"], false, &again), before, "nothing to log");
        let mended = before.updated(&["a", "b"], true, &again);
        assert_eq!((mended.count(EntryKind::Skill), mended.count(EntryKind::Prompt)), (1, 0));
        for number in 0..300 {
            before.add(EntryKind::Skill, &format!("x{number}"), "bad");
        }
        again.add(EntryKind::Skill, "x299", "bad");
        for _ in 0..3 {
            before = before.updated(&["a", "x299"], false, &again);
            assert_eq!(before.count(EntryKind::Skill), 302);
        }
    }
}
