//! Reads and validates bundles concurrently, and registers them together.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use skills_agent_skills::{
    Bundle,
    validate::{Finding, FindingLevel},
};
use skills_bundles::BundleCandidate;
use skills_core::{Code, Coded, Digest, SkillId, Tier};
use skills_registry::{
    BundlePublication, Catalog, PublishRequest, Published, RegistryError, SkillRegistry, SkillRow,
};
use skills_remote::is_unreachable;
use tokio::sync::{Mutex, OnceCell, Semaphore};

use super::{
    conflict::{conflict_error, other_source, renamed_ids},
    known_sources::KnownSources,
    plan::{Planned, duplicate_id},
    row::{Outcome, Registered, Row},
};
use crate::{
    Failure,
    blocking::{blocking, cores},
    cli::{ConflictArg, Target},
    config::Config,
    connect::{self, RegistrySource},
    fetch::ChosenBy,
    output::path as display,
    publication_batch::PublicationBatch,
};

/// Bundles that are read at once.
const CONCURRENCY: usize = 16;
/// Finding of a plain document, which is registered with a warning.
const PLAIN_DOCUMENT: &str = "frontmatter-missing";

/// Result of an import.
pub(super) struct Imported {
    pub(super) rows: Vec<Row>,
    /// Error that ended the import early.
    pub(super) aborted: Option<Failure>,
}

/// The registry and a snapshot of its catalog; a dry run has only the catalog.
#[derive(Clone)]
pub(super) struct OpenedRegistry {
    pub(super) catalog: Arc<Catalog>,
    pub(super) skills: Option<Arc<dyn SkillRegistry>>,
    /// Location of the registry; `None` if there is none yet.
    pub(super) source: Option<RegistrySource>,
}

/// Options of an import.
#[derive(Debug, Clone)]
pub(super) struct ImportOptions {
    pub(super) tier: Tier,
    pub(super) on_conflict: ConflictArg,
    /// Registers documents with errors as plain Markdown.
    pub(super) plain: bool,
    pub(super) dry_run: bool,
    /// Party that chose the sources. Those of the user are recorded.
    pub(super) chosen_by: ChosenBy,
    /// Message and condition of the new versions.
    pub(super) publish: PublishRequest,
}

/// An import into a registry. The store is created only when there is something to write.
pub(super) struct Import<'a> {
    target: &'a Target,
    config: &'a Config,
    options: ImportOptions,
    opened: OnceCell<OpenedRegistry>,
    /// Error of [`Import::open_existing`], returned to the first user of the registry.
    open_error: Mutex<Option<Failure>>,
    /// Limits concurrent reads to the number of cores.
    readers: Semaphore,
    /// Ids of this import, which no renamed bundle may get.
    claimed: Mutex<HashSet<SkillId>>,
}

/// A bundle that was read and validated.
struct Loaded {
    planned: Planned,
    document: PathBuf,
    findings: Vec<Finding>,
    bundle: Result<Bundle<Bytes>, Failure>,
}

/// Bundle after it was read and compared with the registry.
enum Step {
    Done(Row),
    Publish(Box<Pending>, BundlePublication),
}

/// Row of a bundle that is being registered.
struct Pending {
    row: Row,
    registered: Registered,
    is_present: bool,
    /// Source of the content that is replaced.
    other: Option<String>,
}

impl Pending {
    /// Returns the row after the registry has the bundle, or had it already.
    fn into_row(self, published: Option<Published>) -> Row {
        let Self { mut row, mut registered, is_present, other } = self;
        let is_created = published.as_ref().is_none_or(|published| published.created);
        registered.published = published;
        row.outcome = match (is_created, is_present, other) {
            (false, ..) => Outcome::Unchanged(registered),
            (true, false, _) => Outcome::Added(registered),
            (true, true, None) => Outcome::Changed(registered),
            (true, true, Some(other)) => Outcome::Replaced(registered, other),
        };
        row
    }
}

impl Loaded {
    fn into_row(self, outcome: Outcome) -> Row {
        let Self { planned, document, findings, .. } = self;
        Row { document, findings, ..Row::of_planned(planned, outcome) }
    }
}

impl<'a> Import<'a> {
    pub(super) fn new(target: &'a Target, config: &'a Config, options: ImportOptions) -> Self {
        Self {
            target,
            config,
            options,
            opened: OnceCell::new(),
            open_error: Mutex::default(),
            readers: Semaphore::new(cores()),
            claimed: Mutex::default(),
        }
    }

    /// Uses an open registry.
    pub(super) fn with_registry(self, opened: OpenedRegistry) -> Self {
        Self { opened: OnceCell::from(opened), ..self }
    }

