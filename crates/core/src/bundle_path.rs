//! Paths inside a bundle, and the names that files and folders may have on every system.
//!
//! Two rules, in this order: a path stays inside its folder, and each of its names can be written on every file system
//! and has no meaning to a tool that finds it there. New content obeys both. Content that an earlier version accepted
//! may break the second: it is read ([`BundlePath::from_stored`]) and never written to a disk again.

use std::{collections::HashMap, fmt, str::FromStr, sync::Arc};

use icu_normalizer::ComposingNormalizerBorrowed;
use icu_properties::{
    CodePointSetData,
    props::{BidiControl, DefaultIgnorableCodePoint},
};

use crate::{
    RuleError,
    limits::{MAX_NAME_BYTES, MAX_PATH_BYTES},
    text::{MAX_QUOTED_CHARS, first_chars},
};

/// Characters that Windows does not allow in a name. Backslashes and control characters are refused before.
const WINDOWS_CHARACTERS: [char; 7] = ['<', '>', ':', '"', '|', '?', '*'];

/// Names that open a device on Windows, with any ending and in any folder. `com` and `lpt` need a digit.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];
const NUMBERED_DEVICES: [&str; 2] = ["com", "lpt"];

/// Names under which git looks for a repository, whose configuration runs commands. The second is the short name that
/// Windows gives to the first.
const GIT_NAMES: [&str; 2] = [".git", "git~1"];

/// Names that git reads in every folder of a repository. Attributes change the bytes of a checkout. A file of these names that
/// git finds faulty makes a checked clone of the whole repository fail, and what is faulty differs between its versions.
const GIT_FILES: [GitFile; 2] = [
    GitFile { name: ".gitattributes", short: "gitatt", hashed: "gi7d29" },
    GitFile { name: ".gitmodules", short: "gitmod", hashed: "gi7eba" },
];

/// File that git reads, with the first characters of the short names that Windows may give to it.
struct GitFile {
    name: &'static str,
    /// Followed by `~` and a digit from 1 to 4.
    short: &'static str,
    /// Of which some are followed by `~` and digits, eight characters in all.
    hashed: &'static str,
}

impl GitFile {
    /// Returns whether some file system opens this file by a folded name.
    fn is_opened_by(&self, name: &str) -> bool {
        let is_short = |(start, number): (&str, &str)| {
            let has_digits = number.bytes().all(|byte| byte.is_ascii_digit());
            let is_first = start == self.short && matches!(number, "1" | "2" | "3" | "4");
            let is_hashed = name.len() == 8 && self.hashed.starts_with(start) && has_digits;
            is_first || is_hashed
        };
        name == self.name || name.split_once('~').is_some_and(is_short)
    }
}

/// Path of a file inside a bundle: relative, with forward slashes, and the same on every system.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BundlePath(Arc<str>);

impl BundlePath {
    /// Returns the path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses the path of content that was stored before names were checked. The path stays inside its folder;
    /// `parse` decides whether it can be written to a disk.
    ///
    /// # Errors
    /// When it could lead out of a folder.
    pub fn from_stored(path: &str) -> Result<Self, RuleError> {
        match path_fault(path) {
            Some(reason) => Err(refusal(path, reason)),
            None => Ok(Self(path.into())),
        }
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
        let parsed = Self::from_stored(path)?;
        match path.split('/').find_map(name_fault) {
            Some(reason) => Err(refusal(path, reason)),
            None => Ok(parsed),
        }
    }
}

/// Checks that every system accepts a name for a file or a folder.
///
/// # Errors
/// The reason why it cannot.
pub fn check_name(name: &str) -> Result<(), RuleError> {
    if name.contains('/') {
        return Err(refusal(name, "has a slash"));
    }
    name.parse::<BundlePath>().map(drop)
}

/// Finds files that make their folder a bare git repository. Git detects it in place and runs commands from its
/// configuration, as it does for `.git`.
pub fn repository_heads<'a>(paths: impl Iterator<Item = &'a str> + Clone) -> Vec<&'a str> {
    let mut folders = HeadFolders::default();
    let heads: Vec<(&str, usize)> = paths
        .clone()
        .filter_map(|path| {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            (fold(name) == "head").then(|| (path, folders.add(folder)))
        })
        .collect();
    if !heads.is_empty() {
        paths.for_each(|path| folders.look_into(path));
    }
    let is_repository = |(_, folder): &(&str, usize)| folders.nodes[*folder].is_repository();
    heads.into_iter().filter(is_repository).map(|(path, _)| path).collect()
}

