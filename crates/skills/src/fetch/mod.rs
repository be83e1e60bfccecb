//! Finds the bundles of sources, and fetches those that are not on this machine.
//!
//! - `spec`: sources as the user writes them; `address`: parts of their addresses
//! - `git`: repositories; `download`: bounded downloads
//! - `well_known`: sites with well-known discovery; `server`: skills of another server
//! - `marketplace`: plugins of a `marketplace.json`

mod address;
mod download;
mod git;
mod marketplace;
mod server;
mod spec;
mod well_known;

use std::{
    io::{ErrorKind, IsTerminal as _, Read as _},
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

use skills_bundles::{
    BundleCandidate, BundleError, FetchLimits, FoundBundles, archive::MAX_UNPACKED_BYTES,
    find_bundles, find_in_archive,
};
use skills_core::{Code, Provenance, RunningWork, SourceKind, limits::MAX_SKILL_BYTES};
use skills_upstream::{DnsResolver, SystemResolver};

pub(crate) use self::{
    address::public_url,
    spec::{ChosenBy, DEFAULT_HOST, SourceRules, SourceSpec},
    well_known::SiteSkill,
};
use self::{download::Downloaded, spec::ArchiveSource};
use crate::{Failure, blocking::blocking, output};

/// Bundles that were found, and errors about paths that belong to none of them.
#[derive(Default)]
pub(crate) struct Candidates {
    pub(crate) candidates: Vec<BundleCandidate>,
    pub(crate) faults: Vec<(PathBuf, Failure)>,
}

/// Fetches sources.
#[derive(Clone)]
pub(crate) struct Fetcher {
    /// Host of `owner/repo`.
    pub(crate) host: String,
    /// Allows http to other machines.
    pub(crate) insecure: bool,
    /// Lets git ask for credentials and show its progress.
    interactive: bool,
    limits: FetchLimits,
    /// Resolver of hosts that the user did not name.
    resolver: Arc<dyn DnsResolver>,
}

impl Fetcher {
    /// Creates a fetcher for a command. Fetches end when `cancelled` is set.
    pub(crate) fn new(host: &str, insecure: bool, json: bool, cancelled: Arc<AtomicBool>) -> Self {
        let interactive = !json && std::io::stderr().is_terminal();
        let limits = FetchLimits { cancelled, ..FetchLimits::default() };
        let resolver = Arc::new(SystemResolver);
        Self { host: host.to_owned(), insecure, interactive, limits, resolver }
    }

    /// Returns a fetcher that never uses the terminal.
    pub(crate) fn in_background(self) -> Self {
        Self { interactive: false, ..self }
    }

    /// Returns the rules for sources that the user writes.
    pub(crate) fn rules(&self) -> SourceRules<'_> {
        SourceRules { host: &self.host, insecure: self.insecure }
    }

    /// Finds the bundles of all arguments. Errors of one do not affect the others.
    ///
    /// # Errors
    /// When an argument is a URL that cannot be used, or the user interrupts.
    pub(crate) async fn find_all(&self, sources: Vec<PathBuf>) -> Result<Candidates, Failure> {
        let mut all = Candidates::default();
        for argument in sources {
            let spec = SourceSpec::parse(&argument, self.rules())?;
            match self.find_named(spec).await {
                Ok(found) => {
                    all.candidates.extend(found.candidates);
                    let faults = found.faults.into_iter();
                    all.faults.extend(faults.map(|failure| (argument.clone(), failure)));
                }
                Err(failure) => all.faults.push((argument, failure)),
            }
        }
        Ok(all)
    }

    /// Finds the bundles of a source that the user names. A web address that is not one of a repository may be that of a
    /// site, whose index is below it.
    ///
    /// # Errors
    /// When the source cannot be fetched, or has no bundle.
    pub(crate) async fn find_named(&self, spec: SourceSpec) -> Result<Found, Failure> {
        let site = match &spec {
            SourceSpec::Git(git) => SourceSpec::site_at(git, self.rules()),
            _ => None,
        };
        match (self.find(spec).await, site) {
            (Err(failure), Some(site)) if failure.code == Code::FetchFailed => {
                if well_known::has_index(&site).await {
                    return self.find(SourceSpec::Site(site)).await;
                }
                Err(failure)
            }
            (found, _) => found,
        }
    }

    /// Finds the bundles of a source, and fetches it first if it is not on this machine.
    ///
    /// # Errors
    /// When the source cannot be fetched, or has no bundle.
    pub(crate) async fn find(&self, spec: SourceSpec) -> Result<Found, Failure> {
        match spec {
            SourceSpec::Stdin => {
                let candidate = blocking(|| read_stdin(Path::new("-"))).await??;
                Ok(Found { candidates: vec![candidate], faults: vec![] })
            }
            SourceSpec::Path(path) => {
                let found = blocking(move || find_bundles(&path)).await?;
                Ok(found
                    .map_err(|error| match &error {
                        BundleError::Unreadable { source, .. }
                            if source.kind() == ErrorKind::NotFound =>
                        {
                            let hint =
                                "give a path that exists, a repository as owner/repo, or a URL";
                            Failure::from(error).hint(hint)
                        }
                        _ => error.into(),
                    })?
                    .into())
            }
            SourceSpec::Git(source) => Ok(self.find_in_git(source).await?.into()),
            SourceSpec::PublicGit(source) => Ok(self.find_in_public_git(source).await?.into()),
            SourceSpec::Archive(source) => {
                self.print_fetch(&public_url(source.url.as_str()));
                Ok(self.find_in_archive(source).await?.into())
            }
            SourceSpec::Site(site) => {
                self.print_fetch(&public_url(site.url.as_str()));
                let skills = self.fetch_site(&site, None).await?;
                let mut found = Found::default();
                for SiteSkill { candidates, .. } in skills {
                    match candidates {
                        Ok(candidates) => found.candidates.extend(candidates),
                        Err(failure) => found.faults.push(failure),
                    }
                }
                if found.candidates.is_empty() && found.faults.is_empty() {
                    let shown = public_url(site.url.as_str());
                    return Err(Failure::new(Code::NoBundle, format!("{shown} has no skills")));
                }
                Ok(found)
            }
            SourceSpec::Server(server) => {
                self.print_fetch(&public_url(server.site.url.as_str()));
                Ok(self.fetch_from_server(server).await?.into())
            }
            SourceSpec::Marketplace(source) => {
                self.print_fetch(&public_url(source.url.as_str()));
                self.fetch_marketplace(source).await
            }
        }
    }

    async fn find_in_archive(&self, source: ArchiveSource) -> Result<FoundBundles, Failure> {
        let ArchiveSource { url, may_be_local, sha256 } = source;
        let shown = public_url(url.as_str());
        let downloaded = download::download(url, may_be_local, self.interactive).await?;
        let origin = Provenance::new(SourceKind::Url, shown.as_str());
        bundles_of_archive(downloaded, sha256, shown, origin).await
    }

    fn print_fetch(&self, url: &str) {
        if self.interactive {
            output::notice("fetching", url);
        }
    }
}

