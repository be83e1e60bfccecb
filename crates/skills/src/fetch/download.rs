//! Bounded downloads into memory or an unnamed file.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, Write},
    time::{Duration, Instant},
};

use bytes::Bytes;
use skills_bundles::archive::MAX_UNPACKED_BYTES;
use skills_core::{Code, Digest};
use skills_upstream::{Settings, UpstreamClient, UpstreamError, UpstreamOrigin};
use url::Url;

use super::public_url;
use crate::{Failure, output, progress::Progress};

/// Time for one download.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(600);
const MAX_REDIRECTS: usize = 5;
/// Most bytes of an index or another document of JSON.
pub(super) const MAX_JSON_BYTES: usize = 8 << 20;

/// A downloaded file without a name, which vanishes with the process.
pub(super) struct Downloaded(File);

impl Downloaded {
    /// Checks the SHA-256 of the file, if one is expected, and rewinds it.
    pub(super) fn verify(self, sha256: Option<&str>, shown: &str) -> Result<File, Failure> {
        let Self(mut file) = self;
        let unreadable = |error: std::io::Error| failed(shown, &error.to_string());
        file.rewind().map_err(unreadable)?;
        let Some(expected) = sha256 else { return Ok(file) };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(unreadable)?;
        check_digest(&bytes, expected, shown)?;
        file.rewind().map_err(unreadable)?;
        Ok(file)
    }
}

/// Checks the SHA-256 of downloaded bytes, which is written with or without `sha256:`.
pub(super) fn check_digest(bytes: &[u8], expected: &str, shown: &str) -> Result<(), Failure> {
    let expected = expected.strip_prefix("sha256:").unwrap_or(expected);
    let found = Digest::of(bytes).to_string();
    if found.eq_ignore_ascii_case(expected) {
        return Ok(());
    }
    let reason = format!("its SHA-256 is {found}, and its source says {expected}");
    Err(failed(shown, &reason))
}

/// Downloads an archive. With `has_progress`, a terminal shows how much of it has arrived.
pub(super) async fn download(
    url: Url,
    may_be_local: bool,
    has_progress: bool,
) -> Result<Downloaded, Failure> {
    let shown = public_url(url.as_str());
    let downloaded = transfer_file(url, may_be_local, has_progress).await?;
    downloaded.map_err(|error| failed(&shown, &error.to_string()))
}

/// Downloads an archive; `None` if the server does not have it.
pub(super) async fn download_if_found(
    url: Url,
    may_be_local: bool,
    has_progress: bool,
) -> Result<Option<Downloaded>, Failure> {
    let shown = public_url(url.as_str());
    match transfer_file(url, may_be_local, has_progress).await? {
        Ok(downloaded) => Ok(Some(downloaded)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(failed(&shown, &error.to_string())),
    }
}

async fn transfer_file(
    url: Url,
    may_be_local: bool,
    has_progress: bool,
) -> Result<Result<Downloaded, UpstreamError>, Failure> {
    let shown = public_url(url.as_str());
    let file = tempfile::tempfile().map_err(|error| failed(&shown, &error.to_string()))?;
    let max = usize::try_from(MAX_UNPACKED_BYTES).unwrap_or(usize::MAX);
    let mut target = CountedFile { file, bytes: 0, progress: Progress::new(0, !has_progress) };
    let transferred = transfer(url, may_be_local, max, &mut target).await;
    target.progress.clear();
    Ok(transferred.map(|()| Downloaded(target.file)))
}

/// File that shows on a terminal how much was written to it.
struct CountedFile {
    file: File,
    bytes: u64,
    progress: Progress<anstream::Stderr>,
}

impl Write for CountedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        self.progress.show_text(&output::size(self.bytes), Instant::now());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Returns whether the server said that it does not have a file.
const fn is_absent(error: &UpstreamError) -> bool {
    matches!(error, UpstreamError::UpstreamStatus { status: 404 | 410, .. })
}

/// Downloads a file into memory; `None` if the server does not have it.
pub(super) async fn download_bytes(
    url: Url,
    may_be_local: bool,
    max: usize,
) -> Result<Option<Bytes>, Failure> {
    let shown = public_url(url.as_str());
    let mut bytes = Vec::new();
    match transfer(url, may_be_local, max, &mut bytes).await {
        Ok(()) => Ok(Some(bytes.into())),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(failed(&shown, &error.to_string())),
    }
}

async fn transfer(
    url: Url,
    may_be_local: bool,
    max: usize,
    target: &mut (dyn Write + Send),
) -> Result<(), UpstreamError> {
    let client = UpstreamClient::new(Settings {
        timeout: DOWNLOAD_TIMEOUT,
        max_response: max,
        max_redirects: MAX_REDIRECTS,
        ..Settings::default()
    });
    // An origin that the user named may be one of a local network.
    let origin = UpstreamOrigin::from_url(&url).filter(|_| may_be_local);
    let origin: Vec<UpstreamOrigin> = origin.into_iter().collect();
    client.download(url, &origin, target).await
}

/// Creates the error of a fetch.
pub(super) fn failed(shown: &str, reason: &str) -> Failure {
    Failure::new(Code::FetchFailed, format!("cannot fetch {shown}: {reason}"))
}
