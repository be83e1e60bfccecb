//! Bundles: skills of several files, and the rules for them.

use std::collections::HashMap;

use icu_normalizer::ComposingNormalizerBorrowed;

use skills_core::{
    AgentSkill, BundlePath, Digest, FileMeta, Provenance, RuleError, SkillMeta,
    bundle_path::{REPOSITORY_HEAD, repository_heads},
    limits::{MAX_BUNDLE_BYTES, MAX_BUNDLE_FILES, MAX_DESCRIPTION_CHARS},
    skill::ROOT_PATH,
    text::ELLIPSIS,
};

use crate::{
    read_agent_skill,
    skill_meta::{skill_meta, skill_meta_with},
};

/// Skill of one or more files, checked as a whole. The root document is text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle<B> {
    meta: SkillMeta,
    root: String,
    files: Vec<(BundlePath, B)>,
}

impl<B: AsRef<[u8]>> Bundle<B> {
    /// Creates a bundle from a root document and other files.
    ///
    /// # Errors
    /// The first rule that is broken, with the path it is about.
    pub fn new(root: String, files: Vec<(BundlePath, B)>) -> Result<Self, RuleError> {
        let meta = skill_meta(&root)?;
        Self::from_parts(meta, root, files)
    }

    /// Creates a bundle whose root document was parsed before. `agent` holds its Agent Skill fields, with an empty
    /// name if it has none.
    ///
    /// # Errors
    /// The first rule that is broken, with the path it is about.
    pub fn with_agent_skill(
        root: String,
        agent: Option<AgentSkill>,
        files: Vec<(BundlePath, B)>,
    ) -> Result<Self, RuleError> {
        let meta = skill_meta_with(&root, || agent)?;
        Self::from_parts(meta, root, files)
    }

    fn from_parts(
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
        let paths = files.iter().map(|(path, _)| path.as_str());
        check_distinct(paths.clone())?;
        if let [head, ..] = repository_heads(paths)[..] {
            return Err(RuleError::Path { path: head.to_owned(), reason: REPOSITORY_HEAD });
        }
        meta.files.extend(files.iter().map(|(path, bytes)| FileMeta {
            path: path.to_string(),
            digest: Digest::of(bytes.as_ref()),
            size: bytes.as_ref().len() as u64,
            executable: None,
        }));
        Ok(Self { meta, root, files })
    }

    /// Sets the executable bits of the files beside the root document, which has none.
    #[must_use]
    pub fn with_executable(mut self, is_executable: impl Fn(&str) -> Option<bool>) -> Self {
        for file in self.meta.files.iter_mut().skip(1) {
            file.executable = is_executable(&file.path);
        }
        self
    }

    /// Sets the place that the bundle came from.
    #[must_use]
    pub fn with_provenance(mut self, provenance: Option<Box<Provenance>>) -> Self {
        self.meta.provenance = provenance;
        self
    }

    /// Sets the author's version, where a publisher names one apart from the root document.
    #[must_use]
    pub fn with_author_version(mut self, version: String) -> Self {
        self.meta.frontmatter_version = Some(version);
        self
    }

    /// Returns the metadata.
    pub const fn meta(&self) -> &SkillMeta {
        &self.meta
    }

    /// Returns the characters of a description in the frontmatter that is longer than the specification allows. The
    /// metadata has it truncated.
    #[must_use]
    pub fn truncated_description(&self) -> Option<usize> {
        self.meta.description().filter(|text| text.ends_with(ELLIPSIS))?;
        let agent = read_agent_skill(&self.root, Some("")).ok()?;
        Some(agent.description.chars().count()).filter(|count| *count > MAX_DESCRIPTION_CHARS)
    }

    /// Returns the root document.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Returns the other files with their metadata, sorted by path.
    pub fn files(&self) -> impl Iterator<Item = (&FileMeta, &[u8])> {
        let metas = self.meta.files.iter().skip(1);
        metas.zip(&self.files).map(|(meta, (_, bytes))| (meta, bytes.as_ref()))
    }

