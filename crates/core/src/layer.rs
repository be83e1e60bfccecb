//! Where an entry is stored: tiers, owners, and the key that both are part of.

use std::{fmt, str::FromStr, sync::Arc};

/// The three tiers, in the order in which they are resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// Whom a private entry belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(Arc<str>);

impl Owner {
    /// An owner; `None` for the empty string, which stands for "nobody" in storage.
    #[must_use]
    pub fn new(uid: &str) -> Option<Self> {
        (!uid.is_empty()).then(|| Self(uid.into()))
    }

    /// The owner's id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
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
        match (tier, Owner::new(owner)) {
            (Tier::Private, Some(owner)) => Some(Self::Private(owner)),
            (Tier::Official, None) => Some(Self::Official),
            (Tier::Market, None) => Some(Self::Market),
            _ => None,
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
