//! Export of the vault as an iterator of lines, read page by page. A concurrent change may or may not be included.

use std::collections::VecDeque;

use serde_json::{Map, Value};
use skills_core::{
    Owner, SkillId, Timestamp,
    keyspace::{Expiry, KeyspaceLine, LogicalKey},
};

use crate::{KeyRow, RateWindow, Vault, VaultError, secrets::SealedRow};

/// Rows of one page.
const PAGE: usize = 500;
/// Most bytes of secrets on one line; an import merges several lines of one scope.
const MAX_LINE_BYTES: usize = 8 << 20;

#[derive(Debug)]
enum Stage {
    Keys { after: u64 },
    Profiles { after: String },
    Secrets { after: (String, String, String) },
    Windows,
    Done,
}

/// Lines of a vault: hashes of active keys, profiles, encrypted secrets, rate counters of this minute.
#[derive(Debug)]
pub struct KeyspaceExport<'a> {
    vault: &'a Vault,
    now: Timestamp,
    stage: Stage,
    ready: VecDeque<KeyspaceLine>,
    /// Secrets of the scope that is being read.
    group: Option<Group>,
}

#[derive(Debug)]
struct Group {
    owner: String,
    skill: String,
    bytes: usize,
    values: Map<String, Value>,
}

impl Group {
    fn into_line(self) -> Option<KeyspaceLine> {
        let skill: Option<SkillId> = match self.skill.as_str() {
            "" => None,
            id => Some(id.parse().ok()?),
        };
        let key = LogicalKey::Secrets { owner: self.owner.parse().ok()?, skill };
        Some(KeyspaceLine { key, value: Value::Object(self.values).to_string(), expiry: None })
    }
}

impl Vault {
    /// Returns the lines of the vault.
    #[must_use]
    pub fn export(&self, now: Timestamp) -> KeyspaceExport<'_> {
        let stage = Stage::Keys { after: 0 };
        KeyspaceExport { vault: self, now, stage, ready: VecDeque::new(), group: None }
    }
}

fn key_line(row: &KeyRow) -> KeyspaceLine {
    KeyspaceLine {
        key: LogicalKey::AuthHash(row.hash),
        value: row.owner.as_str().to_owned(),
        expiry: row.expires_at.map(|time| Expiry::At(time.as_secs())),
    }
}

fn window_line(window: &RateWindow) -> KeyspaceLine {
    KeyspaceLine {
        key: LogicalKey::RateLimit { hash: window.hash, minute: window.minute },
        value: window.used.to_string(),
        expiry: Some(Expiry::At((window.minute + 2) * 60)),
    }
}

impl KeyspaceExport<'_> {
    /// Reads the next page into `ready`, or moves to the next stage.
    fn advance(&mut self) -> Result<(), VaultError> {
        match &mut self.stage {
            Stage::Keys { after } => {
                let rows = self.vault.keys(None, *after, PAGE)?;
                match rows.last() {
                    Some(row) => *after = row.number,
                    None => self.stage = Stage::Profiles { after: String::new() },
                }
                let active = rows.iter().filter(|row| row.is_active(self.now));
                self.ready.extend(active.map(key_line));
            }
            Stage::Profiles { after } => {
                let rows = self.vault.profiles_after(after, PAGE)?;
                match rows.last() {
                    Some((owner, _)) => after.clone_from(owner),
                    None => self.stage = Stage::Secrets { after: Default::default() },
                }
                for (owner, profile) in rows {
                    let Ok(owner) = owner.parse::<Owner>() else { continue };
                    let value = profile.to_json().to_string();
                    self.ready.push_back(KeyspaceLine {
                        key: LogicalKey::Profile(owner),
                        value,
                        expiry: None,
                    });
                }
            }
            Stage::Secrets { after: (owner, skill, name) } => {
                let rows = self.vault.envelopes_after((owner, skill, name), PAGE / 10)?;
                match rows.last() {
                    Some(row) => {
                        owner.clone_from(&row.owner);
                        skill.clone_from(&row.skill);
                        name.clone_from(&row.name);
                    }
                    None => {
                        self.ready.extend(self.group.take().and_then(Group::into_line));
                        self.stage = Stage::Windows;
                    }
                }
                rows.into_iter().for_each(|row| self.add_secret(row));
            }
            Stage::Windows => {
                self.ready.extend(self.vault.windows(self.now)?.iter().map(window_line));
                self.stage = Stage::Done;
            }
            Stage::Done => {}
        }
        Ok(())
    }

    fn add_secret(&mut self, row: SealedRow) {
        let SealedRow { owner, skill, name, envelope } = row;
        let fits = |group: &Group| {
            group.owner == owner && group.skill == skill && group.bytes < MAX_LINE_BYTES
        };
        if !self.group.as_ref().is_some_and(fits) {
            self.ready.extend(self.group.take().and_then(Group::into_line));
        }
        let group =
            self.group.get_or_insert_with(|| Group { owner, skill, bytes: 0, values: Map::new() });
        group.bytes += envelope.len();
        group.values.insert(name, Value::String(envelope));
    }
}

impl Iterator for KeyspaceExport<'_> {
    type Item = Result<KeyspaceLine, VaultError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(Ok(line));
            }
            if matches!(self.stage, Stage::Done) {
                return None;
            }
            if let Err(error) = self.advance() {
                self.stage = Stage::Done;
                return Some(Err(error));
            }
        }
    }
}
