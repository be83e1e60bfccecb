//! What the system says has changed, in heaps: a change seldom comes alone.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use notify::{
    EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode},
};
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use crate::Failure;

/// No news for so long, and what has changed is looked at.
const QUIET: Duration = Duration::from_millis(75);
/// When news never ends, it is looked at all the same.
const PATIENCE: Duration = Duration::from_secs(1);
/// More paths than this are everything.
const MAX_PATHS: usize = 10_000;

/// What has to be looked at.
#[derive(Debug, Default)]
pub(super) struct Touched {
    everything: bool,
    paths: HashSet<PathBuf>,
}

impl Touched {
    pub(super) fn everything() -> Self {
        Self { everything: true, paths: HashSet::new() }
    }

    /// The same, ready to be asked about many places.
    pub(super) fn lookup(self) -> Lookup {
        let above = self.paths.iter().flat_map(|path| path.ancestors());
        Lookup { above: above.map(Path::to_owned).collect(), touched: self }
    }
}

/// See [`Touched::lookup`].
pub(super) struct Lookup {
    touched: Touched,
    above: HashSet<PathBuf>,
}

impl Lookup {
    /// Whether something in a place, or the place itself, was touched.
    pub(super) fn has(&self, place: &Path) -> bool {
        let Touched { everything, paths } = &self.touched;
        *everything
            || self.above.contains(place)
            || place.ancestors().any(|above| paths.contains(above))
    }
}

#[derive(Default)]
struct Shared {
    touched: Mutex<Touched>,
    news: Notify,
}

/// News of some folders.
pub(super) struct Events {
    shared: Arc<Shared>,
    _watcher: RecommendedWatcher,
}

impl Events {
    /// Begins to listen.
    pub(super) fn of(folders: &[PathBuf]) -> Result<Self, Failure> {
        let failed = |error: notify::Error| {
            Failure::new("cannot_watch", error.to_string())
                .hint("the system may allow more: see fs.inotify.max_user_watches")
        };
        let shared = Arc::new(Shared::default());
        let hears = Arc::clone(&shared);
        let mut watcher =
            notify::recommended_watcher(move |event| hear(&hears, event)).map_err(failed)?;
        for folder in folders {
            watcher.watch(folder, RecursiveMode::Recursive).map_err(failed)?;
        }
        Ok(Self { shared, _watcher: watcher })
    }

    /// What was touched, once there is some and it has become quiet; nothing, if none comes in time.
    pub(super) async fn next(&self, within: Duration) -> Touched {
        let news = || self.shared.news.notified();
        if timeout(within, news()).await.is_ok() {
            let end = Instant::now() + PATIENCE;
            while Instant::now() < end && timeout(QUIET, news()).await.is_ok() {}
        }
        std::mem::take(&mut self.shared.touched.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn hear(shared: &Shared, event: notify::Result<notify::Event>) {
    {
        let mut touched = shared.touched.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Ok(event) if is_reading(event.kind) => return,
            Ok(event) if !event.need_rescan() && touched.paths.len() < MAX_PATHS => {
                touched.paths.extend(event.paths);
            }
            // Some were lost, or are too many to tell apart.
            Ok(_) | Err(_) => *touched = Touched::everything(),
        }
    }
    shared.news.notify_one();
}

/// Our own reading is no news.
fn is_reading(kind: EventKind) -> bool {
    let written = AccessKind::Close(AccessMode::Write);
    matches!(kind, EventKind::Access(access) if access != written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_touched_by_what_is_in_it_and_what_it_is_in() {
        let paths = ["/w/a/x/y", "/w/b"].map(PathBuf::from).into();
        let touched = Touched { everything: false, paths }.lookup();
        for (place, expected) in
            [("/w/a", true), ("/w/b/c", true), ("/w/ab", false), ("/w/c", false)]
        {
            assert_eq!(touched.has(Path::new(place)), expected, "{place}");
        }
        assert!(Touched::everything().lookup().has(Path::new("/z")));
    }

    #[test]
    fn lost_news_is_news_of_everything() {
        let shared = Shared::default();
        hear(&shared, Ok(notify::Event::new(EventKind::Access(AccessKind::Read))));
        assert!(shared.touched.lock().unwrap().paths.is_empty());
        let lost = notify::Event::new(EventKind::Other).set_flag(notify::event::Flag::Rescan);
        hear(&shared, Ok(lost));
        assert!(shared.touched.lock().unwrap().everything);
    }
}
