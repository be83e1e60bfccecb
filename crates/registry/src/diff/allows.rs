//! Permissions and reach that the later side adds: tools, scripts, URLs and endpoints.

use std::collections::BTreeSet;

use skills_agent_skills::{agent_skill::allowed_tools, frontmatter};
use skills_core::{Digest, FileMeta};
use skills_manifest::ParseMode;

use super::{Allowance, AllowanceKind, ComparedSkill};

/// Folder whose files agents run, by the specification of Agent Skills.
const SCRIPTS: &str = "scripts/";
/// Longest URL that is listed, in bytes.
const MAX_URL_BYTES: usize = 2048;

/// Returns what the later side adds, and whether a file of either side was too large to be looked into.
pub(super) fn added(from: &ComparedSkill, to: &ComparedSkill) -> (Vec<Allowance>, bool) {
    let mut added = Vec::new();
    let of = |kind, value: String, path| Allowance { kind, value, path };
    let known = tools(from);
    let new_tools = tools(to).into_iter().filter(|tool| !known.contains(tool));
    added.extend(new_tools.map(|tool| of(AllowanceKind::AllowedTool, tool, None)));
    let new_scripts = to.files().iter().filter(|file| {
        let has_same = |before: &&FileMeta| before.digest == file.digest;
        let before = from.file(&file.path).or_else(|| from.files().iter().find(has_same));
        is_script(to, file) && before.is_none_or(|before| !is_script(from, before))
    });
    added.extend(new_scripts.map(|file| of(AllowanceKind::Script, file.path.clone(), None)));
    let known: BTreeSet<&str> = texts(from).flat_map(|(_, text)| urls(text)).collect();
    let mut seen = BTreeSet::new();
    // The earlier side may be too large to be read in full. A file that it has too adds nothing.
    let known_files: BTreeSet<&Digest> = from.files().iter().map(|file| &file.digest).collect();
    let is_new = |path: &str| to.file(path).is_none_or(|file| !known_files.contains(&file.digest));
    for (path, text) in texts(to).filter(|(path, _)| is_new(path)) {
        for url in urls(text).filter(|url| !known.contains(url)) {
            if seen.insert(url) {
                added.push(of(AllowanceKind::Url, url.to_owned(), Some(path.to_owned())));
            }
        }
    }
    if let Some(endpoint) = endpoint(to).filter(|_| endpoint(from) != endpoint(to)) {
        added.push(of(AllowanceKind::Endpoint, endpoint, None));
    }
    // A URL may be in a part of the earlier side that was not read: it is listed all the same, and the result says so.
    let is_unread = has_unread(to, is_new) || (!seen.is_empty() && has_unread(from, |_| true));
    (added, is_unread)
}

/// Returns whether a file that counts was too large to be looked into.
fn has_unread(input: &ComparedSkill, counts: impl Fn(&str) -> bool) -> bool {
    input.files().iter().any(|file| counts(&file.path) && input.bytes(&file.path).is_none())
}

/// Returns the tools that the frontmatter allows.
fn tools(input: &ComparedSkill) -> Vec<String> {
    let fields = frontmatter::fields(input.root()).unwrap_or_default();
    let mut tools = fields.get("allowed-tools").map(allowed_tools).unwrap_or_default();
    tools.sort_unstable();
    tools.dedup();
    tools
}

/// Returns whether an agent may run a file.
fn is_script(input: &ComparedSkill, file: &FileMeta) -> bool {
    let bytes = input.bytes(&file.path).map(AsRef::as_ref).unwrap_or_default();
    file.path.starts_with(SCRIPTS) || file.is_executable(bytes)
}

fn texts(input: &ComparedSkill) -> impl Iterator<Item = (&str, &str)> {
    input.files().iter().filter_map(|file| {
        let text = std::str::from_utf8(input.bytes(&file.path)?).ok()?;
        Some((file.path.as_str(), text))
    })
}

/// Returns the web addresses in a text, in order.
fn urls(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("http").filter_map(|(at, _)| {
        let rest = &text[at..];
        let address = rest.strip_prefix("https://").or_else(|| rest.strip_prefix("http://"))?;
        let ends = |c: char| c.is_whitespace() || c.is_control() || "<>\"'`|()[]{}\\^".contains(c);
        let scheme = rest.len() - address.len();
        let end = scheme + address.find(ends).unwrap_or(address.len());
        let end = rest.floor_char_boundary(end.min(MAX_URL_BYTES));
        let url = rest[..end].trim_end_matches(['.', ',', ';', ':', '!', '?', '*', '_']);
        (url.len() > scheme).then_some(url)
    })
}

/// Returns the endpoint of a tool without its query, which may hold a credential.
fn endpoint(input: &ComparedSkill) -> Option<String> {
    let parsed = skills_manifest::parse(input.manifest()?, ParseMode::Lenient, None).ok()?;
    let endpoint = parsed.spec.endpoint()?;
    Some(endpoint.split(['?', '#']).next().unwrap_or(endpoint).to_owned())
}
