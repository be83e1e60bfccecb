//! `update`: fetches the sources of skills again, shows what would change, and registers it if the user agrees.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

use skills_bundles::BundleCandidate;
use skills_core::{Code, Provenance, SkillId, SourceKind, Tier};
use skills_registry::{Catalog, PublishRequest, RegistryError, SkillRegistry, SkillRow};

use super::{
    import::{Import, ImportOptions, Imported, OpenedRegistry},
    known_sources::KnownSources,
    plan::Planned,
    print,
    row::{Outcome, Row},
};
use crate::{
    Failure,
    blocking::blocking,
    cli::{ConflictArg, Target, UpdateArgs},
    config::Config,
    connect::{self, RegistrySource},
    fetch::{ChosenBy, DEFAULT_HOST, Fetcher, SourceSpec},
    output::{self, Confirmation},
};

/// Place to fetch from: location and reference, by the kind of the place.
type SourceKey = (&'static str, String, Option<String>);

pub(in super::super) async fn run(
    args: UpdateArgs,
    target: &Target,
    config: &Config,
    cancelled: Arc<AtomicBool>,
) -> Result<(), Failure> {
    let UpdateArgs { ids, yes, plan, insecure, format, .. } = args;
    let (skills, source) = connect::open_with_source(target, config, false).await?;
    let catalog = skills.catalog().await?;
    let rows = select(&catalog, &ids)?;
    if rows.is_empty() && !format.json {
        return Ok(output::line("No skill came from a repository or a URL.")?);
    }
    let known = KnownSources::load(target.data_dir.as_deref(), &source);
    let host = config.git_host.as_deref().unwrap_or(DEFAULT_HOST);
    let fetcher = Fetcher::new(host, insecure, format.json, cancelled);
    let consent = Consent { yes, json: format.json || plan, known, fetcher };
    let Found { planned, mut rejected } = fetch(&rows, &consent).await;
    let update = Update { target, config, skills, source, catalog: Arc::clone(&catalog) };
    let mut imported = update.import(&planned, !yes).await;
    imported.rows.append(&mut rejected);
    imported.rows.sort_by_key(|row| row.at);
    let changes = imported.rows.iter().filter(|row| matches!(row.outcome, Outcome::Changed(_)));
    let changes = changes.count();
    let printed = print::print_report(imported.rows, !yes, format.json, imported.aborted);
    if yes || plan || format.json || changes == 0 {
        return printed;
    }
    let question = format!("Register {}?", output::counted(changes, "changed skill"));
    match confirm(question).await? {
        Confirmation::Yes => {
            let Imported { mut rows, aborted } = update.import(&planned, false).await;
            rows.sort_by_key(|row| row.at);
            print::print_report(rows, false, false, aborted)
        }
        Confirmation::No => printed,
        Confirmation::NotAsked => {
            output::notice("note", "apply the changes with `skills update --yes`");
            printed
        }
    }
}

/// Returns the skills to update: the named ones, or all that came from a repository or a URL.
fn select<'a>(catalog: &'a Catalog, ids: &[String]) -> Result<Vec<&'a Arc<SkillRow>>, Failure> {
    if ids.is_empty() {
        let is_remote = |row: &&Arc<SkillRow>| {
            let source = row.meta.provenance.as_deref();
            source.is_some_and(|it| matches!(it.kind, SourceKind::Git | SourceKind::Url))
        };
        return Ok(catalog.skills_after(None).filter(is_remote).collect());
    }
    let named = ids.iter().map(|id| {
        let _: SkillId = id.parse().map_err(RegistryError::from)?;
        let row = catalog.skill(id);
        let row =
            row.ok_or_else(|| Failure::new(Code::NotFound, format!("skill not found: {id}")))?;
        match row.meta.provenance.as_deref() {
            Some(provenance) if provenance.can_be_fetched() => Ok(row),
            provenance => {
                let source = provenance
                    .map_or_else(|| "an unknown source".to_owned(), Provenance::to_string);
                let message = format!("{id} came from {source} and cannot be fetched again");
                Err(Failure::new(Code::Unsupported, output::plain(&message)))
            }
        }
    });
    named.collect()
}

/// Bundles that were fetched again.
#[derive(Default)]
struct Found {
    planned: BTreeMap<Tier, Vec<Planned>>,
    /// Results of skills that are not in their source any more, or whose source cannot be fetched.
    rejected: Vec<Row>,
}

/// Consent of the user to fetch from a source.
struct Consent {
    yes: bool,
    json: bool,
    known: KnownSources,
    fetcher: Fetcher,
}

