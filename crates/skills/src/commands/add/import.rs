//! Reading, judging and registering bundles, many at a time, each in a commit of its own.

use std::{num::NonZero, path::PathBuf, sync::Arc, thread};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use skills_core::{
    Bundle, Digest, SkillId, Tier,
    validate::{Finding, Level},
};
use skills_registry::{Catalog, RegistryError, Skills};
use tokio::sync::{OnceCell, Semaphore};

use super::{
    blocking,
    plan::{Planned, shown},
};
use crate::{Failure, cli::Target, config::Config, connect};

/// How many bundles are read and registered at a time: enough that the registry can commit them in groups, and
/// few enough that they fit in memory whatever they hold.
const IN_FLIGHT: usize = 16;

/// What became of a bundle.
#[derive(Debug)]
pub(super) enum Outcome {
    Added(Registered),
    Changed(Registered),
    Unchanged(Registered),
    Failed(Failure),
}

/// A bundle that the registry has.
#[derive(Debug)]
pub(super) struct Registered {
    pub(super) digest: Digest,
    pub(super) files: usize,
    pub(super) bytes: u64,
    /// When it was written, if it was.
    pub(super) registered_at: Option<String>,
}

/// One bundle and what became of it.
#[derive(Debug)]
pub(super) struct Row {
    /// Its number among all.
    pub(super) at: usize,
    pub(super) id: Option<SkillId>,
    pub(super) place: PathBuf,
    /// Where its root document is, and what was found there.
    pub(super) document: PathBuf,
    pub(super) findings: Vec<Finding>,
    pub(super) outcome: Outcome,
}

impl Row {
    pub(super) fn refused(
        at: usize,
        id: Option<SkillId>,
        place: PathBuf,
        failure: Failure,
    ) -> Self {
        let document = place.clone();
        Self { at, id, place, document, findings: vec![], outcome: Outcome::Failed(failure) }
    }
}

/// What was done.
pub(super) struct Imported {
    pub(super) rows: Vec<Row>,
    /// Why the rest was not tried.
    pub(super) lost: Option<Failure>,
}

/// What is known of the registry, and the registry itself unless nothing is to be done.
#[derive(Clone)]
pub(super) struct Opened {
    pub(super) catalog: Arc<Catalog>,
    pub(super) skills: Option<Arc<dyn Skills>>,
}

/// An import into a registry, which is opened when there is something for it: what cannot be read should leave
/// no trace.
pub(super) struct Import<'a> {
    target: &'a Target,
    config: &'a Config,
    tier: Tier,
    dry_run: bool,
    opened: OnceCell<Opened>,
    /// As many read at a time as there are cores: more threads only get into each other's way.
    readers: Semaphore,
}

/// A bundle that was read, judged and found usable.
struct Loaded {
    document: PathBuf,
    findings: Vec<Finding>,
    bundle: Result<Bundle<Bytes>, Failure>,
}

/// Whether the registry could not be asked, so that the next question is as vain.
pub(super) fn is_lost(error: &RegistryError) -> bool {
    const CODES: [&str; 6] = [
        "connection_lost",
        "function_not_found",
        "invocation_stopped",
        "not_connected",
        "shutting_down",
        "timeout",
    ];
    CODES.contains(&error.code())
}

