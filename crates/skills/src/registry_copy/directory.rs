//! Data directories as sources and destinations of copies.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use skills_store::{SqliteStore, Store as _};
use skills_transfer::{
    CopyReport, OnProgress, Part, Table, TableSource, TransferError, Visit, copy_tables,
    sqlite::SqliteSnapshot,
};
use skills_vault::Vault;
use tempfile::TempDir;

use super::{STORE_TABLES, VAULT_TABLES};

/// Files of a data directory, in the order in which they are moved: a directory without the last one has no store.
const FILES: [&str; 2] = ["vault.sqlite", "skills.db"];

/// Read transactions on the files of a data directory.
pub(super) struct DirectorySource {
    store: SqliteSnapshot,
    vault: Option<SqliteSnapshot>,
}

impl DirectorySource {
    pub(super) fn open(dir: &Path) -> Result<Self, TransferError> {
        Ok(Self { store: SqliteStore::snapshot(dir)?, vault: Vault::snapshot(dir)? })
    }
}

impl TableSource for DirectorySource {
    fn for_each(&mut self, table: &Table, visit: Visit<'_>) -> Result<(), TransferError> {
        match (table.part, &mut self.vault) {
            (Part::Store, _) => self.store.for_each(table, visit),
            (Part::Vault, Some(vault)) => vault.for_each(table, visit),
            (Part::Vault, None) => Ok(()),
        }
    }

    fn has_vault(&self) -> bool {
        self.vault.is_some()
    }
}

/// Checks that a directory is empty or does not exist.
pub(super) fn require_empty(dir: &Path) -> Result<(), TransferError> {
    match fs::read_dir(dir).map(|mut entries| entries.next()) {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err(TransferError::NotEmpty(format!("the directory {}", dir.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(TransferError::io("read", dir, error)),
    }
}

/// Fills a new directory and moves it to its place.
pub(super) fn receive(
    dir: &Path,
    source: &mut dyn TableSource,
    progress: OnProgress<'_>,
) -> Result<CopyReport, TransferError> {
    require_empty(dir)?;
    let failed = |error| TransferError::io("write to", dir, error);
    let exists = dir.is_dir();
    // An existing directory may be a mount point, which cannot be replaced.
    let place = if exists { dir.to_owned() } else { parent(dir) };
    fs::create_dir_all(&place).map_err(failed)?;
    let filled = tempfile::Builder::new().prefix(".restore-").tempdir_in(&place).map_err(failed)?;
    let report = fill(filled.path(), source, progress)?;
    for name in FILES {
        match File::open(filled.path().join(name)) {
            Ok(file) => file.sync_all().map_err(failed)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
    }
    if exists { move_files(filled, dir) } else { move_directory(filled, dir) }.map_err(failed)?;
    Ok(report)
}

fn parent(dir: &Path) -> PathBuf {
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).to_owned()
}

/// Writes the files of a directory, and checks that they can be read.
fn fill(
    dir: &Path,
    source: &mut dyn TableSource,
    progress: OnProgress<'_>,
) -> Result<CopyReport, TransferError> {
    let mut report = CopyReport::default();
    let refused = |error| TransferError::other(&error);
    let store = SqliteStore::open(dir).map_err(refused)?;
    store.receive(&mut |sink| copy_tables(STORE_TABLES, source, sink, &mut report, progress))?;
    store.entries().map_err(refused)?;
    drop(store);
    if source.has_vault() {
        Vault::receive(dir, &mut |sink| {
            copy_tables(VAULT_TABLES, source, sink, &mut report, progress)
        })?;
    }
    source.finish()?;
    Ok(report)
}

fn move_directory(filled: TempDir, dir: &Path) -> io::Result<()> {
    // Refuses a directory that has content by now.
    fs::rename(filled.path(), dir)?;
    // Moved, so there is nothing to remove.
    let _ = filled.keep();
    File::open(parent(dir))?.sync_all()
}

fn move_files(filled: TempDir, dir: &Path) -> io::Result<()> {
    let moved = FILES.map(|name| (filled.path().join(name), dir.join(name)));
    for (at, (from, to)) in moved.iter().enumerate() {
        // A registry without a vault has no such file.
        if !from.exists() {
            continue;
        }
        // A link, as a move would replace a file that another process created meanwhile.
        if let Err(error) = fs::hard_link(from, to) {
            for (_, done) in &moved[..at] {
                let _ = fs::remove_file(done);
            }
            return Err(error);
        }
    }
    filled.close()?;
    File::open(dir)?.sync_all()
}
