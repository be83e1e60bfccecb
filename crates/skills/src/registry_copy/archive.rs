//! Backups of whole registries.

use std::{
    fs::File,
    io::{BufWriter, Write as _},
    path::Path,
};

use skills_core::Timestamp;
use skills_transfer::{
    CopyReport, OnProgress, Row, Table, TableSink, TransferError,
    archive::{ArchiveHeader, ArchiveReader, ArchiveWriter, FORMAT},
};

use super::{RegistryLocation, copy_all};

/// Written archive.
#[derive(Debug, Clone)]
pub(crate) struct Backup {
    pub(crate) report: CopyReport,
    /// Size of the file.
    pub(crate) file_bytes: u64,
    /// Digest of the list of parts.
    pub(crate) sha256: String,
}

/// Writes an archive under another name, reads it back, and renames it.
pub(crate) fn back_up(
    from: &RegistryLocation,
    path: &Path,
    overwrite: bool,
    progress: OnProgress<'_>,
) -> Result<Backup, TransferError> {
    let failed = |error| TransferError::io("write", path, error);
    let exists = || failed(std::io::ErrorKind::AlreadyExists.into());
    if !overwrite && path.symlink_metadata().is_ok() {
        return Err(exists());
    }
    let mut source = from.open_source()?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = parent.unwrap_or(Path::new("."));
    let mut file =
        tempfile::Builder::new().prefix(".backup-").tempfile_in(folder).map_err(failed)?;
    let first = ArchiveHeader {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        created_at: Timestamp::now().to_rfc3339_millis(),
        vault: source.has_vault(),
    };
    let mut writer = ArchiveWriter::new(BufWriter::new(&mut file), &first)?;
    let report = copy_all(&mut *source, &mut writer, progress)?;
    let (mut out, sha256) = writer.finish()?;
    out.flush().map_err(failed)?;
    drop(out);
    file.as_file().sync_all().map_err(failed)?;
    verify(file.path(), progress)?;
    let file_bytes = file.as_file().metadata().map_err(failed)?.len();
    let persisted = if overwrite { file.persist(path) } else { file.persist_noclobber(path) };
    persisted.map_err(|error| failed(error.error))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
    Ok(Backup { report, file_bytes, sha256 })
}

/// Reads a whole archive and checks everything in it.
fn verify(path: &Path, progress: OnProgress<'_>) -> Result<ArchiveHeader, TransferError> {
    let mut archive = ArchiveReader::open(path)?;
    copy_all(&mut archive, &mut Discard, progress)?;
    Ok(archive.header().clone())
}

/// Restores an archive to an empty location. Nothing is written before the whole archive was checked.
pub(crate) fn restore(
    path: &Path,
    to: &RegistryLocation,
    progress: OnProgress<'_>,
) -> Result<(CopyReport, ArchiveHeader), TransferError> {
    to.require_empty()?;
    let header = verify(path, progress)?;
    let report = to.receive(&mut ArchiveReader::open(path)?, progress)?;
    Ok((report, header))
}

/// Sink that drops the rows.
struct Discard;

impl TableSink for Discard {
    fn insert(&mut self, _: &Table, _: Vec<Row>) -> Result<(), TransferError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use skills_store::{Batch, Mutation, NewValue, SqliteStore, Store as _};

    use super::*;

    /// Interruption after some calls.
    fn interrupt_after(
        calls: usize,
    ) -> impl FnMut(skills_transfer::CopyProgress) -> Result<(), TransferError> {
        let mut left = calls;
        move |_| match left.checked_sub(1) {
            Some(rest) => {
                left = rest;
                Ok(())
            }
            None => Err(TransferError::Interrupted),
        }
    }

    #[test]
    fn an_interrupted_backup_or_restore_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (data, target) = (dir.path().join("data"), dir.path().join("target"));
        let value = NewValue::Given("1".into());
        let set = Mutation::StateSet { scope: "s".into(), key: "k".into(), value };
        let store = SqliteStore::open(&data).unwrap();
        store.commit(vec![Batch::new("test", vec![set])], Timestamp::now()).unwrap();
        drop(store);
        let from = RegistryLocation::Directory(data);
        let to = RegistryLocation::Directory(target.clone());
        let folder = dir.path().join("backups");
        fs::create_dir(&folder).unwrap();
        let file = folder.join("a.skills");
        let count = |path: &Path| fs::read_dir(path).unwrap().count();

        // Each table is reported once while the archive is written, and once while it is read back.
        let mut calls = 0;
        back_up(&from, &file, false, &mut |_| {
            calls += 1;
            Ok(())
        })
        .unwrap();
        fs::remove_file(&file).unwrap();
        for interrupted in 0..calls {
            let stopped = back_up(&from, &file, false, &mut interrupt_after(interrupted));
            assert!(matches!(stopped, Err(TransferError::Interrupted)), "{interrupted}");
            assert_eq!(count(&folder), 0, "{interrupted}");
        }

        back_up(&from, &file, false, &mut |_| Ok(())).unwrap();
        calls = 0;
        restore(&file, &to, &mut |_| {
            calls += 1;
            Ok(())
        })
        .unwrap();
        fs::remove_dir_all(&target).unwrap();
        for interrupted in 0..calls {
            let stopped = restore(&file, &to, &mut interrupt_after(interrupted));
            assert!(matches!(stopped, Err(TransferError::Interrupted)), "{interrupted}");
            assert_eq!(count(dir.path()), 2, "the data directory and the backups");
        }
        fs::create_dir(&target).unwrap();
        let stopped = restore(&file, &to, &mut interrupt_after(calls - 1));
        assert!(stopped.is_err() && count(&target) == 0);
    }
}
