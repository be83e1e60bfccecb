//! The time of an answer reveals nothing. The test compares the shortest times of many alternating requests with a wide
//! margin: load makes requests longer, never shorter, while reading or running a hidden entry takes several times as
//! long, always. It is a security check and no performance claim, so it is not a benchmark.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{ABSENT, EXISTING, IsolationFixture, other_callers, with_name};

const PAIRS: usize = 30;
/// Rounds of pairs until a measurement counts as failed. Each round can only shorten the shortest times.
const MAX_ROUNDS: usize = 40;
const FACTOR: f64 = 2.0;

/// Measures pairs of requests until the ratio of their shortest times is as wanted, or the rounds are used up. Returns
/// the last ratio.
fn ratio(time: impl Fn(&str) -> Duration, is_wanted: impl Fn(f64) -> bool) -> f64 {
    let (mut hers, mut nobodys) = (Duration::MAX, Duration::MAX);
    let mut ratio = f64::NAN;
    for _ in 0..MAX_ROUNDS {
        for number in 0..PAIRS {
            // Alternates the order.
            if number % 2 == 0 {
                hers = hers.min(time(EXISTING));
                nobodys = nobodys.min(time(ABSENT));
            } else {
                nobodys = nobodys.min(time(ABSENT));
                hers = hers.min(time(EXISTING));
            }
        }
        ratio = hers.as_secs_f64() / nobodys.as_secs_f64();
        if is_wanted(ratio) {
            break;
        }
    }
    ratio
}

fn is_alike(ratio: f64) -> bool {
    (1.0 / FACTOR..FACTOR).contains(&ratio)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_for_another_users_entries_take_as_long_as_for_absent_ones() {
    let fixture = IsolationFixture::new().await;
    for (who, key) in other_callers(&fixture.bob) {
        for (method, target, body) in [
            ("GET", "/v1/skills/@-note", Value::Null),
            ("GET", "/v1/skills/@-note?tier=private", Value::Null),
            ("POST", "/v1/execute/@_plan", json!({ "payload": {} })),
            ("GET", "/.well-known/skills/@-note/SKILL.md", Value::Null),
        ] {
            let time = |word: &str| {
                let (target, body) = (target.replace('@', word), with_name(word, &body));
                let begun = Instant::now();
                fixture.server.ask(key, method, &target, &body);
                begun.elapsed()
            };
            let ratio = ratio(time, is_alike);
            assert!(is_alike(ratio), "{who} {method} {target}: {ratio}");
        }
    }
    // Control: for ann, who may read the entry, the ratio is clearly different.
    let time = |word: &str| {
        let begun = Instant::now();
        fixture.server.ask(
            Some(&fixture.ann),
            "GET",
            &format!("/v1/skills/{word}-note"),
            &Value::Null,
        );
        begun.elapsed()
    };
    let ratio = ratio(time, |ratio| !is_alike(ratio));
    assert!(!is_alike(ratio), "{ratio}");
}
