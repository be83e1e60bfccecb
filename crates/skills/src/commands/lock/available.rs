//! Content that the sources of a lockfile have now.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use skills_bundles::{
    BundleCandidate,
    lock::{FolderHashes, HashedFile, LockEntry, LockSource, Lockfile, is_copied_by_npx, npx_hash},
    sync::{DesiredFile, DesiredSkill, check_folder_name},
};
use skills_core::Code;

use super::DIR;
use crate::{
    Failure,
    blocking::blocking,
    fetch::{Fetcher, SiteSkill, SourceSpec},
};

/// A skill of the lockfile.
pub(super) struct LockedSkill {
    pub(super) name: String,
    /// Hash in the lockfile.
    pub(super) locked: Option<String>,
    /// Digest in the lockfile.
    pub(super) locked_digest: Option<String>,
    pub(super) available: Result<AvailableSkill, Failure>,
    is_pinned: bool,
}

impl LockedSkill {
    fn new(
        name: String,
        entry: Option<&LockEntry>,
        available: Result<AvailableSkill, Failure>,
    ) -> Self {
        let is_pinned =
            entry.zip(available.as_ref().ok()).is_some_and(|(entry, it)| entry.pins(&it.hashes));
        let locked = entry.and_then(LockEntry::hash);
        let locked_digest = entry.and_then(LockEntry::digest);
        Self { name, locked, locked_digest, available, is_pinned }
    }

    /// Returns whether the source has the content of the lockfile.
    pub(super) const fn is_as_locked(&self) -> bool {
        self.is_pinned
    }
}

/// A skill as its source has it now.
pub(super) struct AvailableSkill {
    pub(super) hashes: FolderHashes,
    /// Hash of the files that `npx skills` copies from a repository or a folder.
    pub(super) copied_hash: String,
    /// Digest of the artifact of a site.
    pub(super) artifact_digest: Option<String>,
    pub(super) desired: DesiredSkill,
}

/// Place that is fetched once for all its skills.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Git(String, Option<String>),
    Site(String),
    Path(PathBuf),
}

/// A skill in a place.
struct Wanted {
    name: String,
    /// Folder in a repository, if it is known.
    path: Option<String>,
}

/// Fetches the skills of a lockfile with some names; all if there are none. The result is in the order of names.
pub(super) async fn fetch(
    lock: &Lockfile,
    names: &[String],
    fetcher: &Fetcher,
) -> Result<Vec<LockedSkill>, Failure> {
    if let Some(name) = names.iter().find(|name| lock.get(name).is_none()) {
        let message = format!("{name} is not in the lockfile");
        return Err(Failure::new(Code::NotFound, message));
    }
    let mut found: BTreeMap<String, Result<AvailableSkill, Failure>> = BTreeMap::new();
    let mut places: BTreeMap<Place, Vec<Wanted>> = BTreeMap::new();
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|known| known == name);
    for (name, entry) in lock.entries().filter(|(name, _)| is_wanted(name)) {
        let place = check_folder_name(name).map_err(|error| error.to_string());
        match place.and_then(|()| entry.source()).map(|source| place_of(source, fetcher)) {
            Ok((place, path)) => {
                places.entry(place).or_default().push(Wanted { name: name.to_owned(), path });
            }
            Err(reason) => {
                let message = format!("{name}: {reason}");
                found.insert(name.to_owned(), Err(Failure::new(Code::Unsupported, message)));
            }
        }
    }
    for (place, wanted) in places {
        let names: Vec<String> = wanted.iter().map(|it| it.name.clone()).collect();
        match fetch_place(place, wanted, fetcher).await {
            Ok(skills) => found.extend(skills),
            Err(failure) if failure.code == Code::Interrupted => return Err(failure),
            Err(failure) => {
                found.extend(names.into_iter().map(|name| (name, Err(failure.clone()))));
            }
        }
    }
    let skill = |(name, available): (String, _)| {
        let entry = lock.get(&name);
        LockedSkill::new(name, entry, available)
    };
    Ok(found.into_iter().map(skill).collect())
}

