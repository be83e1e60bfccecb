//! `add --watch`: updates the registry when folders change.
//!
//! - `events`: debounced file system events
//! - `watched_folders`: state of the folders, and the skills that may be removed
//!
//! An event only triggers a scan, which compares the folders with their recorded state. A lost event is therefore made up
//! for by the next scan.

mod events;
mod watched_folders;

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use skills_core::{Code, Coded, uri::SCHEME};
use skills_registry::{RegistryError, SkillRegistry};
use skills_remote::is_unreachable;
use tokio_util::sync::CancellationToken;

use self::{
    events::{ChangedPaths, FolderEvents},
    watched_folders::WatchedFolders,
};
use super::{
    import::{Import, ImportOptions, OpenedRegistry, remove},
    print,
    row::{Outcome, Row},
};
use crate::{
    Failure,
    blocking::blocking,
    cli::{AddArgs, ConflictArg, Target},
    config::Config,
    connect::{self, LongRegistry, RegistrySource},
    output::{self, path as display},
    pending_registry::PendingRegistry,
    store_host::StoreHost,
};

/// Time between scans without events: not every file system reports changes.
const SCAN_INTERVAL: Duration = Duration::from_secs(5);
/// Scans take at most 1/20 of the time.
const SCAN_FACTOR: u32 = 20;
/// Backoff of reconnecting to a lost registry: first and longest delay.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);

pub(super) async fn run(args: AddArgs, target: Target, config: &Config) -> Result<(), Failure> {
    let options = super::import_options(&args);
    if options.on_conflict == ConflictArg::Rename {
        let message = "--watch cannot rename: it would not know whose skill to remove";
        return Err(Failure::new(Code::BadArgument, message).hint("use --prefix"));
    }
    let AddArgs { sources, prefix, format, .. } = args;
    let folders = blocking(move || canonical_folders(&sources)).await??;
    let shutdown = CancellationToken::new();
    super::super::stop_on_signal(shutdown.clone())?;
    // Before the first scan, so that no change is missed.
    let events = FolderEvents::watch(&folders)?;
    let target = connect::pin_default_bus(target).await?;
    let LongRegistry { skills, host, source } = tokio::select! {
        opened = connect::open_long(&target, config) => opened?,
        () = shutdown.cancelled() => return Ok(()),
    };
    let mut watch = Watch {
        folders,
        state: WatchedFolders::new(prefix.unwrap_or_default()),
        skills,
        host,
        source,
        options,
        target,
        config,
        json: format.json,
    };
    let ended = tokio::select! {
        failure = watch.run(events) => Err(failure),
        () = shutdown.cancelled() => Ok(()),
    };
    watch.close_store().await;
    ended
}

/// Returns the canonical paths of folders, which events contain.
fn canonical_folders(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let folder = |path: &PathBuf| {
        let cannot_watch = |reason: String| {
            Failure::new(Code::CannotWatch, format!("cannot watch {}: {reason}", display(path)))
                .hint("PATH must be a folder with --watch")
        };
        let folder =
            std::fs::canonicalize(path).map_err(|error| cannot_watch(error.to_string()))?;
        if folder.is_dir() { Ok(folder) } else { Err(cannot_watch("not a folder".to_owned())) }
    };
    paths.iter().map(folder).collect()
}

struct Watch<'a> {
    folders: Vec<PathBuf>,
    state: WatchedFolders,
    skills: Arc<dyn SkillRegistry>,
    /// Owner of the store, if this process has it open.
    host: Option<StoreHost>,
    source: RegistrySource,
    options: ImportOptions,
    target: Target,
    config: &'a Config,
    json: bool,
}

/// Error of an update.
enum UpdateError {
    /// The registry is unreachable; the watch reconnects.
    Lost(Failure),
    /// The watch ends.
    Fatal(Failure),
}

impl From<Failure> for UpdateError {
    fn from(failure: Failure) -> Self {
        Self::Fatal(failure)
    }
}

