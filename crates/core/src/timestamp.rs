//! Timestamps: microseconds since 1970, printed as RFC 3339.

use std::{fmt, str::FromStr, time::Duration};

/// Point in time. Its text has a fixed width, so that texts sort chronologically.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Reads the system clock.
    #[must_use]
    pub fn now() -> Self {
        Self(jiff::Timestamp::now().as_microsecond())
    }

    /// Creates a timestamp from microseconds since the epoch.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Returns microseconds since the epoch.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Returns milliseconds since the epoch, 0 for earlier times.
    #[must_use]
    pub fn as_millis(self) -> u64 {
        u64::try_from(self.0 / 1000).unwrap_or(0)
    }

    /// Returns whole seconds since the epoch, 0 for earlier times.
    #[must_use]
    pub fn as_secs(self) -> u64 {
        self.as_millis() / 1000
    }

    /// Adds a duration, up to the latest timestamp.
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Formats as RFC 3339 with milliseconds, as JavaScript clients do.
    #[must_use]
    pub fn to_rfc3339_millis(self) -> String {
        match jiff::Timestamp::from_millisecond(self.0.div_euclid(1000)) {
            Ok(time) => format!("{time:.3}"),
            Err(_) => self.to_string(),
        }
    }

    /// Returns `now`, or the smallest later timestamp if the clock was set back: always later than `last`.
    #[must_use]
    pub fn next_after(now: Self, last: Self) -> Self {
        now.max(Self(last.0.saturating_add(1)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(time) => write!(f, "{time:.6}"),
            Err(_) => write!(f, "{} us", self.0),
        }
    }
}

/// Error for text that is not RFC 3339.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 timestamp")]
pub struct ParseTimestampError;

impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    fn from_str(text: &str) -> Result<Self, ParseTimestampError> {
        let time: jiff::Timestamp = text.parse().map_err(|_| ParseTimestampError)?;
        Ok(Self(time.as_microsecond()))
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
        let time = Timestamp::from_micros(1_700_000_000_000_999);
        assert_eq!(time.to_rfc3339_millis(), "2023-11-14T22:13:20.000Z");
        assert_eq!(time.as_millis(), 1_700_000_000_000);
        assert_eq!(time.as_secs(), 1_700_000_000);
        assert_eq!(Timestamp::from_micros(-1).as_millis(), 0);
        assert_eq!(time.saturating_add(Duration::MAX), Timestamp::from_micros(i64::MAX));
    }

    proptest! {
        #[test]
        fn the_next_timestamp_is_strictly_later(now in 0i64..1 << 52, last in 0i64..1 << 52) {
            let (now, last) = (Timestamp(now), Timestamp(last));
            prop_assert!(Timestamp::next_after(now, last) > last);
            prop_assert!(Timestamp::next_after(now, last) >= now);
        }

        #[test]
        fn text_sorts_like_time(a in 0i64..1 << 52, b in 0i64..1 << 52) {
            let (a, b) = (Timestamp(a), Timestamp(b));
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
        }
    }
}