/// Returns the place of a source, and the folder in it.
fn place_of(source: LockSource, fetcher: &Fetcher) -> (Place, Option<String>) {
    match source {
        LockSource::Git { url, reference, path } => (Place::Git(url, reference), Some(path)),
        LockSource::GitHub { repository, reference, path } => {
            let host = &fetcher.host;
            let base = if host.contains("://") { host.clone() } else { format!("https://{host}") };
            let url = format!("{}/{repository}", base.trim_end_matches('/'));
            (Place::Git(url, reference), Some(path))
        }
        LockSource::WellKnown { url } => (Place::Site(url), None),
        LockSource::Local { path } => (Place::Path(Path::new(DIR).join(path)), None),
    }
}

type FetchedSkills = Vec<(String, Result<AvailableSkill, Failure>)>;

async fn fetch_place(
    place: Place,
    wanted: Vec<Wanted>,
    fetcher: &Fetcher,
) -> Result<FetchedSkills, Failure> {
    let (shown, candidates) = match place {
        Place::Site(url) => return fetch_from_site(&url, wanted, fetcher).await,
        Place::Git(url, reference) => {
            let spec = SourceSpec::parse_repository(&url, reference, fetcher.rules())?;
            (url, fetcher.find(spec).await?.candidates)
        }
        Place::Path(path) => {
            let shown = path.display().to_string();
            (shown, fetcher.find(SourceSpec::Path(path)).await?.candidates)
        }
    };
    let mut candidates: Vec<Option<BundleCandidate>> = candidates.into_iter().map(Some).collect();
    let is_only = candidates.len() == 1;
    let mut skills = Vec::with_capacity(wanted.len());
    for Wanted { name, path } in wanted {
        let is_it = |candidate: &BundleCandidate| match &path {
            Some(path) => {
                let found = candidate.provenance().map(|provenance| provenance.path.as_str());
                found == Some(path.as_str())
            }
            None => is_only || candidate.id("").is_ok_and(|it| it.id.as_str() == name),
        };
        let candidate =
            candidates.iter_mut().find(|it| it.as_ref().is_some_and(is_it)).and_then(Option::take);
        let available = match candidate {
            Some(candidate) => read(name.clone(), candidate, None).await,
            None => Err(no_longer(&name, &shown)),
        };
        skills.push((name, available));
    }
    Ok(skills)
}

async fn fetch_from_site(
    url: &str,
    wanted: Vec<Wanted>,
    fetcher: &Fetcher,
) -> Result<FetchedSkills, Failure> {
    let names: Vec<String> = wanted.into_iter().map(|wanted| wanted.name).collect();
    let site = SourceSpec::parse_site(url, fetcher.rules())?;
    let mut found: BTreeMap<String, Result<AvailableSkill, Failure>> = BTreeMap::new();
    for SiteSkill { name, digest, candidates } in fetcher.fetch_site(&site, Some(&names)).await? {
        let available = match candidates.map(<[BundleCandidate; 1]>::try_from) {
            Ok(Ok([candidate])) => read(name.clone(), candidate, digest).await,
            Ok(Err(_)) => {
                let message = format!("the archive of {name} has not exactly one skill");
                Err(Failure::new(Code::BadArchive, message))
            }
            Err(failure) => Err(failure),
        };
        found.insert(name, available);
    }
    let skill = |name: String| {
        let available = found.remove(&name).unwrap_or_else(|| Err(no_longer(&name, url)));
        (name, available)
    };
    Ok(names.into_iter().map(skill).collect())
}

fn no_longer(name: &str, place: &str) -> Failure {
    let place = crate::fetch::public_url(place);
    Failure::new(Code::NotFound, format!("{name} is no longer in {place}"))
}

/// Reads a bundle in the form that is written to folders.
async fn read(
    name: String,
    candidate: BundleCandidate,
    artifact_digest: Option<String>,
) -> Result<AvailableSkill, Failure> {
    blocking(move || {
        let (meta, root, others) = candidate.read()?.into_bundle()?.into_parts();
        let files = meta.files.iter().skip(1).zip(others);
        let others = files.map(|(meta, (path, bytes))| {
            let executable = meta.is_executable(&bytes);
            DesiredFile { path, bytes, executable }
        });
        let others = others.collect();
        let (version, id) = (meta.digest(), name.clone());
        let desired = DesiredSkill { name, id, version, root: root.into(), others };
        let mut files: Vec<HashedFile<'_>> = desired.hashed_files().collect();
        let hashes = FolderHashes::of(&files);
        files.retain(|file| is_copied_by_npx(file.path));
        let copied_hash = npx_hash(&files);
        Ok(AvailableSkill { hashes, copied_hash, artifact_digest, desired })
    })
    .await?
}
