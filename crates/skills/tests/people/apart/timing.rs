//! How long an answer takes says nothing either. What is measured is the median of many requests, made in turns, and
//! compared with much room: a machine that is busy slows both down alike, and what reads or runs something that
//! nobody else may see takes several times as long each time.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{HERS, NOBODYS, Town, of, strangers};

const PAIRS: usize = 60;
/// How often a measurement that looks bad is made again: what leaks does so each time.
const TRIES: usize = 4;
const FACTOR: f64 = 1.6;

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
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
            let measured = |_| {
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
            };
            let ratios: Vec<f64> = (0..TRIES)
                .map(measured)
                .scan(false, |is_done, ratio| {
                    if *is_done {
                        return None;
                    }
                    *is_done = (1.0 / FACTOR..FACTOR).contains(&ratio);
                    Some(ratio)
                })
                .collect();
            let last = ratios.last().copied().unwrap_or_default();
            assert!((1.0 / FACTOR..FACTOR).contains(&last), "{who} {method} {target}: {ratios:?}");
        }
    }
}
