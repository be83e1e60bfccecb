//! Debounced file system events.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use notify::{
    EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode},
};
use parking_lot::Mutex;
use skills_core::Code;
use tokio::{sync::Notify, time::timeout};

use crate::{Failure, commands::WATCH_DEBOUNCE};

/// Most changed paths; with more, everything counts as changed.
const MAX_PATHS: usize = 10_000;

/// Changed paths.
#[derive(Debug, Default)]
pub(super) struct ChangedPaths {
    everything: bool,
    paths: HashSet<PathBuf>,
}

impl ChangedPaths {
    pub(super) fn everything() -> Self {
        Self { everything: true, paths: HashSet::new() }
    }

    /// Builds an index for many lookups.
    pub(super) fn into_index(self) -> ChangedPathIndex {
        let ancestors = self.paths.iter().flat_map(|path| path.ancestors());
        ChangedPathIndex { ancestors: ancestors.map(Path::to_owned).collect(), changed: self }
    }
}

/// Index of changed paths and their ancestors.
pub(super) struct ChangedPathIndex {
    changed: ChangedPaths,
    ancestors: HashSet<PathBuf>,
}

impl ChangedPathIndex {
    /// Returns whether a path, something in it, or a folder above it changed.
    pub(super) fn contains(&self, path: &Path) -> bool {
        let ChangedPaths { everything, paths } = &self.changed;
        *everything
            || self.ancestors.contains(path)
            || path.ancestors().any(|ancestor| paths.contains(ancestor))
    }
}

#[derive(Default)]
struct Shared {
    changed: Mutex<ChangedPaths>,
    notify: Notify,
}

/// Events of some folders.
pub(super) struct FolderEvents {
    shared: Arc<Shared>,
    _watcher: RecommendedWatcher,
}

impl FolderEvents {
    /// Starts to watch folders.
    pub(super) fn watch(folders: &[PathBuf]) -> Result<Self, Failure> {
        let failed = |error: notify::Error| {
            Failure::new(Code::CannotWatch, error.to_string())
                .hint("raise the limit of the system, such as fs.inotify.max_user_watches")
        };
        let shared = Arc::new(Shared::default());
        let sender = Arc::clone(&shared);
        let mut watcher =
            notify::recommended_watcher(move |event| record(&sender, event)).map_err(failed)?;
        for folder in folders {
            watcher.watch(folder, RecursiveMode::Recursive).map_err(failed)?;
        }
        Ok(Self { shared, _watcher: watcher })
    }

    /// Waits for changes and until no more follow. Returns no paths if nothing changes in time.
    pub(super) async fn next(&self, max_wait: Duration) -> ChangedPaths {
        let mut events = pin!(stream::repeat(()).then(|()| self.shared.notify.notified()));
        if timeout(max_wait, events.next()).await.is_ok() {
            WATCH_DEBOUNCE.collect(&mut events, drop).await;
        }
        std::mem::take(&mut *self.shared.changed.lock())
    }
}

fn record(shared: &Shared, event: notify::Result<notify::Event>) {
    {
        let mut changed = shared.changed.lock();
        match event {
            Ok(event) if is_read(event.kind) => return,
            Ok(event) if !event.need_rescan() && changed.paths.len() < MAX_PATHS => {
                changed.paths.extend(event.paths);
            }
            // Events were lost, or are too many.
            Ok(_) | Err(_) => *changed = ChangedPaths::everything(),
        }
    }
    shared.notify.notify_one();
}

/// Returns whether an event is a read, such as our own.
fn is_read(kind: EventKind) -> bool {
    let written = AccessKind::Close(AccessMode::Write);
    matches!(kind, EventKind::Access(access) if access != written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_changes_with_its_contents_and_with_its_parents() {
        let paths = ["/w/a/x/y", "/w/b"].map(PathBuf::from).into();
        let changed = ChangedPaths { everything: false, paths }.into_index();
        for (path, expected) in
            [("/w/a", true), ("/w/b/c", true), ("/w/ab", false), ("/w/c", false)]
        {
            assert_eq!(changed.contains(Path::new(path)), expected, "{path}");
        }
        assert!(ChangedPaths::everything().into_index().contains(Path::new("/z")));
    }

    #[test]
    fn lost_events_mark_everything_as_changed() {
        let shared = Shared::default();
        record(&shared, Ok(notify::Event::new(EventKind::Access(AccessKind::Read))));
        assert!(shared.changed.lock().paths.is_empty());
        let lost = notify::Event::new(EventKind::Other).set_flag(notify::event::Flag::Rescan);
        record(&shared, Ok(lost));
        assert!(shared.changed.lock().everything);
    }
}
