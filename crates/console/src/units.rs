//! Numbers, sizes and times for people.

use maud::{Markup, html};
use skills_agent_skills::validate::reveal_hidden;
use skills_core::Timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Formats a number of bytes with a binary unit.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
    let mut size = count as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// Formats a number with thin spaces between groups of three digits.
pub(crate) fn number(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Formats a number with its noun, in the plural unless it is one.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", number(count as u64))
}

/// Renders a time as the distance to now, with the exact time on hover.
pub(crate) fn ago(at: Timestamp) -> Markup {
    let exact = exact(at);
    html! { time datetime=(exact) title=(exact) { (distance(at, Timestamp::now())) } }
}

/// Renders a time that is given as text; text that is no time is shown as it is.
pub(crate) fn ago_text(at: &str) -> Markup {
    at.parse().map_or_else(|_| html! { (reveal_hidden(at)) }, ago)
}

/// Formats a time in full, to the second.
pub(crate) fn exact(at: Timestamp) -> String {
    let text = at.to_rfc3339_millis();
    format!("{}Z", text.split('.').next().unwrap_or(&text))
}

fn distance(at: Timestamp, now: Timestamp) -> String {
    let seconds = (now.as_micros() - at.as_micros()) / 1_000_000;
    let (amount, is_past) = (seconds.abs(), seconds >= 0);
    let (count, unit) = match amount {
        0..10 if is_past => return "just now".to_owned(),
        0..MINUTE => (amount, "second"),
        MINUTE..HOUR => (amount / MINUTE, "minute"),
        HOUR..DAY => (amount / HOUR, "hour"),
        _ if amount < 60 * DAY => (amount / DAY, "day"),
        _ if amount < 730 * DAY => (amount / (30 * DAY), "month"),
        _ => (amount / (365 * DAY), "year"),
    };
    let plural = if count == 1 { "" } else { "s" };
    if is_past {
        format!("{count} {unit}{plural} ago")
    } else {
        format!("in {count} {unit}{plural}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_numbers_are_readable() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(32 << 20), "32.0 MiB");
        assert_eq!(number(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(
            (counted(1, "skill"), counted(0, "skill")),
            ("1 skill".into(), "0 skills".into())
        );
    }

    #[test]
    fn distances_have_one_unit() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        for (seconds, expected) in [
            (0, "just now"),
            (59, "59 seconds ago"),
            (60, "1 minute ago"),
            (7200, "2 hours ago"),
            (3 * DAY, "3 days ago"),
            (90 * DAY, "3 months ago"),
            (800 * DAY, "2 years ago"),
            (-120, "in 2 minutes"),
        ] {
            assert_eq!(distance(at(0), at(seconds)), expected);
        }
        assert_eq!(exact(at(0)), "1970-01-01T00:00:00Z");
    }
}