    async fn registry(&self) -> Result<&OpenedRegistry, Failure> {
        if let Some(failure) = self.open_error.lock().await.take() {
            return Err(failure);
        }
        self.opened.get_or_try_init(|| self.open(!self.options.dry_run)).await
    }

    /// Opens an existing registry while the bundles are searched. Reports an error later, when the registry is used.
    pub(super) async fn open_existing(&self) {
        let error = match self.opened.get_or_try_init(|| self.open(false)).await {
            Err(failure) if failure.code != Code::NothingToOpen => Some(failure),
            Ok(_) | Err(_) => None,
        };
        *self.open_error.lock().await = error;
    }

    async fn open(&self, create: bool) -> Result<OpenedRegistry, Failure> {
        let opened = connect::open_with_source(self.target, self.config, create).await;
        let (skills, source) = match opened {
            Ok(opened) => opened,
            // Without a registry every bundle would be new.
            Err(failure) if self.options.dry_run && failure.code == Code::NothingToOpen => {
                let catalog = Arc::default();
                return Ok(OpenedRegistry { catalog, skills: None, source: None });
            }
            Err(failure) => return Err(failure),
        };
        let catalog = skills.catalog().await?;
        let skills = (!self.options.dry_run).then_some(skills);
        Ok(OpenedRegistry { catalog, skills, source: Some(source) })
    }

    /// Imports all bundles and calls `done` with the number of finished ones after each.
    pub(super) async fn run(&self, bundles: Vec<Planned>, mut done: impl FnMut(usize)) -> Imported {
        let mut imported = Imported { rows: Vec::with_capacity(bundles.len()), aborted: None };
        self.claimed.lock().await.extend(bundles.iter().map(|planned| planned.id.clone()));
        let candidates: Vec<_> =
            bundles.iter().map(|planned| Arc::clone(&planned.candidate)).collect();
        let mut results = stream::iter(group_by_id(bundles))
            .map(|group| self.import_copies(group))
            .buffer_unordered(CONCURRENCY);
        let mut batch = PublicationBatch::default();
        while let Some(result) = results.next().await {
            let steps = match result {
                Ok(steps) => steps,
                Err(failure) => {
                    imported.aborted = Some(failure);
                    return imported;
                }
            };
            for step in steps {
                match step {
                    Step::Done(row) => imported.rows.push(row),
                    Step::Publish(pending, publication) => {
                        if let Some(full) = batch.push(*pending, publication) {
                            self.publish(full, &mut imported).await;
                        }
                    }
                }
            }
            if imported.aborted.is_some() {
                return imported;
            }
            done(imported.rows.len() + batch.len());
        }
        self.publish(batch, &mut imported).await;
        if imported.aborted.is_none() {
            self.record_sources(&candidates);
        }
        imported
    }

    /// Registers bundles together.
    async fn publish(&self, batch: PublicationBatch<Pending>, imported: &mut Imported) {
        let Some(skills) = self.opened.get().and_then(|opened| opened.skills.as_ref()) else {
            return;
        };
        let results = match batch.publish(&**skills, self.options.tier).await {
            Ok(results) => results,
            Err(error) => {
                imported.aborted = Some(error.into());
                return;
            }
        };
        for (pending, result) in results {
            match result {
                Ok(published) => imported.rows.push(pending.into_row(Some(published))),
                Err(error) if is_unreachable(error.code()) => {
                    imported.aborted = Some(error.into());
                }
                Err(error) => {
                    let outcome = Outcome::Failed(error.into());
                    imported.rows.push(Row { outcome, ..pending.row });
                }
            }
        }
    }

    /// Records the sources that the user has added. Without a record `update` treats them as those of the registry.
    fn record_sources(&self, candidates: &[Arc<BundleCandidate>]) {
        let source = self.opened.get().and_then(|opened| opened.source.as_ref());
        let ImportOptions { dry_run, chosen_by, .. } = self.options;
        let Some(source) = source.filter(|_| !dry_run && chosen_by == ChosenBy::User) else {
            return;
        };
        let mut known = KnownSources::load(self.target.data_dir.as_deref(), source);
        let sources = candidates.iter().filter_map(|candidate| candidate.provenance());
        if let Err(error) = known.record(sources) {
            tracing::warn!(%error, "sources not recorded; `update` will ask about them");
        }
    }

