//! Folders that are never part of a bundle, whatever source it comes from.

use std::ffi::OsStr;

/// Folders that tools keep beside the files of a bundle.
const IGNORED_FOLDERS: [&str; 2] = [".git", "node_modules"];
/// Folder that macOS adds to archives for resource forks.
const RESOURCE_FORKS: &str = "__MACOSX";

/// Returns whether a name in a folder or a repository is left out with everything below it.
pub(crate) fn is_ignored_folder(name: &OsStr) -> bool {
    IGNORED_FOLDERS.iter().any(|ignored| name == *ignored)
}

/// Returns whether a file of an archive, an upload or a site is left out by its path.
#[must_use]
pub fn is_ignored_path(path: &str) -> bool {
    path.split('/').any(|name| is_ignored_folder(name.as_ref()) || name == RESOURCE_FORKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_folders_are_left_out_at_any_depth() {
        for path in ["a/.git/config", "node_modules/x", "a/node_modules", "__MACOSX/a", ".git"] {
            assert!(is_ignored_path(path), "{path}");
        }
        for path in ["SKILL.md", ".gitignore", "node_modules.md", "a/MACOSX/b"] {
            assert!(!is_ignored_path(path), "{path}");
        }
    }
}