/// Bundles of a source, and errors about its parts.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) candidates: Vec<BundleCandidate>,
    pub(crate) faults: Vec<Failure>,
}

impl From<FoundBundles> for Found {
    fn from(found: FoundBundles) -> Self {
        let FoundBundles { candidates, faults } = found;
        Self { candidates, faults: faults.into_iter().map(Failure::from).collect() }
    }
}

/// Finds the bundles in a downloaded archive, after its digest was checked.
async fn bundles_of_archive(
    downloaded: Downloaded,
    sha256: Option<String>,
    shown: String,
    origin: Provenance,
) -> Result<FoundBundles, Failure> {
    blocking(move || {
        let file = downloaded.verify(sha256.as_deref(), &shown)?;
        let mut work = RunningWork::of_process();
        Ok(find_in_archive(Path::new(&shown), file, &origin, MAX_UNPACKED_BYTES, &mut work)?)
    })
    .await?
}

fn read_stdin(path: &Path) -> Result<BundleCandidate, Failure> {
    let mut bytes = Vec::new();
    // One byte more than the limit is enough for the size check.
    std::io::stdin()
        .take(MAX_SKILL_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::new(Code::Unreadable, format!("cannot read stdin: {error}")))?;
    Ok(BundleCandidate::from_bytes(path, bytes.into()))
}
