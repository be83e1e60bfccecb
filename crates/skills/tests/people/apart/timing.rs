//! How long an answer takes says nothing either. What is measured is the median of many requests, made in turns, and
//! compared with much room: a machine that is busy slows both down alike, and what reads or runs something that
//! nobody else may see takes several times as long each time.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{HERS, NOBODYS, Town, of, strangers};

const PAIRS: usize = 60;
/// How often a measurement that looks bad is made again: what leaks does so each time.
const TRIES: usize = 4;
const FACTOR: f64 = 2.0;

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
}

/// How much longer the one takes than the other.
fn ratio(time: impl Fn(&str) -> Duration) -> f64 {
    let (mut hers, mut nobodys) = (vec![], vec![]);
    for number in 0..PAIRS {
        // In turns, so that neither is always the first.
        if number % 2 == 0 {
            hers.push(time(HERS));
            nobodys.push(time(NOBODYS));
        } else {
            nobodys.push(time(NOBODYS));
            hers.push(time(HERS));
        }
    }
    median(hers) / median(nobodys)
}

fn is_alike(ratio: &f64) -> bool {
    (1.0 / FACTOR..FACTOR).contains(ratio)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_elses_takes_as_long_as_nobodys() {
    let town = Town::new().await;
    for (who, key) in strangers(&town.bob) {
        for (method, target, body) in [
            ("GET", "/v1/skills/@-note", Value::Null),
            ("GET", "/v1/skills/@-note?tier=private", Value::Null),
            ("POST", "/v1/execute/@_plan", json!({ "payload": {} })),
            ("GET", "/.well-known/skills/@-note/SKILL.md", Value::Null),
        ] {
            let time = |word: &str| {
                let (target, body) = (target.replace('@', word), of(word, &body));
                let begun = Instant::now();
                town.site.ask(key, method, &target, &body);
                begun.elapsed()
            };
            let mut ratios = vec![];
            while ratios.len() < TRIES && !ratios.last().is_some_and(is_alike) {
                ratios.push(ratio(time));
            }
            assert!(ratios.last().is_some_and(is_alike), "{who} {method} {target}: {ratios:?}");
        }
    }
    // What is measured can tell: for ann, who may read hers, it takes several times as long.
    let time = |word: &str| {
        let begun = Instant::now();
        town.site.ask(Some(&town.ann), "GET", &format!("/v1/skills/{word}-note"), &Value::Null);
        begun.elapsed()
    };
    let ratios: Vec<f64> = (0..TRIES).map(|_| ratio(time)).collect();
    assert!(!ratios.iter().all(is_alike), "{ratios:?}");
}
