//! One import of a source: what it has is registered, and what it no longer has is removed if nobody edited it.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::Arc,
};

use bytes::Bytes;
use skills_agent_skills::{Bundle, validate::FindingLevel};
use skills_bundles::BundleCandidate;
use skills_core::{Code, Digest, Provenance};
use skills_registry::{BundlePublication, Catalog, PublishRequest, SkillRegistry, SkillRow};

use super::state::{LockedState, SourceState, SourceStates, busy, now};
use crate::{
    Failure,
    blocking::blocking,
    config::SourceSettings,
    fetch::{Fetcher, SourceSpec, public_url},
    publication_batch::PublicationBatch,
};

/// Result of an import.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct ImportSummary {
    pub(crate) added: usize,
    pub(crate) changed: usize,
    pub(crate) unchanged: usize,
    pub(crate) removed: usize,
    pub(crate) skipped: usize,
}

/// Opens the state of a source, locked against other imports.
///
/// # Errors
/// When another process or server imports it, or its state cannot be read or written.
pub(crate) async fn open_state(
    states: &SourceStates,
    source: &SourceSettings,
) -> Result<LockedState, Failure> {
    let mut locked = states.open(&source.name).await?;
    let from = public_url(&source.from);
    // A source that moved elsewhere begins anew; its old skills stay.
    if locked.state.from != from || locked.state.tier != source.tier.as_str() {
        let (name, tier) = (source.name.clone(), source.tier.as_str().to_owned());
        locked.state = SourceState { name, from, tier, ..SourceState::default() };
    }
    Ok(locked)
}

/// Imports a source, and stores the result in its state. A failure keeps the skills of the last import. An import that loses
/// its lease ends: a batch of skills that is being registered is completed, and its result is stored nowhere.
///
/// # Errors
/// When the source cannot be fetched, or the registry cannot be written; [`Code::Busy`] when the lease was lost.
pub(crate) async fn import_source(
    source: &SourceSettings,
    skills: &dyn SkillRegistry,
    fetcher: &Fetcher,
    locked: &mut LockedState,
) -> Result<ImportSummary, Failure> {
    let lost = locked.loss_token();
    locked.state.last_attempt = Some(now());
    let import = Import { source, skills, state: &mut locked.state }.run(fetcher);
    let imported = tokio::select! {
        biased;
        () = lost.cancelled() => {
            tracing::warn!(source = source.name, "import cancelled, its lease was lost");
            return Err(busy("server", &source.name));
        }
        imported = import => imported,
    };
    match &imported {
        Ok(_) => {
            locked.state.error = None;
            locked.state.last_success.clone_from(&locked.state.last_attempt);
        }
        Err(failure) => locked.state.error = Some(failure.message.clone()),
    }
    locked.save().await?;
    imported
}

struct Import<'a> {
    source: &'a SourceSettings,
    skills: &'a dyn SkillRegistry,
    state: &'a mut SourceState,
}

/// A bundle that was read.
struct ReadBundle {
    bundle: Bundle<Bytes>,
    digest: Digest,
    candidate: BundleCandidate,
}

/// A skill that is being registered.
struct ImportedSkill {
    id: String,
    digest: Digest,
    is_new: bool,
}

/// Action for one skill.
enum Action {
    Register,
    /// The registry has this content from the source.
    Keep,
    /// The registry has this content from elsewhere.
    KeepOther,
    Skip(String),
}

