//! Parsing of the rows that a remote registry lists.
//!
//! A remote registry is as untrusted as a file from the internet. Ids, names, paths and digests become domain types here
//! or their row is dropped, so no other module joins untrusted text to a path or a URI. Dropped rows are remembered, for
//! the log and for the user.

use std::{collections::HashSet, sync::Arc};

use skills_core::{
    BundlePath, FileMeta, PromptName, ResourceUri, RuleError, SkillId, SkillMeta, Tier, Timestamp,
    limits::{MAX_AGENT_SKILL_BYTES, MAX_BUNDLE_BYTES, MAX_BUNDLE_FILES, MAX_TOOL_BYTES},
    text::{MAX_QUOTED_CHARS, first_chars},
    uri::SCHEME,
};

use crate::responses::{CatalogRow, FileRow};
use skills_registry::{RegistryError, VersionHeads};

/// Most rows of one listing. An endless listing would fill the memory.
const MAX_ROWS: usize = 1_000_000;
/// Most bytes of all pages of one listing.
const MAX_LISTING_BYTES: usize = 256 << 20;
/// Longest title, description or reason, in characters.
const MAX_TEXT_CHARS: usize = 1024;
/// Longest path of a live client's skill, in bytes.
const MAX_LIVE_PATH_BYTES: usize = 4096;

/// Parsed row of a skill.
pub(super) struct ListedSkill {
    pub(super) id: Arc<str>,
    pub(super) tier: Tier,
    pub(super) meta: SkillMeta,
    pub(super) registered_at: Timestamp,
    pub(super) corrupt: Option<String>,
    pub(super) is_live: bool,
    /// Version numbers; `None` in a registry without history. The labels are not listed.
    pub(super) heads: Option<VersionHeads>,
}

/// Parses the row of a skill.
pub(super) fn parse_skill(row: CatalogRow) -> Result<ListedSkill, String> {
    let CatalogRow { id, tier, registered_at, .. } = row;
    let is_live = row.live.is_some();
    if is_live {
        check_live_id(&id).map_err(|error| error.to_string())?
    } else {
        check_skill_id(&id)?
    }
    let files = parse_files(row.files)?;
    let (heading, first_paragraph) = (row.title.map(truncate), row.description.map(truncate));
    let agent = row.agent.filter(|agent| agent.bytes() <= MAX_AGENT_SKILL_BYTES);
    let tool = row.tool.filter(|tool| tool.bytes() <= MAX_TOOL_BYTES);
    let provenance = row.source.and_then(|source| source.check().ok()).map(Box::new);
    let meta = SkillMeta {
        heading,
        first_paragraph,
        files,
        agent,
        tool,
        provenance,
        ..SkillMeta::default()
    };
    let registered_at = parse_time(&registered_at);
    let corrupt = row.corrupt.map(truncate);
    let heads = row.version.map(|served| VersionHeads {
        served,
        latest: row.latest.unwrap_or(served),
        labels: Arc::default(),
    });
    Ok(ListedSkill { id: id.into(), tier, meta, registered_at, corrupt, is_live, heads })
}

/// Truncates a text for listings.
pub(super) fn truncate(mut text: String) -> String {
    let end = first_chars(&text, MAX_TEXT_CHARS).len();
    text.truncate(end);
    text
}

/// Parses the files of a skill. Refuses more or larger files than a bundle may have before anything is read.
fn parse_files(rows: Vec<FileRow>) -> Result<Vec<FileMeta>, String> {
    let count = rows.len();
    if count > MAX_BUNDLE_FILES {
        return Err(RuleError::TooManyFiles { files: count, max: MAX_BUNDLE_FILES }.to_string());
    }
    let files = rows.into_iter().map(parse_file).collect::<Result<Vec<_>, _>>()?;
    let bytes = files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.size));
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    if bytes > MAX_BUNDLE_BYTES {
        return Err(RuleError::BundleTooLarge { bytes, max: MAX_BUNDLE_BYTES }.to_string());
    }
    let mut paths = HashSet::new();
    match files.iter().find(|file| !paths.insert(file.path.as_str())) {
        Some(file) => Err(format!("{} is listed twice", file.path)),
        None => Ok(files),
    }
}

/// Checks the id of a stored skill.
pub(super) fn check_skill_id(id: &str) -> Result<(), String> {
    id.parse::<SkillId>().map(drop).map_err(|error| error.to_string())
}

