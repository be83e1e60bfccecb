//! The hash by which a client knows which version a folder has: SHA-256 over `path:sha256` of each file, in the order of
//! `localeCompare`. Files and folders that begin with a dot do not count.

use skills_bundles::lock::sort_by_locale;
use skills_core::{Digest, skill::ROOT_PATH};
use skills_registry::{
    RegistryError, SkillRegistry, SkillRow, available::has_own_frontmatter,
    bundles::unwritable_files,
};

use super::wire::FileEntry;
use crate::skill_tree::read_file;

/// Returns the files of a version as clients get them.
pub(super) async fn served_files(
    skills: &dyn SkillRegistry,
    row: &SkillRow,
) -> Result<Vec<FileEntry>, RegistryError> {
    let unwritable: Vec<&str> = unwritable_files(&row.meta).map(|(path, _)| path).collect();
    let files = row.meta.files.iter().filter(|file| !unwritable.contains(&file.path.as_str()));
    let mut entries: Vec<FileEntry> = files
        .map(|file| FileEntry { path: file.path.clone(), size: file.size, sha256: file.digest })
        .collect();
    // A document without frontmatter is served with one.
    if !has_own_frontmatter(row)
        && let Some(root) = entries.iter_mut().find(|file| file.path == ROOT_PATH)
    {
        let bytes = read_file(skills, row, ROOT_PATH).await?;
        (root.size, root.sha256) = (bytes.len() as u64, Digest::of(&bytes));
    }
    Ok(entries)
}

/// Returns whether a folder with this fingerprint has the files of a version: as they are served, or as they were
/// published.
pub(super) async fn matches(
    skills: &dyn SkillRegistry,
    row: &SkillRow,
    wanted: &str,
) -> Result<bool, RegistryError> {
    let stored = row.meta.files.iter().map(|file| (file.path.as_str(), file.digest));
    if fingerprint(stored) == wanted {
        return Ok(true);
    }
    let served = served_files(skills, row).await?;
    Ok(fingerprint(served.iter().map(|file| (file.path.as_str(), file.sha256))) == wanted)
}

fn fingerprint<'a>(files: impl Iterator<Item = (&'a str, Digest)>) -> String {
    let is_hidden = |path: &str| path.split('/').any(|name| name.starts_with('.'));
    let mut files: Vec<(&str, Digest)> = files.filter(|(path, _)| !is_hidden(path)).collect();
    sort_by_locale(&mut files, |(path, _)| path);
    let lines: Vec<String> =
        files.iter().map(|(path, digest)| format!("{path}:{digest}")).collect();
    Digest::of(lines.join("\n").as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fingerprint that `buildSkillFingerprint` of `clawhub` 0.23.3 computes of these files.
    const CLIENT: &str = "0b3e0388fa21e0d62e06e54101bfcf562db9f66bc125c2ede84b61cd3b8dd4c3";

    #[test]
    fn the_fingerprint_is_that_of_the_client() {
        let digest = |text: &str| Digest::of(text.as_bytes());
        let files = [("SKILL.md", "s"), ("a.md", "a"), ("B.md", "b"), ("_c/d.txt", "d")];
        let files = files.map(|(path, text)| (path, digest(text)));
        assert_eq!(fingerprint(files.into_iter()), CLIENT);
        let hidden = [(".env", digest("x")), ("a/.git/b", digest("y"))];
        assert_eq!(fingerprint(files.into_iter().chain(hidden)), CLIENT);
    }
}