impl Import<'_> {
    async fn run(mut self, fetcher: &Fetcher) -> Result<ImportSummary, Failure> {
        let spec = self.spec(fetcher)?;
        let found = fetcher.find_named(spec).await?;
        let mut skipped: BTreeMap<String, String> = BTreeMap::new();
        let faults = found.faults.len();
        for (number, fault) in found.faults.into_iter().enumerate() {
            skipped.insert(format!("({})", number + 1), fault.message);
        }
        let commit = found.candidates.first().and_then(BundleCandidate::provenance);
        let commit = commit.and_then(|provenance| provenance.commit.clone());
        let mut bundles: BTreeMap<String, Option<ReadBundle>> = BTreeMap::new();
        for candidate in found.candidates {
            let path = candidate.provenance().map(|it| it.path.clone()).unwrap_or_default();
            let id = match candidate.id("") {
                Ok(id) => id.id.to_string(),
                Err(error) => {
                    skipped.insert(path, error.to_string());
                    continue;
                }
            };
            if !self.source.includes(&id, &path) {
                continue;
            }
            match read(candidate).await? {
                // Copies of one skill are one skill; of different ones none can be preferred.
                Ok(bundle) => match bundles.get(&id) {
                    Some(Some(other)) if other.digest == bundle.digest => {}
                    Some(_) => {
                        skipped.insert(id.clone(), "two different skills have this id".to_owned());
                        bundles.insert(id, None);
                    }
                    None => {
                        bundles.insert(id, Some(bundle));
                    }
                },
                Err(reason) => {
                    skipped.insert(id.clone(), reason);
                    bundles.insert(id, None);
                }
            }
        }
        let mut summary = ImportSummary::default();
        let catalog = self.skills.catalog().await?;
        // A skill that cannot be used now keeps its last version.
        let present: HashMap<String, ()> = bundles.keys().map(|id| (id.clone(), ())).collect();
        let mut batch = PublicationBatch::default();
        for (id, bundle) in bundles {
            let Some(bundle) = bundle else { continue };
            let registration = self.apply(&id, bundle, &catalog, &mut summary, &mut skipped);
            if let Some((imported, publication)) = registration
                && let Some(full) = batch.push(imported, publication)
            {
                self.publish(full, &mut summary, &mut skipped).await?;
            }
        }
        self.publish(batch, &mut summary, &mut skipped).await?;
        // A part that could not be fetched may have any of the missing skills.
        if faults == 0 {
            self.remove_missing(&present, &catalog, &mut summary).await?;
        }
        summary.skipped = skipped.len();
        self.state.skipped = skipped;
        self.state.commit = commit;
        Ok(summary)
    }

    fn spec(&self, fetcher: &Fetcher) -> Result<SourceSpec, Failure> {
        let bad = |reason: &str| {
            let message = format!("source {}: {reason}", self.source.name);
            Failure::new(Code::BadSetting, message)
        };
        let spec = SourceSpec::parse(Path::new(&self.source.from), fetcher.rules())?;
        match (spec, &self.source.reference) {
            (SourceSpec::Stdin, _) => Err(bad("standard input is no source")),
            (SourceSpec::Git(git), Some(reference)) => {
                Ok(SourceSpec::Git(git.with_reference(Some(reference.clone()))))
            }
            (_, Some(_)) => Err(bad("only a repository has a ref")),
            (spec, None) => Ok(spec),
        }
    }

    /// Decides about a skill of the source by what the registry has and what was imported last.
    fn decide(&self, id: &str, bundle: &ReadBundle, row: Option<&SkillRow>) -> Action {
        let imported = self.state.skills.get(id);
        let recorded = imported.or_else(|| self.state.equal.get(id));
        let is_from = |row: &SkillRow| {
            let stored = row.meta.provenance.as_deref();
            stored.is_some_and(|stored| bundle.candidate.is_from(stored))
        };
        match (row, recorded) {
            (None, Some(recorded)) if *recorded == bundle.digest => {
                Action::Skip("it was removed here, and the source has not changed it".to_owned())
            }
            (None, _) => Action::Register,
            (Some(_), _) if imported == Some(&bundle.digest) => Action::Keep,
            (Some(row), _) if row.meta.digest() == bundle.digest => {
                if imported.is_some() || is_from(row) { Action::Keep } else { Action::KeepOther }
            }
            (Some(row), Some(recorded)) if imported.is_some() => {
                // A label may serve an older version than the last one that was imported.
                let is_pinned = row.heads.as_ref().is_some_and(|it| it.served != it.latest);
                if row.meta.digest() == *recorded || (is_pinned && is_from(row)) {
                    return Action::Register;
                }
                Action::Skip("it was edited here since it was imported".to_owned())
            }
            (Some(row), _) if is_from(row) => Action::Register,
            (Some(row), _) => {
                let other = row.meta.provenance.as_deref().map(Provenance::to_string);
                let other = other.unwrap_or_else(|| "an unknown source".to_owned());
                Action::Skip(format!("it came from {other}"))
            }
        }
    }

    /// Applies the decision about a skill. Returns it if it has to be registered.
    fn apply(
        &mut self,
        id: &str,
        bundle: ReadBundle,
        catalog: &Catalog,
        summary: &mut ImportSummary,
        skipped: &mut BTreeMap<String, String>,
    ) -> Option<(ImportedSkill, BundlePublication)> {
        let row = catalog.exact_skill(self.source.tier, id);
        match self.decide(id, &bundle, row.map(Arc::as_ref)) {
            Action::Skip(reason) => {
                skipped.insert(id.to_owned(), reason);
                None
            }
            Action::Keep => {
                summary.unchanged += 1;
                self.state.equal.remove(id);
                self.state.skills.insert(id.to_owned(), bundle.digest);
                None
            }
            Action::KeepOther => {
                summary.unchanged += 1;
                self.state.equal.insert(id.to_owned(), bundle.digest);
                None
            }
            Action::Register => {
                let ReadBundle { bundle, digest, .. } = bundle;
                let SourceSettings { name, label, .. } = self.source;
                let message = Some(format!("source {name}"));
                let request = PublishRequest { message, expected_version: None };
                let imported = ImportedSkill { id: id.to_owned(), digest, is_new: row.is_none() };
                let (id, label) = (id.to_owned(), label.clone());
                Some((imported, BundlePublication { id, bundle, request, label }))
            }
        }
    }

    /// Registers skills together, and records them.
    async fn publish(
        &mut self,
        batch: PublicationBatch<ImportedSkill>,
        summary: &mut ImportSummary,
        skipped: &mut BTreeMap<String, String>,
    ) -> Result<(), Failure> {
        for (imported, result) in batch.publish(self.skills, self.source.tier).await? {
            let ImportedSkill { id, digest, is_new } = imported;
            match result.map_err(Failure::from) {
                Ok(_) => {
                    *(if is_new { &mut summary.added } else { &mut summary.changed }) += 1;
                    self.state.equal.remove(&id);
                    self.state.skills.insert(id, digest);
                }
                Err(failure) if is_fatal(failure.code) => return Err(failure),
                Err(failure) => {
                    skipped.insert(id, failure.message);
                }
            }
        }
        Ok(())
    }

    /// Removes skills that the source no longer has, unless they came from elsewhere or were edited here since.
    async fn remove_missing(
        &mut self,
        present: &HashMap<String, ()>,
        catalog: &Catalog,
        summary: &mut ImportSummary,
    ) -> Result<(), Failure> {
        self.state.equal.retain(|id, _| present.contains_key(id));
        let missing = self.state.skills.iter().filter(|(id, _)| !present.contains_key(*id));
        let missing: Vec<(String, Digest)> =
            missing.map(|(id, digest)| (id.clone(), *digest)).collect();
        for (id, digest) in missing {
            let row = catalog.exact_skill(self.source.tier, &id);
            if row.is_some_and(|row| row.meta.digest() == digest) {
                self.skills.remove_skill(self.source.tier, &id).await?;
                summary.removed += 1;
            }
            self.state.skills.remove(&id);
        }
        Ok(())
    }
}