/// Checks the name of a prompt.
pub(super) fn check_prompt_name(name: &str) -> Result<(), String> {
    name.parse::<PromptName>().map(drop).map_err(|error| error.to_string())
}

/// Returns whether an id is valid for a stored or a live skill.
pub(super) fn is_skill_id(id: &str) -> bool {
    check_skill_id(id).is_ok() || check_live_id(id).is_ok()
}

/// Checks the id of a live client's skill: the client and a path, whose segments are names.
fn check_live_id(id: &str) -> Result<(), RuleError> {
    let invalid = |reason| {
        let path = first_chars(id, MAX_QUOTED_CHARS).to_owned();
        RuleError::Path { path, reason }
    };
    if id.len() > MAX_LIVE_PATH_BYTES {
        return Err(invalid("is too long"));
    }
    match format!("{SCHEME}{id}").parse()? {
        ResourceUri::Path { path, .. } => {
            path.split('/').try_for_each(|name| BundlePath::from_stored(name).map(drop))
        }
        _ => Err(invalid("is not the id of a live skill")),
    }
}

/// Parses a file of a skill. Its path stays inside the bundle; writers of disks apply further rules.
fn parse_file(row: FileRow) -> Result<FileMeta, String> {
    let path = BundlePath::from_stored(&row.path).map_err(|error| error.to_string())?;
    let digest = row.digest.strip_prefix("sha256:").and_then(|digits| digits.parse().ok());
    let digest = digest.ok_or_else(|| format!("the digest of {path} is invalid"))?;
    Ok(FileMeta { path: path.to_string(), digest, size: row.size, executable: row.executable })
}

/// Parses a time. Times in other formats of other implementations become the epoch.
pub(super) fn parse_time(text: &str) -> Timestamp {
    text.parse().unwrap_or(Timestamp::from_micros(0))
}

/// Rows and bytes of one listing so far, to refuse an endless one.
#[derive(Debug, Default)]
pub(super) struct ListingSize {
    rows: usize,
    bytes: usize,
}

impl ListingSize {
    /// Adds the text of a page before it is parsed.
    pub(super) fn add_bytes(&mut self, bytes: usize) -> Result<(), RegistryError> {
        self.bytes = self.bytes.saturating_add(bytes);
        check_limit(self.bytes, MAX_LISTING_BYTES, "bytes")
    }

    /// Adds the rows of a page. An empty page counts as one row.
    pub(super) fn add_rows(&mut self, rows: usize) -> Result<(), RegistryError> {
        self.rows = self.rows.saturating_add(rows.max(1));
        check_limit(self.rows, MAX_ROWS, "skills")
    }
}

fn check_limit(count: usize, max: usize, unit: &str) -> Result<(), RegistryError> {
    if count <= max {
        return Ok(());
    }
    Err(RegistryError::unexpected_answer(format!("the registry lists more than {max} {unit}")))
}

