//! `backup`, `restore` and `store copy`: copies of whole registries.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use serde_json::{Value, json};
use skills_core::Code;
use skills_transfer::{CopyProgress, CopyReport, OnProgress, TransferError};

use crate::{
    Failure,
    blocking::blocking,
    cli::{BackupArgs, RestoreArgs, StoreCommand, StoreCopyArgs, Target},
    config::Config,
    data_dir,
    interrupt::interruptible,
    output,
    progress::Progress,
    registry_copy::{
        RegistryLocation,
        archive::{self, Backup},
    },
};

/// Returns the registry that a command works on: the database, or else the data directory.
fn locate(command: &str, target: &Target, config: &Config) -> Result<RegistryLocation, Failure> {
    if let Some(database) = &config.database {
        return Ok(RegistryLocation::Database(Box::new(database.clone())));
    }
    if target.url.is_some() {
        let message = format!("{command} works on a data directory or a database, not on a bus");
        return Err(Failure::new(Code::NeedsDataDir, message)
            .hint("name it with --data-dir or --store, on the machine of the server"));
    }
    Ok(RegistryLocation::Directory(data_dir::locate(target)?))
}

/// Parses a store of the command line.
fn parse(flag: &str, text: &str) -> Result<RegistryLocation, Failure> {
    if let Some(dir) = text.strip_prefix("sqlite:").filter(|dir| !dir.is_empty()) {
        return Ok(RegistryLocation::Directory(Path::new(dir).to_owned()));
    }
    text.parse().map(Box::new).map(RegistryLocation::Database).map_err(|reason: String| {
        Failure::new(Code::BadArgument, format!("{flag}: {reason}"))
            .hint("name a store as sqlite:DIR or postgres://user@host/database")
    })
}

/// Runs a copy on a blocking thread, with progress on a terminal, until it is done or interrupted.
async fn run_copy<T: Send + 'static>(
    is_json: bool,
    copy: impl FnOnce(OnProgress<'_>) -> Result<T, TransferError> + Send + 'static,
) -> Result<T, Failure> {
    let cancelled = Arc::new(AtomicBool::new(false));
    let is_cancelled = Arc::clone(&cancelled);
    let work = async {
        let copied = blocking(move || {
            let mut line = Progress::new(0, is_json);
            let copied = copy(&mut |CopyProgress { table, rows }| {
                if is_cancelled.load(Ordering::Relaxed) {
                    return Err(TransferError::Interrupted);
                }
                line.show_text(&format!("{table}: {rows} rows"), Instant::now());
                Ok(())
            });
            line.clear();
            copied
        });
        Ok(copied.await??)
    };
    interruptible(&cancelled, work).await
}

fn report_json(report: &CopyReport) -> Value {
    let CopyReport { rows, blobs, bytes, revision } = report;
    json!({ "rows": rows, "blobs": blobs, "bytes": bytes, "revision": revision })
}

fn describe(report: &CopyReport) -> String {
    let CopyReport { rows, blobs, bytes, revision } = report;
    let rows = output::counted(usize::try_from(*rows).unwrap_or(usize::MAX), "row");
    let blobs = output::counted(usize::try_from(*blobs).unwrap_or(usize::MAX), "blob");
    let size = output::size(*bytes);
    format!("{rows} up to revision {revision}, {blobs} ({size}), every digest verified")
}

pub(super) async fn copy(command: StoreCommand) -> Result<(), Failure> {
    let StoreCommand::Copy(StoreCopyArgs { from, to, format }) = command;
    let (from, to) = (parse("--from", &from)?, parse("--to", &to)?);
    let copy = move |progress: OnProgress<'_>| {
        to.require_empty()?;
        to.receive(&mut *from.open_source()?, progress)
    };
    let report = run_copy(format.json, copy).await?;
    if format.json {
        return Ok(output::json(&report_json(&report))?);
    }
    Ok(output::line(&format!("copied {}", describe(&report)))?)
}

pub(super) async fn back_up(
    args: BackupArgs,
    target: &Target,
    config: &Config,
) -> Result<(), Failure> {
    let BackupArgs { file, force, format } = args;
    let from = locate("backup", target, config)?;
    if !force && file.symlink_metadata().is_ok() {
        let message = format!("{} exists", output::path(&file));
        return Err(Failure::new(Code::Exists, message).hint("name another file, or add --force"));
    }
    let path = file.clone();
    let backup =
        run_copy(format.json, move |progress| archive::back_up(&from, &path, force, progress));
    let Backup { report, file_bytes, sha256 } = backup.await?;
    if format.json {
        let mut json = report_json(&report);
        json["file"] = json!(file);
        json["file_bytes"] = json!(file_bytes);
        json["sha256"] = json!(sha256);
        return Ok(output::json(&json)?);
    }
    let (file, size) = (output::path(&file), output::size(file_bytes));
    Ok(output::line(&format!("wrote {file} ({size}): {}", describe(&report)))?)
}

pub(super) async fn restore(
    args: RestoreArgs,
    target: &Target,
    config: &Config,
) -> Result<(), Failure> {
    let RestoreArgs { file, format } = args;
    let to = locate("restore", target, config)?;
    let restore = move |progress: OnProgress<'_>| archive::restore(&file, &to, progress);
    let (report, header) = run_copy(format.json, restore).await?;
    if format.json {
        let mut json = report_json(&report);
        json["created_at"] = json!(header.created_at);
        return Ok(output::json(&json)?);
    }
    let at = output::plain(&header.created_at);
    Ok(output::line(&format!("restored the backup of {at}: {}", describe(&report)))?)
}
