//! Links to files that do not travel with the bundle.

use std::collections::HashSet;

use pulldown_cmark::{Event, Parser, Tag};

use super::{
    findings::{Findings, quoted},
    rules,
};

pub(super) fn check(body: &str, start: usize, files: &[String], findings: &mut Findings) {
    let mut present: Option<HashSet<String>> = None;
    for (event, range) in Parser::new(body).into_offset_iter() {
        let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event else {
            continue;
        };
        if !is_relative(&dest_url) {
            continue;
        }
        let at = start + range.start;
        match resolve(&dest_url) {
            None => {
                let message = format!("the link to {} leaves the bundle", quoted(&dest_url));
                findings.add(&rules::LINK_OUTSIDE, at, message);
            }
            Some(path) => {
                if !present.get_or_insert_with(|| places(files)).contains(&path) {
                    let message = format!("the bundle has no file {}", quoted(&path));
                    findings.add(&rules::LINK_MISSING, at, message);
                }
            }
        }
    }
}

/// Whether a relative path names something in the bundle.
pub(super) fn is_there(path: &str, files: &[String]) -> bool {
    resolve(path).is_some_and(|path| files.contains(&path))
}

/// All files and all folders above them.
fn places(files: &[String]) -> HashSet<String> {
    let mut places = HashSet::from([String::new()]);
    for file in files {
        places.insert(file.clone());
        for (at, _) in file.match_indices('/') {
            if !places.contains(&file[..at]) {
                places.insert(file[..at].to_owned());
            }
        }
    }
    places
}

/// Whether a link is to a file beside the document: not an address, not a place in the document itself, and
/// without anything that is still to be filled in.
fn is_relative(link: &str) -> bool {
    let scheme = link.split(['/', '?', '#']).next().unwrap_or_default();
    let is_filled_in = !link.contains(['{', '}', '<', '>', '$', '*']);
    !link.is_empty() && !link.starts_with(['#', '/', '?']) && !scheme.contains(':') && is_filled_in
}

/// The path in the bundle that a relative link names; `None` when it is outside.
fn resolve(link: &str) -> Option<String> {
    let path = link.split(['#', '?']).next().unwrap_or_default();
    let path = percent_decoded(path);
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn percent_decoded(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, tail @ ..] = rest {
        let digit = |at: usize| tail.get(at).and_then(|&byte| (byte as char).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_resolved_in_the_bundle() {
        assert_eq!(resolve("a/./b/../c%20d.md#x").as_deref(), Some("a/c d.md"));
        assert_eq!(resolve("scripts/").as_deref(), Some("scripts"));
        assert_eq!(resolve("../x"), None);
        assert_eq!(resolve("a/../../x"), None);
        assert_eq!(percent_decoded("%4x%41%"), "%4xA%");
    }

    #[test]
    fn addresses_are_not_files() {
        for link in ["https://a/b", "mailto:a@b", "#x", "/etc", "//a/b", "iii://a", "{dir}/x", ""] {
            assert!(!is_relative(link), "{link}");
        }
        for link in ["a.md", "./a.md", "../a", "a/b:c.md", "a.md#b:c"] {
            assert!(is_relative(link), "{link}");
        }
    }

    #[test]
    fn folders_are_places() {
        let files = ["SKILL.md", "a/b/c.md"].map(str::to_owned);
        let places = places(&files);
        assert!(["", "a", "a/b", "a/b/c.md"].iter().all(|place| places.contains(*place)));
    }
}
