//! From the vault into lines, page by page, so that its size does not matter. A change meanwhile is in the
//! lines or is not.

use std::collections::VecDeque;

use serde_json::{Map, Value};
use skills_core::{
    Owner, SkillId, Timestamp,
    keyspace::{Expiry, Line, LogicalKey},
};

use crate::{KeyRow, Vault, VaultError, Window, secrets::SealedRow};

/// Rows that are read at a time.
const PAGE: usize = 500;
/// Secrets of one line; more are on a second one, and are merged when they are read.
const MAX_LINE_BYTES: usize = 8 << 20;

#[derive(Debug)]
enum Stage {
    Keys { after: u64 },
    Profiles { after: String },
    Secrets { after: (String, String, String) },
    Windows,
    Done,
}

/// The lines of a vault: live keys as hashes, profiles, secrets as they are sealed, counts of this minute.
#[derive(Debug)]
pub struct Export<'a> {
    vault: &'a Vault,
    now: Timestamp,
    stage: Stage,
    ready: VecDeque<Line>,
    /// The secrets of one key so far.
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
    fn into_line(self) -> Option<Line> {
        let skill: Option<SkillId> = match self.skill.as_str() {
            "" => None,
            id => Some(id.parse().ok()?),
        };
        let key = LogicalKey::Secrets { owner: self.owner.parse().ok()?, skill };
        Some(Line { key, value: Value::Object(self.values).to_string(), expiry: None })
    }
}

impl Vault {
    /// Everything that the key space has room for.
    #[must_use]
    pub fn export(&self, now: Timestamp) -> Export<'_> {
        let stage = Stage::Keys { after: 0 };
        Export { vault: self, now, stage, ready: VecDeque::new(), group: None }
    }
}

fn key_line(row: &KeyRow) -> Line {
    let seconds = |moment: Timestamp| u64::try_from(moment.as_micros() / 1_000_000).unwrap_or(0);
    Line {
        key: LogicalKey::AuthHash(row.hash),
        value: row.owner.as_str().to_owned(),
        expiry: row.expires_at.map(|moment| Expiry::At(seconds(moment))),
    }
}

fn window_line(window: &Window) -> Line {
    Line {
        key: LogicalKey::RateLimit { hash: window.hash, minute: window.minute },
        value: window.used.to_string(),
        expiry: Some(Expiry::At((window.minute + 2) * 60)),
    }
}

impl Export<'_> {
    /// Reads the next page into `ready`, or goes on to the next stage.
    fn advance(&mut self) -> Result<(), VaultError> {
        match &mut self.stage {
            Stage::Keys { after } => {
                let rows = self.vault.keys(None, *after, PAGE)?;
                match rows.last() {
                    Some(row) => *after = row.number,
                    None => self.stage = Stage::Profiles { after: String::new() },
                }
                let live = rows.iter().filter(|row| row.is_live(self.now));
                self.ready.extend(live.map(key_line));
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
                    self.ready.push_back(Line {
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
                rows.into_iter().for_each(|row| self.gather(row));
            }
            Stage::Windows => {
                self.ready.extend(self.vault.windows(self.now)?.iter().map(window_line));
                self.stage = Stage::Done;
            }
            Stage::Done => {}
        }
        Ok(())
    }

    fn gather(&mut self, row: SealedRow) {
        let SealedRow { owner, skill, name, envelope } = row;
        let goes_on = |group: &Group| {
            group.owner == owner && group.skill == skill && group.bytes < MAX_LINE_BYTES
        };
        if !self.group.as_ref().is_some_and(goes_on) {
            self.ready.extend(self.group.take().and_then(Group::into_line));
        }
        let group =
            self.group.get_or_insert_with(|| Group { owner, skill, bytes: 0, values: Map::new() });
        group.bytes += envelope.len();
        group.values.insert(name, Value::String(envelope));
    }
}

impl Iterator for Export<'_> {
    type Item = Result<Line, VaultError>;

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
