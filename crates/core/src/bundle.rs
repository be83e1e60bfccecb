//! Bundles: skills of several files, and what makes one acceptable.

use std::{collections::HashMap, fmt, str::FromStr, sync::Arc};

use icu_normalizer::ComposingNormalizerBorrowed;

use crate::{
    AgentSkill, Digest, FileMeta, RuleError, SkillMeta,
    limits::{MAX_BUNDLE_BYTES, MAX_BUNDLE_FILES, MAX_PATH_BYTES},
    skill::ROOT_PATH,
};

/// How much of a refused path an error repeats.
const QUOTED_CHARS: usize = 120;

/// Where a file stands inside a bundle: relative, with forward slashes, and the same on every system.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BundlePath(Arc<str>);

impl BundlePath {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BundlePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for BundlePath {
    type Err = RuleError;

    fn from_str(path: &str) -> Result<Self, RuleError> {
        let refused = |reason| {
            let path = path.chars().take(QUOTED_CHARS).collect();
            Err(RuleError::Path { path, reason })
        };
        if path.is_empty() {
            return refused("is empty");
        }
        if path.len() > MAX_PATH_BYTES {
            return refused("is too long");
        }
        // A drive letter is a root too.
        if path.starts_with('/') || matches!(path.as_bytes(), [_, b':', b'/' | b'\\', ..]) {
            return refused("is absolute");
        }
        if path.contains('\\') {
            return refused("has a backslash");
        }
        if path.chars().any(char::is_control) {
            return refused("has a control character");
        }
        for segment in path.split('/') {
            match segment {
                "" => return refused("has an empty segment"),
                "." | ".." => return refused("has a segment that is a way, not a name"),
                _ => {}
            }
        }
        Ok(Self(path.into()))
    }
}

/// A skill of one or more files, checked as a whole. The root document is text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle<B> {
    meta: SkillMeta,
    root: String,
    files: Vec<(BundlePath, B)>,
}

impl<B: AsRef<[u8]>> Bundle<B> {
    /// A bundle of a root document and other files.
    ///
    /// # Errors
    /// The first rule that is broken, with the path it is about.
    pub fn new(root: String, files: Vec<(BundlePath, B)>) -> Result<Self, RuleError> {
        let meta = SkillMeta::of_document(&root)?;
        Self::of_parts(meta, root, files)
    }

    /// The same with a root document that was looked into before, and what it said of itself as an Agent Skill: without
    /// a name if it gave none.
    ///
    /// # Errors
    /// The first rule that is broken, with the path it is about.
    pub fn examined(
        root: String,
        agent: Option<AgentSkill>,
        files: Vec<(BundlePath, B)>,
    ) -> Result<Self, RuleError> {
        let meta = SkillMeta::examined(&root, || agent)?;
        Self::of_parts(meta, root, files)
    }

    fn of_parts(
        mut meta: SkillMeta,
        root: String,
        mut files: Vec<(BundlePath, B)>,
    ) -> Result<Self, RuleError> {
        if files.len() >= MAX_BUNDLE_FILES {
            return Err(RuleError::TooManyFiles { files: files.len() + 1, max: MAX_BUNDLE_FILES });
        }
        let bytes = files.iter().fold(root.len(), |sum, (_, bytes)| sum + bytes.as_ref().len());
        if bytes > MAX_BUNDLE_BYTES {
            return Err(RuleError::BundleTooLarge { bytes, max: MAX_BUNDLE_BYTES });
        }
        files.sort_by(|(one, _), (other, _)| one.cmp(other));
        distinct(files.iter().map(|(path, _)| path.as_str()))?;
        meta.files.extend(files.iter().map(|(path, bytes)| FileMeta {
            path: path.to_string(),
            digest: Digest::of(bytes.as_ref()),
            size: bytes.as_ref().len() as u64,
        }));
        Ok(Self { meta, root, files })
    }

    /// What is known of it without its bytes.
    pub const fn meta(&self) -> &SkillMeta {
        &self.meta
    }

    /// The root document.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The other files, sorted by path.
    pub fn files(&self) -> impl Iterator<Item = (&BundlePath, &[u8])> {
        self.files.iter().map(|(path, bytes)| (path, bytes.as_ref()))
    }

    /// Metadata, the root document, and the other files by path.
    pub fn into_parts(self) -> (SkillMeta, String, Vec<(BundlePath, B)>) {
        (self.meta, self.root, self.files)
    }
}

