//! Periodic imports of a server: one task per source.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

use skills_core::Code;
use skills_registry::SkillRegistry;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use super::{import_source, open_state};
use crate::{
    config::{Config, SourceSettings},
    fetch::{DEFAULT_HOST, Fetcher},
};

/// Running imports. They end when this is dropped, and the fetches of them are cancelled.
pub(crate) struct ScheduledImports {
    cancelled: Arc<AtomicBool>,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

impl Drop for ScheduledImports {
    fn drop(&mut self) {
        self.cancelled.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Starts a task for each source, which imports it now and then at its interval. Requires a Tokio runtime.
pub(crate) fn import_periodically(
    skills: &Arc<dyn SkillRegistry>,
    config: &Config,
    data_dir: &Path,
) -> ScheduledImports {
    let cancelled = Arc::new(AtomicBool::new(false));
    let host = config.git_host.as_deref().unwrap_or(DEFAULT_HOST);
    let fetcher = Fetcher::new(host, false, true, Arc::clone(&cancelled)).in_background();
    let start = |source: &SourceSettings| {
        let import = import_forever(
            source.clone(),
            Arc::clone(skills),
            fetcher.clone(),
            data_dir.to_owned(),
        );
        AbortOnDropHandle::new(tokio::spawn(import))
    };
    let tasks = config.sources.iter().map(start).collect();
    ScheduledImports { cancelled, _tasks: tasks }
}

async fn import_forever(
    source: SourceSettings,
    skills: Arc<dyn SkillRegistry>,
    fetcher: Fetcher,
    data_dir: PathBuf,
) {
    loop {
        let name = &source.name;
        let imported = match open_state(&data_dir, &source) {
            Ok(mut file) => import_source(&source, &*skills, &fetcher, &mut file).await,
            Err(failure) => Err(failure),
        };
        match imported {
            Ok(summary) if summary.added + summary.changed + summary.removed > 0 => {
                let (added, changed, removed) = (summary.added, summary.changed, summary.removed);
                tracing::info!(source = name, added, changed, removed, "source imported");
            }
            Ok(_) => {}
            // A command imports it just now.
            Err(failure) if failure.code == Code::Busy => {}
            Err(failure) => {
                tracing::warn!(source = name, error = failure.message, "source not imported");
            }
        }
        sleep(source.interval).await;
    }
}
