//! Durations on the command line: a whole number and a unit.

use std::time::Duration;

/// Sentence about text that is no duration.
pub(super) const EXPECTED: &str =
    "expected a whole number and a unit (s, m, h, d or w), such as 30d";

/// Parses a whole number and a unit: s, m, h, d or w. The number may be too large for a duration; the longest is returned
/// then.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    let unit = text.chars().last().ok_or(EXPECTED)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        'w' => 7 * 24 * 60 * 60,
        _ => return Err(EXPECTED),
    };
    let digits = &text[..text.len() - 1];
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(EXPECTED);
    }
    let number = digits.parse::<u64>().unwrap_or(u64::MAX);
    Ok(Duration::from_secs(number.saturating_mul(seconds)))
}
