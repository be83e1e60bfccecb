//! Layers in which entries are stored: tiers, owners, and the key of an entry.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{Field, RuleError, limits::MAX_OWNER_BYTES};

/// Tier of an entry, ordered by priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Entries of one owner.
    Private,
    /// Curated entries and those that workers register.
    Official,
    /// Entries published by the community.
    Market,
}

impl Tier {
    /// All tiers in order of priority: resolution tries them from first to last.
    pub const ALL: [Self; 3] = [Self::Private, Self::Official, Self::Market];

    /// Returns its position in [`ALL`](Self::ALL).
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Private => 0,
            Self::Official => 1,
            Self::Market => 2,
        }
    }

    /// Returns the name in storage and on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Official => "official",
            Self::Market => "market",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Tier {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|tier| tier.as_str() == text).ok_or(())
    }
}

/// Owner of a private entry: a uid, which is part of the entry's key `skill:private:{uid}:{id}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(Arc<str>);

/// Nil UUID, which legacy data has for unknown users. It cannot own anything.
const NIL_UUID: &str = "00000000-0000-0000-0000-000000000000";

impl Owner {
    /// Returns whether it is the nil UUID, which cannot own anything.
    #[must_use]
    pub fn is_nil(&self) -> bool {
        self.as_str() == NIL_UUID
    }

    /// Returns the uid.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Owner {
    type Err = RuleError;

    fn from_str(uid: &str) -> Result<Self, RuleError> {
        if uid.is_empty() {
            return Err(RuleError::Empty(Field::Uid));
        }
        let (len, max) = (uid.len(), MAX_OWNER_BYTES);
        if len > max {
            return Err(RuleError::TooLong { field: Field::Uid, len, max });
        }
        let refused = |c: char| c.is_control() || c.is_whitespace() || c == ':';
        match uid.char_indices().find(|&(_, c)| refused(c)) {
            Some((at, found)) => Err(RuleError::Uid { found, at }),
            None => Ok(Self(uid.into())),
        }
    }
}

/// Tier, with the owner of a private one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// Entries of one owner.
    Private(Owner),
    /// Curated entries.
    Official,
    /// Entries published by the community.
    Market,
}

impl Layer {
    /// Creates a layer from its stored parts.
    #[must_use]
    pub fn from_parts(tier: Tier, owner: &str) -> Option<Self> {
        match (tier, owner) {
            (Tier::Private, uid) => uid.parse().ok().map(Self::Private),
            (Tier::Official, "") => Some(Self::Official),
            (Tier::Market, "") => Some(Self::Market),
            _ => None,
        }
    }

    /// Checks that entries may be written to the layer.
    ///
    /// # Errors
    /// When it is private and its owner is the nil UUID.
    pub fn check_writable(&self) -> Result<&Self, RuleError> {
        match self {
            Self::Private(owner) if owner.is_nil() => Err(RuleError::NilOwner),
            _ => Ok(self),
        }
    }

    /// Returns the tier.
    #[must_use]
    pub const fn tier(&self) -> Tier {
        match self {
            Self::Private(_) => Tier::Private,
            Self::Official => Tier::Official,
            Self::Market => Tier::Market,
        }
    }

    /// Returns the owner's uid, empty for layers without an owner.
    #[must_use]
    pub fn owner(&self) -> &str {
        match self {
            Self::Private(owner) => owner.as_str(),
            Self::Official | Self::Market => "",
        }
    }
}

/// Kind of an entry. Each kind has its own namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// Skill.
    Skill,
    /// Prompt.
    Prompt,
    /// Collection of skills.
    Collection,
}

impl EntryKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Skill, Self::Prompt, Self::Collection];

    /// Returns the name in storage.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Skill => "skill",
            Self::Prompt => "prompt",
            Self::Collection => "collection",
        }
    }
}

impl FromStr for EntryKind {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or(())
    }
}

/// Unique key of an entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryKey {
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Layer in which it is stored.
    pub layer: Layer,
    /// Id of the skill or name of the prompt.
    pub id: Arc<str>,
}

impl fmt::Display for EntryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.kind.as_str(), self.id, self.layer.tier())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_resolve_private_first_and_market_last() {
        assert!(Tier::Private < Tier::Official && Tier::Official < Tier::Market);
    }

    #[test]
    fn only_the_private_tier_has_an_owner() {
        assert!(Layer::from_parts(Tier::Private, "").is_none());
        assert!(Layer::from_parts(Tier::Official, "ann").is_none());
        let layer = Layer::from_parts(Tier::Private, "ann").unwrap();
        assert_eq!((layer.tier(), layer.owner()), (Tier::Private, "ann"));
        assert!(layer.check_writable().is_ok() && Layer::Market.check_writable().is_ok());
        let nil = Layer::from_parts(Tier::Private, NIL_UUID).unwrap();
        assert_eq!(nil.check_writable(), Err(RuleError::NilOwner));
    }

    #[test]
    fn a_uid_is_short_and_has_no_key_separator() {
        for uid in ["ann", "5f0c-11", "ann@example.org", "Ünï", &"a".repeat(128)] {
            assert_eq!(uid.parse::<Owner>().unwrap().as_str(), uid, "{uid}");
        }
        for (uid, words) in [
            ("", "uid must be non-empty"),
            (&*"a".repeat(129), "uid too long: 129 bytes"),
            ("a:b", "found ':' at byte 1"),
            ("a\0b", "found '\\0' at byte 1"),
            (" a", "found ' ' at byte 0"),
        ] {
            let error = uid.parse::<Owner>().expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn names_round_trip() {
        for tier in Tier::ALL {
            assert_eq!(tier.as_str().parse(), Ok(tier));
        }
        for kind in EntryKind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(kind), "{kind:?}");
        }
    }
}