    /// Imports the bundles of one id, usually a single one. Equal copies count once, and an unusable copy does not
    /// affect the others. Returns an error if all other bundles would fail as well.
    async fn import_copies(&self, copies: Vec<Planned>) -> Result<Vec<Step>, Failure> {
        let mut rows = Vec::with_capacity(copies.len());
        let mut versions: Vec<(Digest, Loaded)> = Vec::new();
        for planned in copies {
            let is_linked = planned.candidate.is_linked();
            let loaded = self.load(planned).await?;
            let digest = match &loaded.bundle {
                Ok(bundle) => bundle.meta().digest(),
                Err(failure) => {
                    let outcome = Outcome::Failed(failure.clone());
                    rows.push(Step::Done(loaded.into_row(outcome)));
                    continue;
                }
            };
            // A bundle whose document is a link comes last, and has that document and perhaps no other file.
            let is_copy = |(known, _): &&(Digest, Loaded)| is_linked || *known == digest;
            match versions.iter().find(is_copy) {
                Some((_, first)) => {
                    let place = first.planned.candidate.path().to_owned();
                    rows.push(Step::Done(loaded.into_row(Outcome::Duplicate(place))));
                }
                None => versions.push((digest, loaded)),
            }
        }
        let versions: Vec<Loaded> = versions.into_iter().map(|(_, loaded)| loaded).collect();
        rows.extend(self.import_versions(versions).await?);
        Ok(rows)
    }

    /// Imports different bundles of one id. Without a rule for conflicts none of several can be preferred.
    async fn import_versions(&self, versions: Vec<Loaded>) -> Result<Vec<Step>, Failure> {
        let places: Vec<PathBuf> =
            versions.iter().map(|loaded| loaded.planned.candidate.path().to_owned()).collect();
        let on_conflict = self.options.on_conflict;
        let mut rows = Vec::with_capacity(versions.len());
        for (at, mut loaded) in versions.into_iter().enumerate() {
            let id = loaded.planned.id.clone();
            let row = match (on_conflict, places.as_slice(), at) {
                (_, [_], _) | (ConflictArg::Skip | ConflictArg::Rename, _, 0) => {
                    self.register(loaded, false).await?
                }
                (ConflictArg::Rename, ..) => self.register(loaded, true).await?,
                (ConflictArg::Skip, [first, ..], _) => {
                    let reason = format!("{} has the same id", display(first));
                    Step::Done(loaded.into_row(Outcome::Skipped(reason)))
                }
                (_, [one, other, ..], _) => {
                    loaded.findings.clear();
                    Step::Done(loaded.into_row(Outcome::Failed(duplicate_id(&id, one, other))))
                }
                (_, [], _) => continue,
            };
            rows.push(row);
        }
        Ok(rows)
    }

    async fn load(&self, planned: Planned) -> Result<Loaded, Failure> {
        let _permit = self.readers.acquire().await;
        let plain = self.options.plain;
        blocking(move || load(planned, plain)).await
    }

    /// Decides how a bundle is registered, under another id if its own is taken and conflicts are to be renamed.
    async fn register(&self, loaded: Loaded, must_rename: bool) -> Result<Step, Failure> {
        let Loaded { planned, document, findings, bundle } = loaded;
        let bundle = match bundle {
            Ok(bundle) => bundle,
            Err(failure) => {
                let row = Row::of_planned(planned, Outcome::Failed(failure));
                return Ok(Step::Done(Row { document, findings, ..row }));
            }
        };
        let (wanted, OpenedRegistry { catalog, .. }) = (planned.id.clone(), self.registry().await?);
        let candidate = Arc::clone(&planned.candidate);
        let present = catalog.exact_skill(self.options.tier, wanted.as_str());
        let is_equal =
            present.is_some_and(|present| present.meta.digest() == bundle.meta().digest());
        let other = present.filter(|_| !is_equal).and_then(|row| other_source(row, &candidate));
        let mut row =
            Row { document, findings, ..Row::of_planned(planned, Outcome::Skipped(String::new())) };
        let id = match (other, self.options.on_conflict) {
            (Some(other), ConflictArg::Refuse) => {
                row.outcome =
                    Outcome::Failed(conflict_error(&wanted, &other, candidate.provenance()));
                return Ok(Step::Done(row));
            }
            (Some(other), ConflictArg::Skip) => {
                row.outcome = Outcome::Skipped(format!("it came from {other}"));
                return Ok(Step::Done(row));
            }
            (Some(_), ConflictArg::Rename) => self.rename(catalog, &wanted, &candidate).await,
            _ if must_rename => self.rename(catalog, &wanted, &candidate).await,
            _ => Some(wanted.clone()),
        };
        let Some(id) = id else {
            let message = format!("no free id for {wanted}");
            row.outcome = Outcome::Failed(Failure::new(Code::DuplicateId, message));
            return Ok(Step::Done(row));
        };
        row.renamed_from = (id != wanted).then_some(wanted);
        row.id = Some(id.clone());
        self.step(row, &id, bundle, &candidate).await
    }