/// Tree of the folders that have a file named `HEAD`. Each path is looked at once, however many of them it is in.
#[derive(Debug)]
struct HeadFolders<'a> {
    /// Folders by the folder around them and their name. The root is the first.
    inside: HashMap<(usize, &'a str), usize>,
    nodes: Vec<HeadFolder>,
}

/// What a folder has of a repository.
#[derive(Debug, Default)]
struct HeadFolder {
    has_head: bool,
    has_commondir: bool,
    has_objects: bool,
    has_refs: bool,
}

impl HeadFolder {
    const fn is_repository(&self) -> bool {
        self.has_commondir || (self.has_objects && self.has_refs)
    }
}

impl Default for HeadFolders<'_> {
    fn default() -> Self {
        Self { inside: HashMap::new(), nodes: vec![HeadFolder::default()] }
    }
}

impl<'a> HeadFolders<'a> {
    /// Adds a folder with a `HEAD`.
    fn add(&mut self, folder: &'a str) -> usize {
        let mut node = 0;
        for name in folder.split('/').filter(|name| !name.is_empty()) {
            let next = self.nodes.len();
            node = *self.inside.entry((node, name)).or_insert(next);
            if node == next {
                self.nodes.push(HeadFolder::default());
            }
        }
        self.nodes[node].has_head = true;
        node
    }

    /// Notes what a path says about the folders that it is in.
    fn look_into(&mut self, path: &'a str) {
        let (mut node, mut names) = (Some(0), path.split('/').peekable());
        while let (Some(folder), Some(name)) = (node, names.next()) {
            let is_folder = names.peek().is_some();
            let found = &mut self.nodes[folder];
            if found.has_head {
                match (&*fold(name), is_folder) {
                    ("commondir", false) => found.has_commondir = true,
                    ("objects", true) => found.has_objects = true,
                    ("refs", true) => found.has_refs = true,
                    _ => {}
                }
            }
            node = self.inside.get(&(folder, name)).copied();
        }
    }
}

/// Returns whether a file is below or at a name that git reads in a repository: `.gitattributes` or `.gitmodules`, in any
/// spelling that some file system opens. Such files are content of a bundle, and no part of a repository that is made of it.
#[must_use]
pub fn is_read_by_git(path: &str) -> bool {
    path.split('/').any(|name| {
        let folded = fold(name);
        // As for `.git`, compatibility forms of separators end a name.
        folded.split(['/', '\\', ':']).any(|part| {
            let part = part.trim_end_matches(['.', ' ']);
            GIT_FILES.iter().any(|file| file.is_opened_by(part))
        })
    })
}

/// Reason why a [repository's head](repository_heads) is refused.
pub const REPOSITORY_HEAD: &str = "makes its folder a git repository";

fn refusal(path: &str, reason: &'static str) -> RuleError {
    RuleError::Path { path: first_chars(path, MAX_QUOTED_CHARS).to_owned(), reason }
}

/// Returns why a path could lead out of its folder, or mean something else on another system.
fn path_fault(path: &str) -> Option<&'static str> {
    if path.is_empty() {
        return Some("is empty");
    }
    if path.len() > MAX_PATH_BYTES {
        return Some("is too long");
    }
    // A drive letter is a root too.
    if path.starts_with('/') || matches!(path.as_bytes(), [_, b':', b'/' | b'\\', ..]) {
        return Some("is absolute");
    }
    if path.contains('\\') {
        return Some("has a backslash");
    }
    if path.chars().any(char::is_control) {
        return Some("has a control character");
    }
    path.split('/').find_map(|segment| match segment {
        "" => Some("has an empty segment"),
        "." | ".." => Some("has a segment that is a way, not a name"),
        _ => None,
    })
}