impl Watch<'_> {
    /// Watches the folders. Ends only with an error.
    async fn run(&mut self, events: FolderEvents) -> Failure {
        let mut changed = ChangedPaths::everything();
        let mut is_first = true;
        loop {
            let began = Instant::now();
            match self.update(changed).await {
                Ok(()) => {
                    if std::mem::take(&mut is_first)
                        && let Err(failure) = self.print_ready()
                    {
                        return failure;
                    }
                    let interval = SCAN_INTERVAL.max(began.elapsed() * SCAN_FACTOR);
                    let next = tokio::select! {
                        changed = events.next(interval) => Ok(Some(changed)),
                        released = self.wait_until_released() => released.map(|()| None),
                    };
                    changed = match next {
                        Ok(Some(changed)) => changed,
                        Ok(None) => {
                            self.reconnect().await;
                            ChangedPaths::everything()
                        }
                        Err(failure) => return failure,
                    };
                }
                Err(UpdateError::Fatal(failure)) => return failure,
                Err(UpdateError::Lost(failure)) => {
                    failure.print(self.json);
                    self.reconnect().await;
                    // The registry may have changed meanwhile.
                    changed = ChangedPaths::everything();
                }
            }
        }
    }

    /// Waits until a server asks for the store, if this process has it open.
    async fn wait_until_released(&self) -> Result<(), Failure> {
        match &self.host {
            Some(host) => host.wait_until_released().await,
            None => std::future::pending().await,
        }
    }

    async fn close_store(&mut self) {
        if let Some(host) = self.host.take() {
            // The registry keeps its store locked.
            self.skills = Arc::new(PendingRegistry::new().0);
            host.close().await;
        }
    }

    async fn reconnect(&mut self) {
        self.close_store().await;
        let mut wait = RETRY_MIN;
        loop {
            tokio::time::sleep(wait).await;
            match connect::open_long(&self.target, self.config).await {
                Ok(LongRegistry { skills, host, source }) => {
                    self.source = source;
                    (self.skills, self.host) = (skills, host);
                    return;
                }
                Err(_) => wait = (wait * 2).min(RETRY_MAX),
            }
        }
    }

    /// Scans the folders, imports changed bundles and removes skills whose bundle is gone.
    async fn update(&mut self, changed: ChangedPaths) -> Result<(), UpdateError> {
        let (folders, mut state) = (self.folders.clone(), std::mem::take(&mut self.state));
        let (state, plan) = blocking(move || {
            let plan = state.scan(&folders, changed);
            (state, plan)
        })
        .await?;
        self.state = state;
        let plan = plan?;
        for row in &plan.rejected {
            self.print(row)?;
        }
        if plan.bundles.is_empty() && self.state.removed().is_empty() {
            return Ok(());
        }
        let catalog = self.skills.catalog().await.map_err(update_error)?;
        let opened = OpenedRegistry {
            catalog: catalog.clone(),
            skills: Some(self.skills.clone()),
            source: Some(self.source.clone()),
        };
        let import = Import::new(&self.target, self.config, self.options.clone());
        let import = import.with_registry(opened);
        let mut imported = import.run(plan.bundles, |_| {}).await;
        imported.rows.sort_by_key(|row| row.at);
        for row in &imported.rows {
            self.state.record(row);
            self.print(row)?;
        }
        if let Some(failure) = imported.aborted {
            return Err(UpdateError::Lost(failure));
        }
        for (id, digest) in self.state.removed() {
            let removed = remove(&*self.skills, &catalog, self.options.tier, &id, digest)
                .await
                .map_err(update_error)?;
            self.state.disown(&id);
            if removed && self.json {
                print_json_line(&json!({ "id": id.as_str(), "status": "removed" }))?;
            } else if removed {
                output::line(&format!("removed {SCHEME}{id}")).map_err(Failure::from)?;
            }
        }
        Ok(())
    }

    fn print_ready(&self) -> Result<(), Failure> {
        let count = self.state.count();
        if self.json {
            return print_json_line(&json!({ "status": "watching", "skills": count }));
        }
        let folders: Vec<String> = self.folders.iter().map(|folder| display(folder)).collect();
        let count = output::counted(count, "skill");
        output::error_line(&format!("watching {} ({count})", folders.join(", ")));
        Ok(())
    }

    fn print(&self, row: &Row) -> Result<(), Failure> {
        if !self.json {
            print::print_row(row, false, false)
        } else if matches!(row.outcome, Outcome::Unchanged(_)) {
            Ok(())
        } else {
            print_json_line(&print::to_json(row))
        }
    }
}

fn print_json_line(value: &serde_json::Value) -> Result<(), Failure> {
    Ok(output::json_line(&value.to_string())?)
}

fn update_error(error: RegistryError) -> UpdateError {
    if is_unreachable(error.code()) {
        UpdateError::Lost(error.into())
    } else {
        UpdateError::Fatal(error.into())
    }
}