/// Returns a valid media type, since it ends up in headers and on terminals.
pub(super) fn media_type(text: String) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "!#$&^_.+-/;= \"".contains(c);
    let is_one = text.len() <= 255 && text.contains('/') && text.chars().all(is_plain);
    if is_one { text } else { "application/octet-stream".to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parse(id: &str, path: &str, live: Value) -> Result<ListedSkill, String> {
        let digest = format!("sha256:{}", skills_core::Digest::of(b""));
        let row = json!({
            "id": id, "registered_at": "", "live": live,
            "files": [{ "path": path, "size": 0, "digest": digest }],
        });
        parse_skill(serde_json::from_value(row).unwrap())
    }

    #[test]
    fn rows_with_hostile_ids_or_paths_are_dropped() {
        for id in ["../../../../home/.ssh2", "/etc/x", "a/../b", "..", "", "A", "a b", "skills"] {
            assert!(parse(id, "SKILL.md", Value::Null).is_err(), "{id}");
            assert!(!is_skill_id(id), "{id}");
        }
        for path in ["../x", "/etc/x", "a/../x", "..", "a\\b", ""] {
            assert!(parse("a", path, Value::Null).is_err(), "{path}");
        }
        assert!(parse("a", ".git/config", Value::Null).is_ok(), "it is read, and not written");
        let mut row: CatalogRow = serde_json::from_value(json!({
            "id": "a", "registered_at": "", "files": [{ "path": "x", "size": 0, "digest": "md5:0" }],
        }))
        .unwrap();
        assert!(parse_skill(row).is_err_and(|reason| reason.contains("digest")));
        row =
            serde_json::from_value(json!({ "id": "a", "registered_at": "", "files": [] })).unwrap();
        assert!(parse_skill(row).is_ok());
    }

    #[test]
    fn the_id_of_a_live_skill_is_a_client_and_a_path() {
        for id in ["desk/skill.md", "desk/team/review/SKILL.md"] {
            assert!(parse(id, "SKILL.md", json!("desk")).is_ok(), "{id}");
            assert!(is_skill_id(id), "{id}");
        }
        for id in ["desk", "desk/../x", "../x/skill.md", "desk//skill.md", "desk/a\u{1b}b/skill.md"]
        {
            assert!(parse(id, "SKILL.md", json!("desk")).is_err(), "{id}");
        }
    }

    #[test]
    fn a_provenance_that_would_run_a_program_is_dropped() {
        let parse = |source: Value| {
            let row = json!({ "id": "a", "registered_at": "", "files": [], "source": source });
            parse_skill(serde_json::from_value(row).unwrap()).ok().unwrap().meta.provenance
        };
        assert!(parse(json!({ "kind": "git", "location": "https://example.com/a" })).is_some());
        for source in [
            json!({ "kind": "git", "location": "ext::sh -c touch% /tmp/x x://y" }),
            json!({ "kind": "git", "location": "https://example.com/a", "ref": "--upload-pack=x" }),
            json!({ "kind": "url", "location": "file:///etc/passwd" }),
        ] {
            assert!(parse(source.clone()).is_none(), "{source}");
        }
    }

    fn with_files(sizes: impl Iterator<Item = (String, u64)>) -> Result<ListedSkill, String> {
        let digest = format!("sha256:{}", skills_core::Digest::of(b""));
        let file = |(path, size)| json!({ "path": path, "size": size, "digest": digest });
        let files: Vec<Value> = sizes.map(file).collect();
        let row = json!({ "id": "a", "registered_at": "", "files": files });
        parse_skill(serde_json::from_value(row).unwrap())
    }

    #[test]
    fn rows_beyond_the_limits_of_bundles_are_dropped() {
        let many = |count| with_files((0..count).map(|number| (format!("f{number}"), 1)));
        assert!(many(MAX_BUNDLE_FILES).is_ok());
        assert!(many(MAX_BUNDLE_FILES + 1).is_err());
        let two = |one: &str, other: &str, size| {
            with_files([(one.to_owned(), 1), (other.to_owned(), size)].into_iter())
        };
        assert!(two("a", "b", MAX_BUNDLE_BYTES as u64 - 1).is_ok());
        for size in [MAX_BUNDLE_BYTES as u64, u64::MAX] {
            assert!(two("a", "b", size).is_err(), "{size}");
        }
        assert!(two("a", "a", 1).is_err_and(|reason| reason.contains("twice")));
    }

    #[test]
    fn texts_and_listings_are_limited() {
        let long = json!({
            "id": "a", "registered_at": "", "files": [],
            "title": "\u{e9}".repeat(5000), "description": "d".repeat(5000), "corrupt": "c".repeat(5000),
        });
        let listed = parse_skill(serde_json::from_value(long).unwrap()).ok().unwrap();
        for text in [listed.meta.heading, listed.meta.first_paragraph, listed.corrupt] {
            assert_eq!(text.unwrap().chars().count(), MAX_TEXT_CHARS);
        }
        let mut size = ListingSize::default();
        assert!(size.add_bytes(MAX_LISTING_BYTES).is_ok() && size.add_bytes(1).is_err());
        assert!(size.add_rows(MAX_ROWS).is_ok() && size.add_rows(0).is_err());
    }

    #[test]
    fn an_invalid_media_type_becomes_octet_stream() {
        assert_eq!(
            media_type("text/markdown; charset=utf-8".into()),
            "text/markdown; charset=utf-8"
        );
        for text in ["text/html\r\nx: y", "\u{1b}]0;t/\u{7}", "text", ""] {
            assert_eq!(media_type(text.into()), "application/octet-stream", "{text:?}");
        }
    }
}