/// Returns why a name cannot exist on every disk. Characters are checked as written, reserved names after
/// [folding](fold), since some file systems treat different spellings as equal.
fn name_fault(name: &str) -> Option<&'static str> {
    let folded = fold(name);
    // Compatibility forms of separators, which a file system may normalize to separators.
    for part in folded.split(['/', '\\', ':']).filter(|part| !part.is_empty()) {
        let part = part.trim_end_matches(['.', ' ']);
        if part.is_empty() {
            return Some("has a segment that is a way, not a name");
        }
        if GIT_NAMES.contains(&part) {
            return Some("has a name that stands for .git");
        }
        if is_device(part) {
            return Some("has the name of a device on Windows");
        }
    }
    if name.len() > MAX_NAME_BYTES {
        return Some("has a name of more than 255 bytes");
    }
    if name.contains(WINDOWS_CHARACTERS) {
        return Some("has a character that Windows does not allow: one of < > : \" | ? *");
    }
    if name.ends_with(['.', ' ']) {
        return Some("has a name that ends with a dot or a space, which Windows drops");
    }
    let bidi = CodePointSetData::new::<BidiControl>();
    name.chars().any(|c| bidi.contains(c)).then_some("has a character that reorders text")
}

/// Folds a name as the most lenient file systems do: case, compatibility forms, invisible characters.
fn fold(name: &str) -> String {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    let nfkc = ComposingNormalizerBorrowed::new_nfkc();
    let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>();
    // By way of upper case, which also has letters in common that have no common lower case.
    let cased = nfkc.normalize(name).to_uppercase().to_lowercase();
    let visible: String = cased.chars().filter(|c| !ignorable.contains(*c)).collect();
    nfkc.normalize(&visible).into_owned()
}

