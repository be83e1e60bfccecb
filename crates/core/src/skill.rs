//! Skill metadata as the catalog stores it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{
    AgentSkill, Digest, Provenance, ToolMeta,
    limits::{MAX_DESCRIPTION_CHARS, MAX_SUMMARY_CHARS},
    text::{one_line, truncate, truncate_within},
    version::is_author_version,
};

/// Path of a bundle's root document.
pub const ROOT_PATH: &str = "SKILL.md";

/// Last path segments under which a live client offers a skill.
pub const SKILL_LEAVES: [&str; 2] = ["skill.md", ROOT_PATH];

/// Returns whether the last segment of a path is one of [`SKILL_LEAVES`].
#[must_use]
pub fn has_skill_leaf(path: &str) -> bool {
    SKILL_LEAVES.contains(&path.rsplit('/').next().unwrap_or(path))
}

/// File of a bundle: its path and its content address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMeta {
    /// Path inside the bundle, with forward slashes.
    pub path: String,
    /// Content address.
    pub digest: Digest,
    /// Size in bytes.
    pub size: u64,
    /// Executable bit. `None` for content of earlier versions and of registries that do not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<bool>,
}

impl FileMeta {
    /// Returns whether a copy of the file should be executable. Without a stored bit, scripts are: files that begin
    /// with `#!`.
    #[must_use]
    pub fn is_executable(&self, bytes: &[u8]) -> bool {
        self.executable.unwrap_or_else(|| self.path != ROOT_PATH && bytes.starts_with(b"#!"))
    }
}

/// Metadata of a skill: everything that is known without reading a body.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SkillMeta {
    /// First H1 of the root document. Listings show [`title`](Self::title).
    #[serde(default, rename = "title", skip_serializing_if = "Option::is_none")]
    pub heading: Option<String>,
    /// First paragraph of the root document. Listings show [`description`](Self::description).
    #[serde(default, rename = "description", skip_serializing_if = "Option::is_none")]
    pub first_paragraph: Option<String>,
    /// Files of the bundle, the root document first.
    pub files: Vec<FileMeta>,
    /// Agent Skill fields of the root document, if it has them and they are small enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Box<AgentSkill>>,
    /// Metadata of the manifest, if the skill is a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Box<ToolMeta>>,
    /// Place that this version came from; unknown for content of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Box<Provenance>>,
    /// Version that a publisher named, or that of the frontmatter. [`author_version`](Self::author_version) also knows
    /// content of earlier releases.
    #[serde(default, rename = "author_version", skip_serializing_if = "Option::is_none")]
    pub frontmatter_version: Option<String>,
}

