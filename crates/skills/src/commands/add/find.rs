//! Finds the bundles of the sources that the user named.

use std::{
    io::{ErrorKind, IsTerminal as _, Read as _},
    path::{Path, PathBuf},
    time::Duration,
};

use skills_bundles::{
    BundleCandidate, BundleError, FoundBundles, archive::MAX_UNPACKED_BYTES, find_bundles,
    find_in_archive, find_in_repository,
};
use skills_core::{Code, Provenance, SourceKind, limits::MAX_SKILL_BYTES};
use skills_upstream::{Settings, UpstreamClient, UpstreamOrigin};

use super::{
    plan::Candidates,
    source::{ArchiveSource, SourceSpec, public_url},
};
use crate::{Failure, blocking::blocking, output};

/// Time for the download of an archive.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(600);
const MAX_REDIRECTS: usize = 5;

/// Finds the bundles of all sources. Errors of one do not affect the others.
pub(super) async fn find(
    sources: Vec<PathBuf>,
    host: &str,
    json: bool,
) -> Result<Candidates, Failure> {
    let mut all = Candidates::default();
    for argument in sources {
        let spec = SourceSpec::parse(&argument, host)?;
        match find_one(spec, json).await {
            Ok(found) => {
                all.candidates.extend(found.candidates);
                let faults = found.faults.into_iter().map(|error| (argument.clone(), error.into()));
                all.faults.extend(faults);
            }
            Err(failure) => all.faults.push((argument, failure)),
        }
    }
    Ok(all)
}

/// Finds the bundles of a source, and fetches it first if it is not on this machine.
pub(super) async fn find_one(spec: SourceSpec, json: bool) -> Result<FoundBundles, Failure> {
    let interactive = !json && std::io::stderr().is_terminal();
    match spec {
        SourceSpec::Stdin => {
            let candidate = blocking(|| read_stdin(Path::new("-"))).await??;
            Ok(FoundBundles { candidates: vec![candidate], faults: vec![] })
        }
        SourceSpec::Path(path) => {
            blocking(move || find_bundles(&path)).await?.map_err(|error| match &error {
                BundleError::Unreadable { source, .. } if source.kind() == ErrorKind::NotFound => {
                    let hint = "give a path that exists, a repository as owner/repo, or a URL";
                    Failure::from(error).hint(hint)
                }
                _ => error.into(),
            })
        }
        SourceSpec::Git(source) => {
            print_fetch(source.public_url(), interactive);
            let found = blocking(move || find_in_repository(&source, interactive)).await?;
            found.map_err(|error| {
                let is_fetch = matches!(error, BundleError::Fetch { .. });
                let failure = Failure::from(error);
                if !is_fetch {
                    return failure;
                }
                failure.hint(
                    "check the name and the reference; a path on this machine must exist, and `git` needs access",
                )
            })
        }
        SourceSpec::Archive(source) => {
            print_fetch(&public_url(source.url.as_str()), interactive);
            find_in_download(source).await
        }
    }
}

fn print_fetch(url: &str, interactive: bool) {
    if interactive {
        output::notice("fetching", url);
    }
}

async fn find_in_download(source: ArchiveSource) -> Result<FoundBundles, Failure> {
    let ArchiveSource { url, may_be_local } = source;
    let shown = public_url(url.as_str());
    let failed =
        |reason: String| Failure::new(Code::FetchFailed, format!("cannot fetch {shown}: {reason}"));
    let mut file = tempfile::tempfile().map_err(|error| failed(error.to_string()))?;
    let client = UpstreamClient::new(Settings {
        timeout: DOWNLOAD_TIMEOUT,
        max_response: usize::try_from(MAX_UNPACKED_BYTES).unwrap_or(usize::MAX),
        max_redirects: MAX_REDIRECTS,
        ..Settings::default()
    });
    // An origin that the user named may be one of a local network.
    let origin = UpstreamOrigin::from_url(&url).filter(|_| may_be_local);
    let origin: Vec<UpstreamOrigin> = origin.into_iter().collect();
    let downloaded = client.download(url, &origin, &mut file).await;
    downloaded.map_err(|error| failed(error.to_string()))?;
    let origin = Provenance::new(SourceKind::Url, shown.as_str());
    Ok(blocking(move || {
        use std::io::Seek as _;
        let path = Path::new(&shown);
        let unreadable = |source| BundleError::Unreadable { path: path.to_owned(), source };
        file.rewind().map_err(unreadable)?;
        find_in_archive(path, file, &origin)
    })
    .await??)
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
