//! Origins that are exempt from the rules on https and addresses, for all tools or those of one tier.

use std::{fmt, str::FromStr};

use skills_core::Tier;
use skills_upstream::{ParseOriginError, UpstreamOrigin};

/// Exemption of an origin from the rules on https and addresses, written `[TIER=]ORIGIN`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamAllowance {
    /// Tier whose tools may call the origin; all tools if absent.
    pub tier: Option<Tier>,
    /// The exempt origin.
    pub origin: UpstreamOrigin,
}

/// Failure to parse an [`UpstreamAllowance`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseAllowanceError {
    /// The text before `=` is no tier.
    #[error(
        "{0:?} is no tier: write private=, official= or market= before an origin, or nothing for all"
    )]
    Tier(String),
    /// The origin is invalid.
    #[error(transparent)]
    Origin(#[from] ParseOriginError),
}

impl FromStr for UpstreamAllowance {
    type Err = ParseAllowanceError;

    fn from_str(text: &str) -> Result<Self, ParseAllowanceError> {
        let Some((tier, origin)) = text.split_once('=') else {
            return Ok(Self { tier: None, origin: text.parse()? });
        };
        let tier = tier.parse().map_err(|()| ParseAllowanceError::Tier(tier.to_owned()))?;
        Ok(Self { tier: Some(tier), origin: origin.parse()? })
    }
}

impl fmt::Display for UpstreamAllowance {
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
    fn allowances_are_parsed_and_printed_alike() {
        for text in
            ["http://127.0.0.1:8080", "official=http://intranet.test", "market=https://[::1]:1"]
        {
            assert_eq!(text.parse::<UpstreamAllowance>().unwrap().to_string(), text, "{text}");
        }
        assert_eq!(
            "private=http://a.test".parse::<UpstreamAllowance>().unwrap().tier,
            Some(Tier::Private)
        );
        for text in
            ["", "a b", "Market=http://a.test", "=http://a.test", "official=", "http://a.test?q=1"]
        {
            assert!(text.parse::<UpstreamAllowance>().is_err(), "{text}");
        }
    }
}
