//! Where an entry is stored: tiers, owners, and the key that both are part of.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{Field, RuleError, limits::MAX_OWNER_BYTES};

/// The three tiers, in the order in which they are resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Entries of one owner.
    Private,
    /// Curated entries; what workers register.
    Official,
    /// Published by the community.
    Market,
}

impl Tier {
    /// The name in storage and on the wire.
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
        [Self::Private, Self::Official, Self::Market]
            .into_iter()
            .find(|tier| tier.as_str() == text)
            .ok_or(())
    }
}

/// Whom a private entry belongs to: a uid, which is part of the entry's key `skill:private:{uid}:{id}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(Arc<str>);

/// The nil UUID, which data of before has where a user was not known. It belongs to no one.
const NOBODY: &str = "00000000-0000-0000-0000-000000000000";

impl Owner {
    /// Whether it stands for nobody, who cannot own anything.
    #[must_use]
    pub fn is_nobody(&self) -> bool {
        self.as_str() == NOBODY
    }

    /// The owner's id.
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

/// A tier together with the owner that only the private one has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// Entries of one owner.
    Private(Owner),
    /// Curated entries.
    Official,
    /// Published by the community.
    Market,
}

impl Layer {
    /// Puts a layer together from its stored parts.
    #[must_use]
    pub fn from_parts(tier: Tier, owner: &str) -> Option<Self> {
        match (tier, owner) {
            (Tier::Private, uid) => uid.parse().ok().map(Self::Private),
            (Tier::Official, "") => Some(Self::Official),
            (Tier::Market, "") => Some(Self::Market),
            _ => None,
        }
    }

    /// The layer, if something may be put there.
    ///
    /// # Errors
    /// When it is private and belongs to nobody.
    pub fn writable(&self) -> Result<&Self, RuleError> {
        match self {
            Self::Private(owner) if owner.is_nobody() => Err(RuleError::Nobody),
            _ => Ok(self),
        }
    }

    /// The tier.
    #[must_use]
    pub const fn tier(&self) -> Tier {
        match self {
            Self::Private(_) => Tier::Private,
            Self::Official => Tier::Official,
            Self::Market => Tier::Market,
        }
    }

    /// The owner's id, empty where a layer has no owner.
    #[must_use]
    pub fn owner(&self) -> &str {
        match self {
            Self::Private(owner) => owner.as_str(),
            Self::Official | Self::Market => "",
        }
    }
}

/// The two kinds of entry. Each has its own space of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A skill.
    Skill,
    /// A prompt.
    Prompt,
}

impl Kind {
    /// The name in storage.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Skill => "skill",
            Self::Prompt => "prompt",
        }
    }
}

impl FromStr for Kind {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Skill, Self::Prompt].into_iter().find(|kind| kind.as_str() == text).ok_or(())
    }
}

/// What identifies an entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryKey {
    /// Skill or prompt.
    pub kind: Kind,
    /// Where it is stored.
    pub layer: Layer,
    /// The skill's id or the prompt's name.
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
        assert!(layer.writable().is_ok() && Layer::Market.writable().is_ok());
        let nobodys = Layer::from_parts(Tier::Private, NOBODY).unwrap();
        assert_eq!(nobodys.writable(), Err(RuleError::Nobody));
    }

    #[test]
    fn a_uid_is_short_and_cannot_end_the_key_it_is_part_of() {
        for uid in ["ann", "5f0c-11", "ann@example.org", "Ünï", &"a".repeat(128)] {
            assert_eq!(uid.parse::<Owner>().unwrap().as_str(), uid);
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
        for tier in [Tier::Private, Tier::Official, Tier::Market] {
            assert_eq!(tier.as_str().parse(), Ok(tier));
        }
        for kind in [Kind::Skill, Kind::Prompt] {
            assert_eq!(kind.as_str().parse(), Ok(kind));
        }
    }
}