impl<'a> Import<'a> {
    pub(super) fn new(target: &'a Target, config: &'a Config, tier: Tier, dry_run: bool) -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let readers = Semaphore::new(cores);
        Self { target, config, tier, dry_run, opened: OnceCell::new(), readers }
    }

    /// The same into a registry that is open.
    pub(super) fn with(self, opened: Opened) -> Self {
        Self { opened: OnceCell::from(opened), ..self }
    }

    async fn opened(&self) -> Result<&Opened, Failure> {
        self.opened.get_or_try_init(|| self.open()).await
    }

    async fn open(&self) -> Result<Opened, Failure> {
        let opened = connect::open(self.target, self.config, !self.dry_run).await;
        let skills = match opened {
            Ok(skills) => skills,
            // Where there is no registry yet, everything would be new to it.
            Err(failure) if self.dry_run && failure.code == "nothing_to_open" => {
                return Ok(Opened { catalog: Arc::default(), skills: None });
            }
            Err(failure) => return Err(failure),
        };
        let catalog = skills.catalog().await?;
        Ok(Opened { catalog, skills: (!self.dry_run).then_some(skills) })
    }

    /// Imports all, and says how many are done after each.
    pub(super) async fn run(&self, bundles: Vec<Planned>, mut done: impl FnMut(usize)) -> Imported {
        let mut imported = Imported { rows: Vec::with_capacity(bundles.len()), lost: None };
        let mut results =
            stream::iter(bundles).map(|planned| self.one(planned)).buffer_unordered(IN_FLIGHT);
        while let Some(result) = results.next().await {
            match result {
                Ok(row) => imported.rows.push(row),
                Err(failure) => {
                    imported.lost = Some(failure);
                    return imported;
                }
            }
            done(imported.rows.len());
        }
        imported
    }

    /// Imports one; an error when no other could be either.
    async fn one(&self, planned: Planned) -> Result<Row, Failure> {
        let Planned { at, id, candidate } = planned;
        let place = candidate.place().to_owned();
        let Loaded { document, findings, bundle } = {
            let _turn = self.readers.acquire().await;
            blocking(move || load(&candidate)).await?
        };
        let outcome = match bundle {
            Ok(bundle) => self.register(&id, bundle).await?,
            Err(failure) => Outcome::Failed(failure),
        };
        Ok(Row { at, id: Some(id), place, document, findings, outcome })
    }

    async fn register(&self, id: &SkillId, bundle: Bundle<Bytes>) -> Result<Outcome, Failure> {
        let meta = bundle.meta();
        let mut registered = Registered {
            digest: meta.digest(),
            files: meta.files.len(),
            bytes: meta.files.iter().map(|file| file.size).sum(),
            registered_at: None,
        };
        let Opened { catalog, skills } = self.opened().await?;
        let present = catalog.held_skill(self.tier, id.as_str()).map(|row| row.meta.digest());
        if present == Some(registered.digest) {
            return Ok(Outcome::Unchanged(registered));
        }
        if let Some(skills) = skills {
            match skills.register_bundle_in(self.tier, id.as_str(), bundle).await {
                Ok(moment) => registered.registered_at = Some(moment),
                Err(error) if is_lost(&error) => return Err(error.into()),
                Err(error) => return Ok(Outcome::Failed(error.into())),
            }
        }
        Ok(match present {
            None => Outcome::Added(registered),
            Some(_) => Outcome::Changed(registered),
        })
    }
}

fn load(candidate: &skills_bundles::Candidate) -> Loaded {
    let contents = match candidate.read() {
        Ok(contents) => contents,
        Err(error) => {
            let document = candidate.place().to_owned();
            return Loaded { document, findings: vec![], bundle: Err(error.into()) };
        }
    };
    let document = contents.document_place();
    let findings = contents.report().findings;
    let bundle = match findings.iter().find(|finding| finding.level == Level::Error) {
        None => contents.into_bundle().map_err(Failure::from),
        Some(Finding { line, column, message, hint, .. }) => {
            let message = format!("{}:{line}:{column}: {message}", shown(&document));
            Err(Failure::new("invalid_skill", message).hint(hint))
        }
    };
    Loaded { document, findings, bundle }
}

/// Removes a skill, unless the registry has something else under its id by now.
pub(super) async fn remove(
    skills: &dyn Skills,
    catalog: &Catalog,
    tier: Tier,
    id: &SkillId,
    digest: Digest,
) -> Result<bool, RegistryError> {
    match catalog.held_skill(tier, id.as_str()) {
        Some(row) if row.meta.digest() == digest => skills.remove_skill_in(tier, id.as_str()).await,
        _ => Ok(false),
    }
}
