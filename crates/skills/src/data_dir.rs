//! Location of the data directory of a process without an explicit one.
//!
//! The first that applies: `./data` if it holds a store, the user's data folder.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use skills_core::Code;

use crate::{Failure, cli::Target, environment};

/// Folder of the working directory that is used if it holds a store.
const LOCAL_DIR: &str = "data";
/// Folder of this program in the user's data folder.
const USER_DIR: &str = "skills";
/// Files of a data directory: those of the store and of the vault.
const STORE_FILES: [&str; 2] = ["skills.db", "vault.sqlite"];

/// Returns the data directory of a target, which may not exist yet.
pub(crate) fn locate(target: &Target) -> PathBuf {
    target.data_dir.clone().unwrap_or_else(|| {
        let local = Path::new(LOCAL_DIR);
        // A directory that cannot be searched may hold a store: opening it reports the reason.
        let is_used = STORE_FILES.iter().any(|name| !matches!(has_file(local, name), Ok(false)));
        if is_used { local.to_owned() } else { user_dir().unwrap_or_else(|| local.to_owned()) }
    })
}

/// Returns a directory as a user writes it, with `~` for the home directory.
pub(crate) fn display(dir: &Path) -> String {
    let home =
        environment::path("HOME").filter(|home| home.is_absolute() && home.parent().is_some());
    match home.and_then(|home| dir.strip_prefix(home).ok().map(Path::to_owned)) {
        Some(rest) => Path::new("~").join(rest).display().to_string(),
        None => dir.display().to_string(),
    }
}

/// Returns whether every process of the user finds the data directory of a target without being told.
pub(crate) fn is_found_everywhere(target: &Target) -> bool {
    let has_own_home = environment::path("XDG_DATA_HOME").is_some();
    target.data_dir.is_none() && !has_own_home && locate(target) != Path::new(LOCAL_DIR)
}

/// Returns whether a directory holds a store.
///
/// # Errors
/// When the directory cannot be searched.
pub(crate) fn has_store(dir: &Path) -> Result<bool, Failure> {
    has_file(dir, STORE_FILES[0]).map_err(|error| {
        let message = format!("cannot search the data directory {}: {error}", dir.display());
        Failure::new(Code::StoreIo, message)
            .hint("check the permissions of the directory, or give another with --data-dir")
    })
}

/// Returns whether a directory holds a vault of keys and secrets.
pub(crate) fn has_vault(dir: &Path) -> bool {
    matches!(has_file(dir, STORE_FILES[1]), Ok(true))
}

fn has_file(dir: &Path, name: &str) -> io::Result<bool> {
    match fs::metadata(dir.join(name)) {
        Ok(_) => Ok(true),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(false),
            _ => Err(error),
        },
    }
}

/// Returns the folder for data of the user: that of the XDG Base Directory specification, or the one that the operating
/// system defines. `None` without a home directory.
pub(crate) fn user_dir() -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let data_home = environment::path("XDG_DATA_HOME").filter(absolute);
    let in_home = || {
        let home = environment::path("HOME").filter(absolute)?;
        let is_macos = cfg!(target_os = "macos");
        Some(home.join(if is_macos { "Library/Application Support" } else { ".local/share" }))
    };
    Some(data_home.or_else(in_home)?.join(USER_DIR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_found_by_its_file() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!has_store(dir.path()).unwrap());
        assert!(!has_store(&dir.path().join("absent")).unwrap());
        fs::write(dir.path().join("skills.db"), "").unwrap();
        assert!(has_store(dir.path()).unwrap());
        assert!(!has_store(&dir.path().join("skills.db")).unwrap(), "a file is no directory");
    }
}
