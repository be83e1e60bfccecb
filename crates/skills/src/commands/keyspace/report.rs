//! Report of an import.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use skills_core::{Owner, SkillId, keyspace::LogicalKey};
use skills_registry::{ExplainedLayer, Registry};
use skills_vault::KeyspaceImport;

use crate::output::{self, plain};

/// Results of the lines of an import.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) imported: usize,
    pub(super) unchanged: usize,
    /// Line, deprecated key, and its replacement.
    pub(super) migrated: Vec<(usize, String, String)>,
    /// Line, key, and a warning about an imported value.
    pub(super) notes: Vec<(usize, String, String)>,
    /// Line, key, and the reason why it is skipped.
    pub(super) skipped: Vec<(usize, String, String)>,
    /// Line, error code, and message.
    pub(super) failed: Vec<(usize, String, String)>,
    /// Line, owner and skill of secrets for one skill.
    #[serde(skip)]
    pub(super) skill_secrets: Vec<(usize, Owner, SkillId)>,
}

impl Report {
    /// Adds the result of a line of the vault.
    pub(super) fn add(&mut self, number: usize, key: String, outcome: KeyspaceImport) {
        let (KeyspaceImport::Imported { notes } | KeyspaceImport::Migrated { notes, .. }) =
            &outcome
        else {
            let KeyspaceImport::Skipped { reason } = outcome else { return };
            return self.skipped.push((number, key, reason));
        };
        let noted = notes.iter().map(|note| (number, key.clone(), note.clone()));
        self.notes.extend(noted);
        match outcome {
            KeyspaceImport::Migrated { from, to, .. } => self.migrated.push((number, from, to)),
            _ => self.imported += 1,
        }
    }

    /// Warns about secrets for a name that resolves to another id: calls only use secrets for the id.
    pub(super) fn warn_about_resolved_names(&mut self, registry: &Registry) {
        let catalog = registry.catalog();
        for (number, owner, skill) in std::mem::take(&mut self.skill_secrets) {
            let found = catalog.resolve_for(&owner, skill.as_str());
            if let Some(ExplainedLayer { id, .. }) =
                found.filter(|place| place.id != skill.as_str())
            {
                let key = LogicalKey::Secrets { owner, skill: Some(skill) };
                let note = format!(
                    "the name resolves to the skill {id}; calls only use secrets set for that id"
                );
                self.notes.push((number, key.to_string(), note));
            }
        }
    }

    /// Adds the results of other lines.
    pub(super) fn merge(&mut self, other: Self) {
        let Self { imported, unchanged, migrated, notes, skipped, failed, skill_secrets } = other;
        self.imported += imported;
        self.unchanged += unchanged;
        self.migrated.extend(migrated);
        self.notes.extend(notes);
        self.skipped.extend(skipped);
        self.failed.extend(failed);
        self.skill_secrets.extend(skill_secrets);
    }

    /// Sorts all results by line number.
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
            output::line(&plain(&format!("line {line}: {from} migrated to {to}")))?;
        }
        for (line, key, note) in &self.notes {
            output::line(&plain(&format!("line {line}: {key}: {note}")))?;
        }
        for (line, key, reason) in &self.skipped {
            output::line(&plain(&format!("line {line}: {key} skipped: {reason}")))?;
        }
        let (migrated, skipped) = (self.migrated.len(), self.skipped.len());
        output::line(&format!(
            "imported {}, migrated {migrated}, unchanged {}, skipped {skipped}, failed {}",
            self.imported,
            self.unchanged,
            self.failed.len(),
        ))
    }
}