/// Asks on a thread of its own, so that Ctrl-C ends the command meanwhile.
pub(in super::super) async fn confirm(question: String) -> Result<Confirmation, Failure> {
    Ok(blocking(move || output::confirm(&question)).await??)
}

impl Consent {
    /// Returns the source to fetch. The user is asked about a location that was not added on this machine; with `--yes`
    /// it is printed.
    async fn source(&self, provenance: &Provenance) -> Result<SourceSpec, Failure> {
        let chosen_by = self.known.chosen_by(provenance);
        let spec = SourceSpec::from_provenance(provenance, chosen_by)?;
        if chosen_by == ChosenBy::User {
            return Ok(spec);
        }
        let location = output::plain(&provenance.location);
        if self.yes {
            if !self.json {
                output::notice("fetching", &format!("{location}, which the registry names"));
            }
            return Ok(spec);
        }
        let question = format!("Fetch {location}? The registry names it; it was not added here.");
        let answer = if self.json { Confirmation::NotAsked } else { confirm(question).await? };
        if answer == Confirmation::Yes {
            return Ok(spec);
        }
        let message =
            format!("{location} was chosen by the registry and not added on this machine");
        Err(Failure::new(Code::UntrustedSource, message)
            .hint("if you trust it, run the command again with --yes"))
    }
}

/// Fetches every source once, and finds the bundle of each skill in it.
async fn fetch(rows: &[&Arc<SkillRow>], consent: &Consent) -> Found {
    let mut by_source: BTreeMap<SourceKey, Vec<(usize, &SkillRow, &Provenance)>> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        let Some(source) = row.meta.provenance.as_deref() else { continue };
        let key = (source.kind.as_str(), source.location.clone(), source.reference.clone());
        by_source.entry(key).or_default().push((at + 1, row, source));
    }
    let mut found = Found::default();
    for skills in by_source.into_values() {
        let Some((_, _, source)) = skills.first() else { continue };
        let bundles = match consent.source(source).await {
            Ok(spec) => consent.fetcher.find(spec).await,
            Err(failure) => Err(failure),
        };
        let candidates = match bundles {
            Ok(bundles) => by_path(bundles.candidates),
            Err(failure) => {
                found.rejected.extend(skills.into_iter().map(|(at, row, source)| {
                    let place = PathBuf::from(&source.location);
                    Row::rejected(at, row.id.parse().ok(), place, failure.clone())
                }));
                continue;
            }
        };
        for (at, row, source) in skills {
            let Ok(id) = row.id.parse::<SkillId>() else { continue };
            match candidates.get(source.path.as_str()) {
                Some(candidate) => {
                    let candidate = Arc::clone(candidate);
                    let planned = Planned { at, id, shortened_from: None, candidate };
                    found.planned.entry(row.tier).or_default().push(planned);
                }
                None => {
                    let place = PathBuf::from(&source.location);
                    let reason = format!("it is no longer in {}", source.location);
                    found.rejected.push(Row::new(at, Some(id), place, Outcome::Skipped(reason)));
                }
            }
        }
    }
    found
}

fn by_path(candidates: Vec<BundleCandidate>) -> HashMap<String, Arc<BundleCandidate>> {
    let path = |candidate: &BundleCandidate| {
        candidate.provenance().map(|source| source.path.clone()).unwrap_or_default()
    };
    candidates.into_iter().map(|candidate| (path(&candidate), Arc::new(candidate))).collect()
}

struct Update<'a> {
    target: &'a Target,
    config: &'a Config,
    skills: Arc<dyn SkillRegistry>,
    source: RegistrySource,
    catalog: Arc<Catalog>,
}

impl Update<'_> {
    /// Imports the bundles, each into the tier of its skill.
    async fn import(&self, planned: &BTreeMap<Tier, Vec<Planned>>, dry_run: bool) -> Imported {
        let mut all = Imported { rows: vec![], aborted: None };
        for (tier, bundles) in planned {
            let options = ImportOptions {
                tier: *tier,
                on_conflict: ConflictArg::Refuse,
                plain: true,
                dry_run,
                chosen_by: ChosenBy::Registry,
                publish: PublishRequest::default(),
            };
            let opened = OpenedRegistry {
                catalog: Arc::clone(&self.catalog),
                skills: (!dry_run).then(|| Arc::clone(&self.skills)),
                source: Some(self.source.clone()),
            };
            let import = Import::new(self.target, self.config, options).with_registry(opened);
            let imported = import.run(bundles.clone(), |_| {}).await;
            all.rows.extend(imported.rows);
            if imported.aborted.is_some() {
                all.aborted = imported.aborted;
                break;
            }
        }
        all
    }
}
