//! Links to files outside the bundle.

use std::collections::HashSet;

use percent_encoding::percent_decode_str;
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
                if !present.get_or_insert_with(|| files_and_folders(files)).contains(&path) {
                    let message = format!("the bundle has no file {}", quoted(&path));
                    findings.add(&rules::LINK_MISSING, at, message);
                }
            }
        }
    }
}

/// Returns whether a relative path names a file of the bundle.
pub(super) fn has_file(path: &str, files: &[String]) -> bool {
    resolve(path).is_some_and(|path| files.contains(&path))
}

/// Returns all files and all folders above them.
fn files_and_folders(files: &[String]) -> HashSet<String> {
    let mut paths = HashSet::from([String::new()]);
    for file in files {
        paths.insert(file.clone());
        for (at, _) in file.match_indices('/') {
            if !paths.contains(&file[..at]) {
                paths.insert(file[..at].to_owned());
            }
        }
    }
    paths
}

/// Returns whether a link is a relative path: no URL, no anchor in the same document, and no template placeholder.
fn is_relative(link: &str) -> bool {
    let scheme = link.split(['/', '?', '#']).next().unwrap_or_default();
    let is_filled_in = !link.contains(['{', '}', '<', '>', '$', '*']);
    !link.is_empty() && !link.starts_with(['#', '/', '?']) && !scheme.contains(':') && is_filled_in
}

/// Resolves a relative link to a path in the bundle; `None` when it leaves the bundle.
fn resolve(link: &str) -> Option<String> {
    let path = link.split(['#', '?']).next().unwrap_or_default();
    let path = percent_decode_str(path).decode_utf8_lossy();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_resolved_in_the_bundle() {
        assert_eq!(resolve("a/./b/../c%20d.md#x").as_deref(), Some("a/c d.md"));
        assert_eq!(resolve("scripts/").as_deref(), Some("scripts"));
        assert_eq!(resolve("../x"), None);
        assert_eq!(resolve("a/../../x"), None);
        assert_eq!(resolve("%4x%41%").as_deref(), Some("%4xA%"));
    }

    #[test]
    fn urls_are_not_relative_links() {
        for link in ["https://a/b", "mailto:a@b", "#x", "/etc", "//a/b", "iii://a", "{dir}/x", ""] {
            assert!(!is_relative(link), "{link}");
        }
        for link in ["a.md", "./a.md", "../a", "a/b:c.md", "a.md#b:c"] {
            assert!(is_relative(link), "{link}");
        }
    }

    #[test]
    fn folders_above_files_are_link_targets() {
        let files = ["SKILL.md", "a/b/c.md"].map(str::to_owned);
        let paths = files_and_folders(&files);
        assert!(["", "a", "a/b", "a/b/c.md"].iter().all(|path| paths.contains(*path)));
    }
}