impl SkillMeta {
    /// Returns the title: the first H1, or the name in the frontmatter.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.heading.as_deref().or_else(|| {
            let name = self.agent.as_ref().map(|agent| agent.name.as_str())?;
            let is_title = !name.is_empty() && !name.contains(char::is_control);
            let end = name.char_indices().nth(MAX_SUMMARY_CHARS).map_or(name.len(), |(end, _)| end);
            is_title.then(|| &name[..end])
        })
    }

    /// Returns the description in one line: that of the frontmatter, or the first paragraph. A longer one than the
    /// specification of Agent Skills allows is truncated.
    #[must_use]
    pub fn description(&self) -> Option<Cow<'_, str>> {
        let agent = self.agent.as_ref().map(|agent| agent.description.as_str());
        let text = one_line(agent.or(self.first_paragraph.as_deref())?);
        Some(truncate_within(text, MAX_DESCRIPTION_CHARS)).filter(|text| !text.is_empty())
    }

    /// Returns the description as the iii contract and the Markdown index have it.
    #[must_use]
    pub fn short_description(&self) -> Option<Cow<'_, str>> {
        self.description().map(|text| truncate(text, MAX_SUMMARY_CHARS))
    }

    /// Returns the root document.
    #[must_use]
    pub fn root(&self) -> Option<&FileMeta> {
        self.files.first()
    }

    /// Returns the file at a path.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&FileMeta> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Returns the author's own version: `metadata.version` or `version` of the frontmatter.
    #[must_use]
    pub fn author_version(&self) -> Option<&str> {
        let metadata = || self.agent.as_ref()?.metadata.get("version").map(String::as_str);
        let version = self.frontmatter_version.as_deref().or_else(metadata)?;
        is_author_version(version).then_some(version)
    }

    /// Returns the content digest: SHA-256 over one line `path NUL hex-digest LF` per file, in byte order of the paths.
    /// The same files have the same digest on every server. A tool's manifest, which is not a file, is a line without
    /// a path.
    #[must_use]
    pub fn content_digest(&self) -> Digest {
        let files = self.files.iter().map(|file| (file.path.as_str(), file.digest));
        let manifest = self.tool.iter().map(|tool| ("", tool.source.digest));
        let mut lines: Vec<(&str, Digest)> = files.chain(manifest).collect();
        lines.sort_unstable_by_key(|(path, _)| *path);
        let text: String =
            lines.iter().map(|(path, digest)| format!("{path}\0{digest}\n")).collect();
        Digest::of(text.as_bytes())
    }

    /// Returns the size of all files and of a tool's manifest, in bytes.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        let manifest = self.tool.as_ref().map_or(0, |tool| tool.source.size);
        self.files.iter().map(|file| file.size).sum::<u64>() + manifest
    }

    /// Returns the digests of all blobs, each once.
    #[must_use]
    pub fn blob_digests(&self) -> Vec<Digest> {
        let manifest = self.tool.iter().map(|tool| tool.source.digest);
        let mut digests: Vec<_> =
            self.files.iter().map(|file| file.digest).chain(manifest).collect();
        digests.sort_unstable();
        digests.dedup();
        digests
    }

    /// Returns the digest that identifies this version of the bundle: the digest of the root document for a bundle of
    /// one file, otherwise the digest of the list of paths and digests. Executable bits and a tool's manifest are part
    /// of it.
    #[must_use]
    pub fn digest(&self) -> Digest {
        match (self.files.as_slice(), &self.tool) {
            ([only], None) => only.digest,
            (files, tool) => {
                let lines = files.iter().map(|FileMeta { path, digest, executable, .. }| {
                    // No path has a NUL.
                    let mode = if *executable == Some(true) { "\0x" } else { "" };
                    format!("{digest} {path}{mode}\n")
                });
                // No path is empty.
                let tool = tool.iter().map(|tool| format!("{} \n", tool.source.digest));
                Digest::of(lines.chain(tool).collect::<String>().as_bytes())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn meta(heading: Option<&str>, paragraph: Option<&str>, agent: Value) -> SkillMeta {
        let agent = serde_json::from_value(agent).unwrap();
        let (heading, first_paragraph) = (heading.map(Into::into), paragraph.map(Into::into));
        SkillMeta { heading, first_paragraph, agent, ..SkillMeta::default() }
    }

    #[test]
    fn the_title_is_the_heading_or_else_the_name() {
        let agent = |name: &str| json!({ "name": name, "description": "d" });
        assert_eq!(meta(Some("T"), None, agent("n")).title(), Some("T"));
        assert_eq!(meta(None, None, agent("n")).title(), Some("n"));
        for name in ["", "a\nb"] {
            assert_eq!(meta(None, None, agent(name)).title(), None, "{name:?}");
        }
        assert_eq!(meta(None, None, agent(&"é".repeat(200))).title(), Some(&*"é".repeat(140)));
        assert_eq!(meta(None, None, Value::Null).title(), None);
    }

    #[test]
    fn the_description_is_that_of_the_frontmatter_or_else_the_first_paragraph() {
        let agent = |text: &str| json!({ "name": "n", "description": text });
        let full = |meta: SkillMeta| meta.description().map(Cow::into_owned);
        assert_eq!(full(meta(None, Some("p"), agent("a\n  b"))).unwrap(), "a b");
        assert_eq!(full(meta(None, Some("p"), Value::Null)).unwrap(), "p");
        assert_eq!(full(meta(Some("T"), None, Value::Null)), None);
        let long = meta(None, None, agent(&"d".repeat(1025)));
        assert_eq!(long.description().unwrap(), format!("{}...", "d".repeat(1021)));
        assert_eq!(long.short_description().unwrap(), format!("{}...", "d".repeat(140)));
    }

    #[test]
    fn a_bundle_of_one_file_has_the_digest_of_its_document() {
        let file = |path: &str, bytes: &[u8]| FileMeta {
            path: path.to_owned(),
            digest: Digest::of(bytes),
            size: bytes.len() as u64,
            executable: None,
        };
        let mut meta = SkillMeta { files: vec![file(ROOT_PATH, b"# T")], ..SkillMeta::default() };
        assert_eq!(meta.digest(), Digest::of(b"# T"));
        meta.files.push(file("a.md", b"a"));
        assert_ne!(meta.digest(), Digest::of(b"# T"));
    }

    #[test]
    fn the_content_digest_is_that_of_the_sorted_list_of_files() {
        let file = |path: &str, bytes: &[u8]| FileMeta {
            path: path.to_owned(),
            digest: Digest::of(bytes),
            size: bytes.len() as u64,
            executable: None,
        };
        let of =
            |files: Vec<FileMeta>| SkillMeta { files, ..SkillMeta::default() }.content_digest();
        let root = Digest::of(b"# T");
        let line = format!("SKILL.md\0{root}\n");
        assert_eq!(of(vec![file(ROOT_PATH, b"# T")]), Digest::of(line.as_bytes()));
        let (upper, lower) = (Digest::of(b"A"), Digest::of(b"a"));
        let lines = format!("A.md\0{upper}\n{line}a.md\0{lower}\n");
        let files = vec![file(ROOT_PATH, b"# T"), file("a.md", b"a"), file("A.md", b"A")];
        assert_eq!(of(files), Digest::of(lines.as_bytes()));
    }

    /// The digest is the same on every server, so its input must not change. docs/versions.md has these examples.
    #[test]
    fn the_manifest_of_a_tool_is_a_line_without_a_path() {
        let body: &[u8] = b"# Weather\n";
        let file = FileMeta {
            path: ROOT_PATH.to_owned(),
            digest: Digest::of(body),
            size: body.len() as u64,
            executable: None,
        };
        let mut meta = SkillMeta { files: vec![file], ..SkillMeta::default() };
        assert_eq!(
            meta.content_digest().to_string(),
            "0e4dd26426ffe46016409851ccda42d4a28eb4eb8e6fc024ac0c05c5d249e032"
        );
        let manifest = r#"{"name":"weather"}"#;
        meta.tool = Some(Box::new(crate::ToolMeta {
            source: crate::tool::ManifestSource::new(manifest, "application/json").unwrap(),
            name: None,
            emoji: None,
            tags: vec![],
            description: None,
            parameters: json!({ "type": "object" }),
            credits_per_call: None,
        }));
        assert_eq!(
            meta.content_digest().to_string(),
            "a5832bb303b8b131639be347ca66963e919409e85ef566e75bfa1795a947d08a"
        );
    }

    #[test]
    fn the_executable_bit_is_part_of_the_version_only_where_it_is_set() {
        let file = |path: &str, executable| FileMeta {
            path: path.to_owned(),
            digest: Digest::of(b"#!/bin/sh"),
            size: 9,
            executable,
        };
        let meta = |bit| SkillMeta {
            files: vec![file(ROOT_PATH, None), file("run", bit)],
            ..SkillMeta::default()
        };
        assert_eq!(meta(None).digest(), meta(Some(false)).digest());
        assert_ne!(meta(None).digest(), meta(Some(true)).digest());
        for (bit, bytes, expected) in [
            (None, b"#!/bin/sh" as &[u8], true),
            (None, b"text", false),
            (Some(false), b"#!/bin/sh", false),
            (Some(true), b"text", true),
        ] {
            assert_eq!(file("run", bit).is_executable(bytes), expected, "{bit:?}");
        }
        assert!(!file(ROOT_PATH, None).is_executable(b"#! a document"));
    }
}
