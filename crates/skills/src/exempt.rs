//! Origins that tools may call whatever their address is: all tools, or those of one tier.

use std::{fmt, str::FromStr};

use skills_core::Tier;
use skills_upstream::{BadOrigin, Origin};

/// An origin, and whose tools may call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exempt {
    /// The tools of this tier only; of all without one.
    pub tier: Option<Tier>,
    /// What they may call.
    pub origin: Origin,
}

/// Text that names no such origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadExempt {
    /// What stands before the sign is no tier.
    #[error(
        "{0:?} is no tier: write private=, official= or market= before an origin, or nothing for all"
    )]
    Tier(String),
    /// The rest is no origin.
    #[error(transparent)]
    Origin(#[from] BadOrigin),
}

impl FromStr for Exempt {
    type Err = BadExempt;

    fn from_str(text: &str) -> Result<Self, BadExempt> {
        let Some((tier, origin)) = text.split_once('=') else {
            return Ok(Self { tier: None, origin: text.parse()? });
        };
        let tier = tier.parse().map_err(|()| BadExempt::Tier(tier.to_owned()))?;
        Ok(Self { tier: Some(tier), origin: origin.parse()? })
    }
}

impl fmt::Display for Exempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tier {
            Some(tier) => write!(f, "{tier}={}", self.origin),
            None => self.origin.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_all_tiers_or_of_one() {
        for text in
            ["http://127.0.0.1:8080", "official=http://intranet.test", "market=https://[::1]:1"]
        {
            assert_eq!(text.parse::<Exempt>().unwrap().to_string(), text);
        }
        assert_eq!("private=http://a.test".parse::<Exempt>().unwrap().tier, Some(Tier::Private));
        for text in
            ["", "a b", "Market=http://a.test", "=http://a.test", "official=", "http://a.test?q=1"]
        {
            assert!(text.parse::<Exempt>().is_err(), "{text}");
        }
    }
}
