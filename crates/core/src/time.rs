//! Timestamps: microseconds since 1970, printed as RFC 3339.

use std::{fmt, str::FromStr};

/// A moment. Its text has a fixed width, so that texts sort as the moments do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From microseconds since the epoch.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// RFC 3339 with milliseconds, as clients that are written in JavaScript print it.
    #[must_use]
    pub fn to_millis(self) -> String {
        match jiff::Timestamp::from_millisecond(self.0.div_euclid(1000)) {
            Ok(moment) => format!("{moment:.3}"),
            Err(_) => self.to_string(),
        }
    }

    /// The moment at which something happens now, given the newest one that was handed out:
    /// always later than `last`, even when the clock was set back.
    #[must_use]
    pub fn after(now: Self, last: Self) -> Self {
        now.max(Self(last.0.saturating_add(1)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(moment) => write!(f, "{moment:.6}"),
            Err(_) => write!(f, "{} us", self.0),
        }
    }
}

/// A text that is not a moment in RFC 3339.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a moment in RFC 3339")]
pub struct NotAMoment;

impl FromStr for Timestamp {
    type Err = NotAMoment;

    fn from_str(text: &str) -> Result<Self, NotAMoment> {
        let moment: jiff::Timestamp = text.parse().map_err(|_| NotAMoment)?;
        Ok(Self(moment.as_microsecond()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn prints_rfc_3339_with_six_digits() {
        assert_eq!(Timestamp::from_micros(0).to_string(), "1970-01-01T00:00:00.000000Z");
        assert_eq!(
            Timestamp::from_micros(1_700_000_000_500_000).to_string(),
            "2023-11-14T22:13:20.500000Z"
        );
        let moment = Timestamp::from_micros(1_700_000_000_000_999);
        assert_eq!(moment.to_millis(), "2023-11-14T22:13:20.000Z");
    }

    proptest! {
        #[test]
        fn the_next_moment_is_strictly_later(now in 0i64..1 << 52, last in 0i64..1 << 52) {
            let (now, last) = (Timestamp(now), Timestamp(last));
            prop_assert!(Timestamp::after(now, last) > last);
            prop_assert!(Timestamp::after(now, last) >= now);
        }

        #[test]
        fn text_sorts_like_time(a in 0i64..1 << 52, b in 0i64..1 << 52) {
            let (a, b) = (Timestamp(a), Timestamp(b));
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
        }
    }
}