    /// Splits into metadata, root document and other files.
    pub fn into_parts(self) -> (SkillMeta, String, Vec<(BundlePath, B)>) {
        (self.meta, self.root, self.files)
    }
}

/// Checks that no two paths are equal on any file system, and that none is a folder of another.
fn check_distinct<'a>(paths: impl Iterator<Item = &'a str>) -> Result<(), RuleError> {
    // Tree of the files and folders, as some file systems see them, each with its own spelling. A name is folded once, also
    // in a path of many folders.
    let mut seen: HashMap<(usize, String), (usize, &str, bool)> = HashMap::new();
    for path in std::iter::once(ROOT_PATH).chain(paths) {
        let mut parent = 0;
        let folders = path.match_indices('/').map(|(at, _)| (&path[..at], false));
        for (spelled, is_file) in folders.chain([(path, true)]) {
            let name = spelled.rsplit('/').next().unwrap_or(spelled);
            let number = seen.len() + 1;
            let entry = seen.entry((parent, fold_name(name)));
            let (node, known, known_is_file) = *entry.or_insert((number, spelled, is_file));
            let is_same_folder = known == spelled && !known_is_file && !is_file;
            if !is_same_folder && !std::ptr::eq(known, spelled) {
                let (one, other) = (known.to_owned(), path.to_owned());
                return Err(RuleError::PathCollision { one, other });
            }
            parent = node;
        }
    }
    Ok(())
}

/// Folds a name as case-insensitive and normalising file systems do.
fn fold_name(name: &str) -> String {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    let nfc = ComposingNormalizerBorrowed::new_nfc();
    nfc.normalize(&nfc.normalize(name).to_lowercase()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(paths: &[&str]) -> Result<Vec<String>, String> {
        let parse = |path: &&str| path.parse::<BundlePath>().map(|path| (path, vec![0]));
        let files = paths.iter().map(parse).collect::<Result<Vec<_>, _>>();
        let bundle = files.and_then(|files| Bundle::new("# A".to_owned(), files));
        let paths = |bundle: Bundle<Vec<u8>>| bundle.meta.files.into_iter().map(|file| file.path);
        bundle.map(|bundle| paths(bundle).collect()).map_err(|error| error.to_string())
    }

    #[test]
    fn files_are_sorted_after_the_root_document() {
        let found = paths(&["scripts/run.sh", "a/b/c.md", "README.md"]).unwrap();
        assert_eq!(found, ["SKILL.md", "README.md", "a/b/c.md", "scripts/run.sh"]);
    }

    #[test]
    fn invalid_paths_are_refused_by_name() {
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
            (&["HEAD", "config", "objects/x", "refs/x"], "a git repository"),
        ] {
            let error = paths(given).expect_err(words);
            assert!(error.contains(words), "{given:?}: {error}");
        }
    }

    #[test]
    fn the_first_spelling_of_a_nested_folder_counts() {
        let deep = "a/".repeat(100);
        assert!(paths(&[&format!("{deep}x"), &format!("{deep}y"), "b/a/x"]).is_ok());
        let error = paths(&[&format!("{deep}x"), &format!("{}A/y", "a/".repeat(99))]);
        assert!(error.unwrap_err().contains("cannot stand side by side"));
        assert!(paths(&["a/b", "a/b/c"]).is_err() && paths(&["a/b", "b/a"]).is_ok());
    }

    #[test]
    fn bounded() {
        let many: Vec<String> = (0..MAX_BUNDLE_FILES).map(|number| format!("f{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(paths(&many[1..]).is_ok());
        assert!(
            paths(&many)
                .expect_err("too many")
                .contains(&format!("{} files", MAX_BUNDLE_FILES + 1))
        );
        let big = vec![("x".parse().unwrap(), vec![0; MAX_BUNDLE_BYTES - 2])];
        let error = Bundle::new("# A".to_owned(), big).expect_err("too large").to_string();
        assert!(error.contains("bundle too large"), "{error}");
    }
}