/// No two paths may be the same on any file system, and none a folder of another.
fn distinct<'a>(paths: impl Iterator<Item = &'a str>) -> Result<(), RuleError> {
    // Each file and each folder, as some file systems see it, with its own spelling.
    let mut seen: HashMap<String, (&str, bool)> = HashMap::new();
    for path in std::iter::once(ROOT_PATH).chain(paths) {
        let folders = path.match_indices('/').map(|(at, _)| (&path[..at], false));
        for (spelled, is_file) in folders.chain([(path, true)]) {
            let (known, known_is_file) = *seen.entry(folded(spelled)).or_insert((spelled, is_file));
            let is_same_folder = known == spelled && !known_is_file && !is_file;
            if !is_same_folder && !std::ptr::eq(known, spelled) {
                let (one, other) = (known.to_owned(), path.to_owned());
                return Err(RuleError::PathCollision { one, other });
            }
        }
    }
    Ok(())
}

/// What a path has in common with those that some file systems take for the same.
fn folded(path: &str) -> String {
    let nfc = ComposingNormalizerBorrowed::new_nfc();
    nfc.normalize(&nfc.normalize(path).to_lowercase()).into_owned()
}

/// The media type of a file, by the ending of its name.
#[must_use]
pub fn media_type(path: &str) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or(path);
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    match ending.as_deref().unwrap_or_default() {
        "md" | "markdown" => "text/markdown",
        "json" => "application/json",
        "yaml" | "yml" => "application/yaml",
        "toml" => "application/toml",
        "xml" => "application/xml",
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "csv" => "text/csv",
        "js" | "mjs" | "cjs" => "text/javascript",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        "zip" => "application/zip",
        "gz" | "tgz" => "application/gzip",
        "wasm" => "application/wasm",
        "txt" | "py" | "sh" | "bash" | "rs" | "ts" | "tsx" | "rb" | "go" | "java" | "c" | "h"
        | "sql" | "ini" | "cfg" | "log" => "text/plain",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn paths(paths: &[&str]) -> Result<Vec<String>, String> {
        let parse = |path: &&str| path.parse::<BundlePath>().map(|path| (path, vec![0]));
        let files = paths.iter().map(parse).collect::<Result<Vec<_>, _>>();
        let bundle = files.and_then(|files| Bundle::new("# A".to_owned(), files));
        let paths = |bundle: Bundle<Vec<u8>>| bundle.meta.files.into_iter().map(|file| file.path);
        bundle.map(|bundle| paths(bundle).collect()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_root_first_and_the_rest_sorted() {
        let found = paths(&["scripts/run.sh", "a/b/c.md", "README.md"]).unwrap();
        assert_eq!(found, ["SKILL.md", "README.md", "a/b/c.md", "scripts/run.sh"]);
    }

    #[test]
    fn refused_with_the_path_named() {
        for (given, words) in [
            (&["../x"] as &[&str], "is a way"),
            (&["a/../../x"], "is a way"),
            (&["./x"], "is a way"),
            (&["/etc/passwd"], "is absolute"),
            (&["C:/x"], "is absolute"),
            (&["a\\b"], "backslash"),
            (&["a\0b"], "control character"),
            (&["a//b"], "empty segment"),
            (&["a/"], "empty segment"),
            (&[""], "is empty"),
            (&["a.md", "A.md"], "\"A.md\" and \"a.md\""),
            (&["skill.md"], "\"SKILL.md\" and \"skill.md\""),
            (&["SKILL.md"], "\"SKILL.md\" and \"SKILL.md\""),
            (&["caf\u{e9}", "cafe\u{301}"], "cannot stand side by side"),
            (&["a", "a/b"], "cannot stand side by side"),
            (&["Dir/a", "dir/b"], "cannot stand side by side"),
        ] {
            let error = paths(given).expect_err(words);
            assert!(error.contains(words), "{given:?}: {error}");
        }
    }

    #[test]
    fn bounded() {
        let many: Vec<String> = (0..MAX_BUNDLE_FILES).map(|number| format!("f{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(paths(&many[1..]).is_ok());
        assert!(paths(&many).expect_err("too many").contains("513 files"));
        let big = vec![("x".parse().unwrap(), vec![0; MAX_BUNDLE_BYTES - 2])];
        let error = Bundle::new("# A".to_owned(), big).expect_err("too large").to_string();
        assert!(error.contains("bundle too large"), "{error}");
    }

    proptest! {
        #[test]
        fn never_panics_and_prints_as_it_was(path in "\\PC{0,40}") {
            if let Ok(parsed) = path.parse::<BundlePath>() {
                prop_assert_eq!(parsed.to_string(), path);
            }
        }
    }
}
