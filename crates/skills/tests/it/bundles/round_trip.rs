use std::{
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use skills_testkit::{Random, SEED_VARIABLE};

use super::{answer, document, put, text, tree};

use crate::support::TestServer;

const BUNDLES: usize = 200;
const EXPORTERS: usize = 4;

/// Generates distinct names with any characters a file system accepts.
fn name(random: &mut Random, number: usize) -> String {
    const PARTS: [&str; 12] =
        ["a b", "é", "語", "🎃", "%20", "#", "？", "&'", ".hidden", "x.MD", "ü~", "$(x)"];
    let part = |random: &mut Random| PARTS[random.below(PARTS.len())];
    format!("{}{number}{}", part(random), part(random))
}

fn content(random: &mut Random) -> Vec<u8> {
    let length = [0, 1, 100, 3000, 70_000][random.below(5)];
    let is_text = random.below(2) == 0;
    let byte = |_| {
        let byte = u8::try_from(random.below(256)).unwrap();
        if is_text { byte % 64 + 32 } else { byte }
    };
    (0..length).map(byte).collect()
}

fn generate(random: &mut Random, dir: &Path) {
    for number in 0..BUNDLES {
        let id = format!("bundle-{number}");
        put(dir, &format!("{id}/SKILL.md"), document(&id, &name(random, number)));
        let mut folder = id.clone();
        for file in 0..random.below(9) {
            match random.below(3) {
                0 => folder = format!("{folder}/{}", name(random, file)),
                1 => folder.clone_from(&id),
                _ => {}
            }
            // Folder and file names never collide.
            let name = format!("f{}", name(random, file + 100));
            put(dir, &format!("{folder}/{name}"), content(random));
        }
    }
}

#[test]
fn generated_bundles_survive_the_bus_unchanged() {
    let mut random = Random::new();
    let note = format!("{SEED_VARIABLE}={}", random.seed);
    let server = TestServer::new();
    let url = server.process.url.as_str();
    let (from, to) = (server.dir().join("from"), server.dir().join("to"));
    generate(&mut random, &from);
    let output = answer(&["--url", url, "add", text(&from)]);
    assert!(
        output.ends_with(&format!("added {BUNDLES}, changed 0, unchanged 0, failed 0\n")),
        "{note}"
    );
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..EXPORTERS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= BUNDLES {
                        return;
                    }
                    let id = format!("bundle-{number}");
                    answer(&["--url", url, "export", &id, text(&to.join(&id))]);
                }
            });
        }
    });
    assert!(tree(&to) == tree(&from), "{note}");
    let again = answer(&["--url", url, "add", text(&to)]);
    assert_eq!(again, format!("added 0, changed 0, unchanged {BUNDLES}, failed 0\n"), "{note}");
}