/// Returns whether all other skills would fail as well.
fn is_fatal(code: Code) -> bool {
    skills_remote::is_unreachable(code) || matches!(code, Code::WriterStopped | Code::StoreFull)
}

/// Reads and validates a bundle. A document without frontmatter is plain Markdown.
async fn read(candidate: BundleCandidate) -> Result<Result<ReadBundle, String>, Failure> {
    blocking(move || {
        let contents = candidate.read().map_err(|error| error.to_string())?;
        let is_error = |level| level == FindingLevel::Error;
        let error = contents.report().findings.iter().find(|finding| is_error(finding.level));
        if let Some(finding) = error.filter(|finding| finding.code != "frontmatter-missing") {
            return Err(finding.message.clone());
        }
        let bundle = contents.into_bundle().map_err(|error| error.to_string())?;
        let digest = bundle.meta().digest();
        Ok(ReadBundle { bundle, digest, candidate })
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, sync::atomic::AtomicBool};

    use skills_store::ImportRecords as _;

    use super::*;
    use crate::{
        config::{Config, Purpose},
        fetch::DEFAULT_HOST,
        pending_registry::PendingRegistry,
        sources::test_records::TestRecords,
    };

    #[tokio::test(start_paused = true)]
    async fn an_import_ends_when_its_lease_is_lost_and_saves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("SKILL.md"), "---\nname: a\ndescription: A.\n---\n")
            .unwrap();
        let path = folder.path().join("config.yaml");
        let from = folder.path().display();
        std::fs::write(&path, format!("sources: [{{name: a, from: {from}, tier: market}}]"))
            .unwrap();
        let config = Config::load(Some(&path), Purpose::Command).unwrap();
        let source = &config.sources[0];
        let records = Arc::new(TestRecords::default());
        let states = SourceStates::new(PathBuf::from("absent"), Some(Arc::clone(&records) as _));
        let mut locked = open_state(&states, source).await.unwrap();
        let fetcher = Fetcher::new(DEFAULT_HOST, false, true, Arc::new(AtomicBool::new(false)));
        // A registry that never answers.
        let (skills, _opener) = PendingRegistry::new();
        let other = records.steal("a");
        let imported = import_source(source, &skills, &fetcher, &mut locked).await;
        assert_eq!(imported.map_err(|failure| failure.code), Err(Code::Busy));
        assert!(!locked.is_saved());
        assert_eq!(records.text("a").unwrap(), None);
        assert!(records.save("a", other, "theirs").unwrap(), "the lease is still theirs");
    }
}
