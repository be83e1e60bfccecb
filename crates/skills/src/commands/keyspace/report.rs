//! What became of the lines of an import, and saying it.

use std::io;

use serde_json::{Value, json};
use skills_core::{Owner, SkillId, keyspace::LogicalKey};
use skills_registry::{Place, Registry};
use skills_vault::Outcome;

use crate::output;

/// What became of the lines.
#[derive(Default)]
pub(super) struct Report {
    pub(super) imported: usize,
    pub(super) unchanged: usize,
    /// Line, key, and where it is now.
    pub(super) migrated: Vec<(usize, String, String)>,
    /// Line, key, and what was not as expected of what was taken in.
    pub(super) notes: Vec<(usize, String, String)>,
    /// Line, key, and why it needs no place here.
    pub(super) skipped: Vec<(usize, String, String)>,
    /// Line, code, and what is wrong.
    pub(super) failed: Vec<(usize, String, String)>,
    /// Line, and whose secrets it has for which skill.
    pub(super) scoped: Vec<(usize, Owner, SkillId)>,
}

impl Report {
    pub(super) fn of_vault(&mut self, number: usize, key: String, outcome: Outcome) {
        let (Outcome::Imported { notes } | Outcome::Migrated { notes, .. }) = &outcome else {
            let Outcome::Skipped { reason } = outcome else { return };
            return self.skipped.push((number, key, reason));
        };
        let noted = notes.iter().map(|note| (number, key.clone(), note.clone()));
        self.notes.extend(noted);
        match outcome {
            Outcome::Migrated { from, to, .. } => self.migrated.push((number, from, to)),
            _ => self.imported += 1,
        }
    }

    /// Notes which secrets were for a name that leads to another id: calls look under the id alone.
    pub(super) fn tell_of_ids(&mut self, registry: &Registry) {
        let catalog = registry.catalog();
        for (number, owner, skill) in std::mem::take(&mut self.scoped) {
            let found = catalog.answer_for(&owner, skill.as_str());
            if let Some(Place { id, .. }) = found.filter(|place| place.id != skill.as_str()) {
                let key = LogicalKey::Secrets { owner, skill: Some(skill) };
                let note = format!("calls of the skill that this leads to look under its id, {id}");
                self.notes.push((number, key.to_string(), note));
            }
        }
    }

    /// Has everything in the order of the lines, also what had to wait.
    pub(super) fn sort(&mut self) {
        for rows in [&mut self.migrated, &mut self.notes, &mut self.skipped, &mut self.failed] {
            rows.sort_by_key(|(line, ..)| *line);
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let rows = |rows: &[(usize, String, String)], names: [&str; 2]| -> Vec<Value> {
            let row = |(line, a, b): &(usize, String, String)| json!({ "line": line, names[0]: a, names[1]: b });
            rows.iter().map(row).collect()
        };
        json!({
            "imported": self.imported,
            "unchanged": self.unchanged,
            "migrated": rows(&self.migrated, ["from", "to"]),
            "notes": rows(&self.notes, ["key", "note"]),
            "skipped": rows(&self.skipped, ["key", "reason"]),
            "failed": rows(&self.failed, ["code", "message"]),
        })
    }

    pub(super) fn print(&self) -> io::Result<()> {
        for (line, from, to) in &self.migrated {
            output::line(&format!("line {line}: {from} is {to} now"))?;
        }
        for (line, key, note) in &self.notes {
            output::line(&format!("line {line}: {key}: {note}"))?;
        }
        for (line, key, reason) in &self.skipped {
            output::line(&format!("line {line}: {key} left out: {reason}"))?;
        }
        let (migrated, skipped) = (self.migrated.len(), self.skipped.len());
        output::line(&format!(
            "imported {}, migrated {migrated}, unchanged {}, left out {skipped}, failed {}",
            self.imported,
            self.unchanged,
            self.failed.len(),
        ))
    }
}
