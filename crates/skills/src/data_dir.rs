//! Location of the data directory of a process without an explicit one.
//!
//! The first that applies: `./data` if it holds a store and belongs to this user or to root, the user's data folder. The
//! working directory may be one that other users write to.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Once,
};

use skills_core::Code;
use skills_net::socket_owner::is_own_or_root;

use crate::{Failure, cli::Target, environment, output};

/// Folder of the working directory that is used if it holds a store.
const LOCAL_DIR: &str = "data";
/// Folder of this program in the user's data folder.
const USER_DIR: &str = "skills";
/// Files of a data directory: those of the store and of the vault.
const STORE_FILES: [&str; 2] = ["skills.db", "vault.sqlite"];

/// Returns the data directory of a target, which may not exist yet. One that the user names may belong to another user.
///
/// # Errors
/// When the user has no data folder, and `./data` belongs to another user.
pub(crate) fn locate(target: &Target) -> Result<PathBuf, Failure> {
    static NOTICE: Once = Once::new();
    if let Some(dir) = &target.data_dir {
        return Ok(dir.clone());
    }
    let local = Path::new(LOCAL_DIR);
    // A directory that cannot be searched may hold a store: opening it reports the reason.
    let is_used = STORE_FILES.iter().any(|name| !matches!(has_file(local, name), Ok(false)));
    let stranger = if is_used { other_owner(local) } else { None };
    let (dir, refusal) = default_dir(is_used, stranger, user_dir())?;
    if let Some(refusal) = refusal {
        NOTICE.call_once(|| output::notice("ignored", &refusal));
    }
    Ok(dir)
}

/// Returns the default data directory, and the reason why `./data` is not used although it holds a store.
fn default_dir(
    is_local_used: bool,
    stranger: Option<u32>,
    user_dir: Option<PathBuf>,
) -> Result<(PathBuf, Option<String>), Failure> {
    let Some(stranger) = stranger else {
        let user_dir = user_dir.filter(|_| !is_local_used);
        return Ok((user_dir.unwrap_or_else(|| LOCAL_DIR.into()), None));
    };
    let refusal = format!("the data directory ./{LOCAL_DIR} belongs to another user ({stranger})");
    let hint = format!("if you trust its content, name it: --data-dir {LOCAL_DIR}");
    match user_dir {
        Some(user_dir) => Ok((user_dir, Some(format!("{refusal}; {hint}")))),
        None => {
            let message = format!("{refusal}, and HOME is not set");
            Err(Failure::new(Code::StoreIo, message).hint(hint))
        }
    }
}

/// Returns the owner of a directory, or of the link to it, that is neither this user nor root.
fn other_owner(dir: &Path) -> Option<u32> {
    let owners = [fs::symlink_metadata(dir), fs::metadata(dir)].into_iter().flatten();
    owners.map(|metadata| metadata.uid()).find(|owner| !is_own_or_root(*owner))
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
    let is_user_dir = || locate(target).is_ok_and(|dir| dir != Path::new(LOCAL_DIR));
    target.data_dir.is_none() && !has_own_home && is_user_dir()
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
    fn a_local_data_directory_of_another_user_is_not_chosen() {
        let (user_dir, stranger) = (Some(PathBuf::from("/home/ann/skills")), Some(65_534));
        let chosen = |is_used, stranger, user_dir| default_dir(is_used, stranger, user_dir);
        assert_eq!(chosen(true, None, user_dir.clone()).unwrap(), (LOCAL_DIR.into(), None));
        assert_eq!(chosen(false, None, None).unwrap(), (LOCAL_DIR.into(), None));
        let (dir, refusal) = chosen(true, stranger, user_dir.clone()).unwrap();
        assert_eq!(Some(dir), user_dir);
        assert!(refusal.unwrap().contains("another user (65534)"));
        let failure = chosen(true, stranger, None).unwrap_err();
        assert_eq!(failure.code, Code::StoreIo);
        assert_eq!(failure.hint.unwrap(), "if you trust its content, name it: --data-dir data");
        let own = tempfile::tempdir().unwrap();
        assert_eq!(other_owner(own.path()), None);
        assert_eq!(other_owner(Path::new("/")), None, "root");
    }

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
