//! `add --watch`: keeps the registry in step with folders.
//!
//! - `events`: what the system says has changed
//! - `known`: what is known of the folders, and what may be removed
//!
//! What the system says is a hint where to look, not what to do: each time the folders are compared with what is
//! known of them, so news that is lost is made up for at the next look.

mod events;
mod known;

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use skills_core::{Tier, uri::SCHEME};
use skills_registry::{RegistryError, Skills};
use tokio_util::sync::CancellationToken;

use self::{
    events::{Events, Touched},
    known::Known,
};
use super::{
    blocking,
    import::{Import, Opened, Outcome, Row, is_lost, remove},
    plan::shown,
    show,
};
use crate::{
    Failure,
    cli::{Add, Target},
    config::Config,
    connect, output,
};

/// The folders are looked at from time to time without any news: not every file system tells.
const LOOK: Duration = Duration::from_secs(5);
/// How much of the time may be spent on that, as a part of it.
const LOOK_SHARE: u32 = 20;
/// How soon a registry that was lost is tried again, at first and at most.
const RETRY: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);

pub(super) async fn run(add: Add, target: Target, config: &Config) -> Result<(), Failure> {
    let tier = add.tier.into();
    let folders = blocking(move || folders(&add.paths)).await??;
    let shutdown = CancellationToken::new();
    super::super::stop_on_signal(shutdown.clone())?;
    // Before anything is read, so that nothing is missed.
    let events = Events::of(&folders)?;
    let target = connect::settled(target).await;
    let skills = connect::open(&target, config, true).await?;
    let mut watch = Watch {
        folders,
        known: Known::default(),
        skills,
        tier,
        target,
        config,
        json: add.format.json,
    };
    tokio::select! {
        failure = watch.follow(events) => failure.map_or(Ok(()), Err),
        () = shutdown.cancelled() => Ok(()),
    }
}

/// The folders as the system names them in its news.
fn folders(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let folder = |path: &PathBuf| {
        let refused = |reason: String| {
            Failure::new("cannot_watch", format!("cannot watch {}: {reason}", shown(path)))
                .hint("name folders")
        };
        let folder = std::fs::canonicalize(path).map_err(|error| refused(error.to_string()))?;
        if folder.is_dir() { Ok(folder) } else { Err(refused("it is not a folder".to_owned())) }
    };
    paths.iter().map(folder).collect()
}

struct Watch<'a> {
    folders: Vec<PathBuf>,
    known: Known,
    skills: Arc<dyn Skills>,
    tier: Tier,
    target: Target,
    config: &'a Config,
    json: bool,
}

/// Why a look did not come to its end.
enum Halt {
    /// The registry cannot be asked for now.
    Lost(Failure),
    /// There is nothing more to do.
    Ended(Failure),
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Self {
        Self::Ended(failure)
    }
}

impl Watch<'_> {
    /// Follows the folders. Ends only with an error.
    async fn follow(&mut self, events: Events) -> Option<Failure> {
        let mut touched = Touched::everything();
        let mut is_first = true;
        loop {
            let began = Instant::now();
            match self.look(touched).await {
                Ok(()) => {
                    if std::mem::take(&mut is_first)
                        && let Err(failure) = self.say_ready()
                    {
                        return Some(failure);
                    }
                    touched = events.next(LOOK.max(began.elapsed() * LOOK_SHARE)).await;
                }
                Err(Halt::Ended(failure)) => return Some(failure),
                Err(Halt::Lost(failure)) => {
                    failure.print(self.json);
                    self.open_again().await;
                    // What the registry has now is not known.
                    touched = Touched::everything();
                }
            }
        }
    }

    async fn open_again(&mut self) {
        let mut wait = RETRY;
        loop {
            tokio::time::sleep(wait).await;
            match connect::open(&self.target, self.config, false).await {
                Ok(skills) => {
                    self.skills = skills;
                    return;
                }
                Err(_) => wait = (wait * 2).min(RETRY_MAX),
            }
        }
    }

    async fn look(&mut self, touched: Touched) -> Result<(), Halt> {
        let (folders, mut known) = (self.folders.clone(), std::mem::take(&mut self.known));
        let (known, looked) = blocking(move || {
            let looked = known.look(&folders, touched);
            (known, looked)
        })
        .await?;
        self.known = known;
        let work = looked?;
        for row in &work.refused {
            self.show(row)?;
        }
        if work.bundles.is_empty() && self.known.gone().is_empty() {
            return Ok(());
        }
        let catalog = self.skills.catalog().await.map_err(halt)?;
        let opened = Opened { catalog: catalog.clone(), skills: Some(self.skills.clone()) };
        let import = Import::new(&self.target, self.config, self.tier, false).with(opened);
        let mut imported = import.run(work.bundles, |_| {}).await;
        imported.rows.sort_by_key(|row| row.at);
        for row in &imported.rows {
            self.known.note(row);
            self.show(row)?;
        }
        if let Some(failure) = imported.lost {
            return Err(Halt::Lost(failure));
        }
        for (id, digest) in self.known.gone() {
            let removed =
                remove(&*self.skills, &catalog, self.tier, &id, digest).await.map_err(halt)?;
            self.known.forget(&id);
            match (removed, self.json) {
                (false, _) => {}
                (true, false) => output::line(&format!("removed {SCHEME}{id}")).map_err(failed)?,
                (true, true) => line(&json!({ "id": id.as_str(), "status": "removed" }))?,
            }
        }
        Ok(())
    }

    fn say_ready(&self) -> Result<(), Failure> {
        let count = self.known.count();
        if self.json {
            return line(&json!({ "status": "watching", "skills": count }));
        }
        let folders: Vec<String> = self.folders.iter().map(|folder| shown(folder)).collect();
        let count = output::counted(count, "skill");
        anstream::eprintln!("watching {} ({count})", folders.join(", "));
        Ok(())
    }

    fn show(&self, row: &Row) -> Result<(), Failure> {
        match self.json {
            true if matches!(row.outcome, Outcome::Unchanged(_)) => Ok(()),
            true => line(&show::to_json(row)),
            false => show::text(row, false, false),
        }
    }
}

/// A line for machines.
fn line(value: &serde_json::Value) -> Result<(), Failure> {
    output::line(&value.to_string()).map_err(failed)
}

fn failed(error: std::io::Error) -> Failure {
    error.into()
}

fn halt(error: RegistryError) -> Halt {
    match is_lost(&error) {
        true => Halt::Lost(error.into()),
        false => Halt::Ended(error.into()),
    }
}