/// Returns whether a folded name opens a device. Everything after the first dot is ignored.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name).trim_end_matches(' ');
    let is_numbered = |device: &&str| {
        let digit = stem.strip_prefix(*device).map(str::as_bytes);
        matches!(digit, Some([b'1'..=b'9']))
    };
    DEVICES.contains(&stem) || NUMBERED_DEVICES.iter().any(is_numbered)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(path: &str) -> String {
        path.parse::<BundlePath>().expect_err(path).to_string()
    }

    #[test]
    fn every_spelling_of_git_is_refused() {
        for path in [
            ".git",
            ".git/config",
            "a/.git/config",
            ".GIT/config",
            ".Git",
            ".git.",
            ".git /config",
            ".git. . ",
            "git~1/config",
            "GIT~1",
            ".g\u{200c}it/config",
            "\u{feff}.git",
            ".gi\u{ad}t",
            "\u{ff0e}git",
            "\u{2024}git",
            ".\u{ff27}\u{ff29}\u{ff34}",
            ".g\u{131}t",
            ".git::$INDEX_ALLOCATION/config",
            ".git\u{ff1a}x",
            "a\u{ff0f}.git",
        ] {
            assert!(refused(path).contains("stands for .git"), "{path:?}: {}", refused(path));
        }
    }

    #[test]
    fn names_that_windows_cannot_have_are_refused() {
        for path in [
            "CON",
            "nul.txt",
            "a/Aux/b",
            "prn.tar.gz",
            "com1",
            "LPT9.md",
            "COM\u{b9}",
            "lpt\u{b3}.txt",
            "nul .txt",
            "con.",
            "CONIN$",
            "c\u{200b}on",
            "\u{ff43}on",
        ] {
            assert!(refused(path).contains("device"), "{path:?}: {}", refused(path));
        }
        for path in ["a:b", "a::b", "what?.md", "*.md", "a<b", "a>b", "a|b", "\"a\""] {
            assert!(refused(path).contains("Windows does not allow"), "{path:?}");
        }
        for path in ["a.", "a /b", "dir./x"] {
            assert!(refused(path).contains("ends with a dot or a space"), "{path:?}");
        }
    }

    #[test]
    fn bidi_controls_long_names_and_disguised_dots_are_refused() {
        for path in ["a\u{202e}dm.exe", "\u{2066}a", "a\u{200f}b", "a/\u{61c}b"] {
            assert!(refused(path).contains("reorders text"), "{path:?}");
        }
        assert!("x".repeat(255).parse::<BundlePath>().is_ok());
        assert!(refused(&"x".repeat(256)).contains("more than 255 bytes"));
        assert!(refused(&format!("a/{}", "é".repeat(128))).contains("more than 255 bytes"));
        for path in ["...", "\u{ff0e}\u{ff0e}", "\u{2025}/x", "\u{ff0e}\u{ff0e}\u{ff0f}x"] {
            assert!(refused(path).contains("is a way"), "{path:?}");
        }
    }

    #[test]
    fn ordinary_names_are_accepted() {
        for path in [
            ".gitignore",
            ".gitattributes",
            ".github/workflows/ci.yml",
            "git",
            "agit~1",
            "git~10",
            "console.md",
            "com10",
            "com0",
            "lpt",
            "auxiliary/nullable.txt",
            "null",
            "x.con",
            "a b.md",
            "#1 (draft) [x] {y} & z; 100%.md",
            "caf\u{e9}.md",
            "标题：副标题？.md",
            "TCP／IP.md",
            "What next…",
            "👩‍💻.md",
            "می‌خواهم.md",
        ] {
            assert_eq!(
                path.parse::<BundlePath>().map(|path| path.to_string()),
                Ok(path.to_owned()),
                "{path:?}"
            );
        }
    }

    #[test]
    fn stored_paths_need_only_stay_inside_their_folder() {
        for path in [".git/config", "CON", "a:b", "a\u{202e}b", &"x".repeat(300)] {
            assert!(BundlePath::from_stored(path).is_ok(), "{path}");
        }
        for path in ["../x", "a/../b", "..", "/etc/x", "C:/x", "a\\b", "a\0b", "a//b", ""] {
            assert!(BundlePath::from_stored(path).is_err(), "{path}");
        }
    }

    #[test]
    fn folders_that_git_takes_for_repositories_are_found() {
        let heads = |paths: &[&'static str]| repository_heads(paths.iter().copied());
        let bare = ["HEAD", "config", "objects/x", "refs/heads/main"];
        assert_eq!(heads(&bare), ["HEAD"]);
        assert_eq!(heads(&["a/Head", "a/OBJECTS/x", "a/refs/x"]), ["a/Head"]);
        assert_eq!(heads(&["a/b/HEAD", "a/b/commondir"]), ["a/b/HEAD"]);
        for paths in [
            &["HEAD", "objects/x"] as &[_],
            &["HEAD", "objects", "refs"],
            &["a/HEAD", "b/objects/x", "b/refs/x"],
            &["a/HEAD", "aobjects/x", "arefs/x"],
            &["HEAD.md", "objects/x", "refs/x"],
            &["docs/commondir"],
        ] {
            assert!(heads(paths).is_empty(), "{paths:?}");
        }
    }

    #[test]
    fn every_spelling_of_a_file_that_git_reads_is_found() {
        for path in [
            ".gitattributes",
            "a/.gitmodules",
            ".gitmodules/x",
            ".GitModules",
            ".gitmodules. .",
            ".gitattributes:stream",
            ".git\u{200c}modules",
            "\u{feff}.gitattributes",
            ".g\u{131}tmodules",
            "\u{ff0e}gitmodules",
            "GITMOD~1",
            "gitatt~4",
            "gi7eba~1",
            "GI7D29~9",
            "gi7e~123",
            "~1234567",
            "gitmod~2 .",
        ] {
            assert!(is_read_by_git(path), "{path:?}");
        }
        for path in [
            ".gitignore",
            ".mailmap",
            "gitmodules",
            ".gitmodules.md",
            "a.gitattributes",
            "gitmod~5",
            "gitmod~12",
            "gi7eba~12",
            "gi7ebb~1",
            "docs/gitattributes.md",
            "~",
        ] {
            assert!(!is_read_by_git(path), "{path:?}");
        }
    }

    #[test]
    fn a_name_is_one_segment() {
        assert!(check_name("pdf").is_ok());
        for name in ["a/b", "..", "con", ".git", "", "/"] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics_and_accepted_paths_are_unchanged(path in "\\PC{0,40}") {
            if let Ok(parsed) = path.parse::<BundlePath>() {
                prop_assert_eq!(parsed.to_string(), path);
            }
        }

        #[test]
        fn accepted_paths_do_not_fold_to_git(path in "[.gGiItT~1:\u{200c}\u{ff0e}\u{ff47} ]{0,8}") {
            if path.parse::<BundlePath>().is_ok() {
                let folded = fold(&path);
                prop_assert!(!GIT_NAMES.contains(&folded.trim_end_matches(['.', ' '])));
            }
        }
    }
}
