//! Quality floors by class of query.
//!
//! Weights were tuned on the odd-numbered queries of each class. `SKILLS_SEARCH_HALF=odd|even` restricts the run to one
//! half, and `--nocapture` prints the figures with every query that misses.

use std::collections::BTreeMap;

use skills_search::{SynonymTable, estimate_tokens};

use crate::corpus::{documents, fixtures, partition, queries, search};

/// Figures of a class.
#[derive(Default)]
struct Figures {
    queries: usize,
    first: usize,
    in_three: usize,
    in_five: usize,
    reciprocal: f64,
}

impl Figures {
    fn add(&mut self, rank: Option<usize>) {
        let within = |most: usize| usize::from(rank.is_some_and(|rank| rank < most));
        self.queries += 1;
        self.first += within(1);
        self.in_three += within(3);
        self.in_five += within(5);
        self.reciprocal += rank.map_or(0.0, |rank| 1.0 / (rank + 1) as f64);
    }

    fn share(&self, count: usize) -> f64 {
        count as f64 / self.queries.max(1) as f64
    }
}

fn evaluate(half: Option<usize>) -> BTreeMap<String, Figures> {
    let documents = documents();
    let partition = partition(&documents);
    let synonyms = SynonymTable::with_groups([]);
    let mut figures: BTreeMap<String, Figures> = BTreeMap::new();
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    for judged in queries() {
        let number = numbers.entry(judged.class.clone()).or_default();
        *number += 1;
        if half.is_some_and(|half| *number % 2 != half) {
            continue;
        }
        let hits = search(&partition, &synonyms, &judged.query, 20);
        let is_acceptable = |id: &str| judged.acceptable.iter().any(|wanted| wanted == id);
        let rank = hits.iter().position(|hit| is_acceptable(&hit.key.id));
        if rank != Some(0) {
            let top: Vec<&str> = hits.iter().take(5).map(|hit| &*hit.key.id).collect();
            println!(
                "{} {rank:?} {:?} wanted {:?} found {top:?}",
                judged.class, judged.query, judged.acceptable
            );
        }
        for class in [judged.class.as_str(), "ALL"] {
            figures.entry(class.to_owned()).or_default().add(rank);
        }
    }
    for (class, found) in &figures {
        println!(
            "{class:>10} {:>4} queries  Hit@1 {:.3}  @3 {:.3}  recall@5 {:.3}  MRR {:.3}",
            found.queries,
            found.share(found.first),
            found.share(found.in_three),
            found.share(found.in_five),
            found.reciprocal / found.queries as f64
        );
    }
    figures
}

#[test]
fn every_class_of_query_reaches_its_floor() {
    let half = match std::env::var("SKILLS_SEARCH_HALF").as_deref() {
        Ok("odd") => Some(1),
        Ok("even") => Some(0),
        _ => None,
    };
    let figures = evaluate(half);
    for (class, floor, count) in [
        ("exact", 1.0, figures["exact"].first),
        ("prefix", 1.0, figures["prefix"].in_three),
        ("keyword", 0.93, figures["keyword"].first),
        ("sentence", 0.95, figures["sentence"].in_five),
        ("body", 0.90, figures["body"].in_five),
        ("typo", 0.95, figures["typo"].in_five),
        ("cjk", 0.95, figures["cjk"].in_five),
        ("paraphrase", 0.50, figures["paraphrase"].in_five),
    ] {
        let reached = figures[class].share(count);
        assert!(reached >= floor, "{class}: {reached:.3} is below {floor}");
    }
}

#[test]
fn token_estimates_are_within_15_percent() {
    let counts = std::fs::read_to_string(fixtures().join("tokens.tsv")).unwrap();
    let mut worst = (0.0_f64, String::new());
    for line in counts.lines() {
        let (file, tokens) = line.split_once('\t').unwrap();
        let text = std::fs::read_to_string(fixtures().join("corpus").join(file)).unwrap();
        let tokens: f64 = tokens.parse().unwrap();
        let error = (estimate_tokens(&text) as f64 / tokens - 1.0).abs();
        if error > worst.0 {
            worst = (error, file.to_owned());
        }
    }
    assert!(worst.0 > 0.0 && worst.0 <= 0.15, "{worst:?}");
}