    /// Returns the first id that is free, or that has content of the same source.
    async fn rename(
        &self,
        catalog: &Catalog,
        id: &SkillId,
        candidate: &BundleCandidate,
    ) -> Option<SkillId> {
        let mut claimed = self.claimed.lock().await;
        let is_free = |id: &SkillId| {
            let present = catalog.exact_skill(self.options.tier, id.as_str());
            !claimed.contains(id)
                && present.is_none_or(|row| other_source(row, candidate).is_none())
        };
        let id = renamed_ids(id).find(is_free)?;
        claimed.insert(id.clone());
        Some(id)
    }

    /// Compares a bundle with the registry.
    async fn step(
        &self,
        row: Row,
        id: &SkillId,
        bundle: Bundle<Bytes>,
        candidate: &BundleCandidate,
    ) -> Result<Step, Failure> {
        let meta = bundle.meta();
        let registered = Registered {
            digest: meta.digest(),
            files: meta.files.len(),
            bytes: meta.files.iter().map(|file| file.size).sum(),
            published: None,
        };
        let OpenedRegistry { catalog, skills, .. } = self.registry().await?;
        let present = catalog.exact_skill(self.options.tier, id.as_str());
        let request = self.options.publish.clone();
        let is_newest =
            |row: &Arc<SkillRow>| row.meta.digest() == registered.digest && is_latest(row);
        if request.expected_version.is_none() && present.is_some_and(is_newest) {
            return Ok(Step::Done(Row { outcome: Outcome::Unchanged(registered), ..row }));
        }
        let other = present.and_then(|row| other_source(row, candidate));
        let pending = Pending { row, registered, is_present: present.is_some(), other };
        if skills.is_none() {
            return Ok(Step::Done(pending.into_row(None)));
        }
        let publication = BundlePublication { id: id.to_string(), bundle, request, label: None };
        Ok(Step::Publish(Box::new(pending), publication))
    }
}

/// Returns whether the served version of a skill is its newest. A registry without history has only that.
fn is_latest(row: &SkillRow) -> bool {
    row.heads.as_ref().is_none_or(|heads| heads.served == heads.latest)
}

/// Groups bundles by id, in their order. Bundles whose document is a link come last in their group.
fn group_by_id(bundles: Vec<Planned>) -> Vec<Vec<Planned>> {
    let mut at: HashMap<SkillId, usize> = HashMap::new();
    let mut groups: Vec<Vec<Planned>> = Vec::new();
    for planned in bundles {
        let group = *at.entry(planned.id.clone()).or_insert(groups.len());
        match groups.get_mut(group) {
            Some(group) => group.push(planned),
            None => groups.push(vec![planned]),
        }
    }
    for group in &mut groups {
        group.sort_by_key(|planned| planned.candidate.is_linked());
    }
    groups
}

/// Reads and validates a bundle. A document without frontmatter, or with `plain` any document, is plain Markdown; its
/// errors are warnings then.
fn load(planned: Planned, plain: bool) -> Loaded {
    let contents = match planned.candidate.read() {
        Ok(contents) => contents,
        Err(error) => {
            let document = planned.candidate.path().to_owned();
            return Loaded { planned, document, findings: vec![], bundle: Err(error.into()) };
        }
    };
    let document = contents.document_path();
    let mut findings = contents.report().findings.clone();
    for finding in &mut findings {
        if finding.level == FindingLevel::Error && (plain || finding.code == PLAIN_DOCUMENT) {
            finding.level = FindingLevel::Warning;
        }
    }
    let bundle = match findings.iter().find(|finding| finding.level == FindingLevel::Error) {
        None => contents.into_bundle().map_err(Failure::from),
        Some(Finding { line, column, message, hint, .. }) => {
            let message = format!("{}:{line}:{column}: {message}", display(&document));
            let hint = format!("{hint}; or register it as plain Markdown with --plain");
            Err(Failure::new(Code::InvalidSkill, message).hint(hint))
        }
    };
    Loaded { planned, document, findings, bundle }
}

/// Removes a skill unless the registry has another version of it by now.
pub(super) async fn remove(
    skills: &dyn SkillRegistry,
    catalog: &Catalog,
    tier: Tier,
    id: &SkillId,
    digest: Digest,
) -> Result<bool, RegistryError> {
    match catalog.exact_skill(tier, id.as_str()) {
        Some(row) if row.meta.digest() == digest => skills.remove_skill(tier, id.as_str()).await,
        _ => Ok(false),
    }
}
