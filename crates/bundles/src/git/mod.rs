//! Bundles in a git repository, fetched by the user's `git` with its credentials and proxies.
//!
//! - `command`: runs `git` without hooks, filters, submodules and other protocols; `environment`: its variables
//! - `remote`: the server that git would contact, and holding it to checked addresses of that
//! - `messages`: what git and servers print
//! - `objects`: reads blobs from the object database
//!
//! The fetch is shallow, into a bare repository that is removed afterwards. Nothing is checked out: files are read from
//! the object database, byte for byte, so that no filter, hook or attribute of a repository has any effect.

mod command;
mod environment;
mod messages;
mod objects;
mod remote;

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use skills_core::{
    GitProtocol, Provenance, SourceKind, git_location::is_reference, limits::MAX_BUNDLE_BYTES,
};
use tempfile::TempDir;
use url::Host;

use self::{
    command::{Git, Stopped},
    messages::HiddenText,
    objects::GitObjects,
};
pub use self::{
    messages::FetchDisplay,
    remote::{GitRemote, PinnedRemote},
};
use crate::{
    BundleError, FoundBundles,
    find_bundles::in_entries,
    ignored::is_ignored_folder,
    layout::{FileEntry, is_document_name},
    source::{ObjectReader as _, Source},
};

/// Longest target of a link that is read, in bytes.
const MAX_LINK_BYTES: usize = 4096;

/// Modes of files in a tree.
const REGULAR: &str = "100644";
const EXECUTABLE: &str = "100755";
const LINK: &str = "120000";

/// Limits of a fetch.
#[derive(Debug, Clone)]
pub struct FetchLimits {
    /// Most bytes that the fetched repository may have on disk.
    pub max_bytes: u64,
    /// Longest time of the fetch.
    pub timeout: Duration,
    /// Set when the fetch should end.
    pub cancelled: Arc<AtomicBool>,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self { max_bytes: 512 << 20, timeout: Duration::from_secs(600), cancelled: Arc::default() }
    }
}

impl FetchLimits {
    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// Repository that bundles are fetched from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitSource {
    /// URL to fetch, which may have credentials.
    url: String,
    /// URL without credentials, for messages and the provenance.
    public_url: String,
    protocol: GitProtocol,
    reference: Option<String>,
    path: String,
    route: GitRoute,
}

/// Servers that git may contact for a source.
#[derive(Debug, Clone, PartialEq, Eq)]
enum GitRoute {
    /// That of the URL, and those that it redirects to.
    Any,
    /// That of the URL alone.
    WithoutRedirects,
    /// That of the URL alone, at addresses that were checked.
    Pinned(PinnedRemote),
}

impl GitSource {
    /// Creates a source: a URL to fetch, and the same URL without credentials. `None` if the URL is not one of the
    /// protocols of repositories.
    #[must_use]
    pub fn new(url: impl Into<String>, public_url: impl Into<String>) -> Option<Self> {
        let (url, public_url) = (url.into(), public_url.into());
        let protocol = GitProtocol::of_location(&url)?;
        let path = String::new();
        Some(Self { url, public_url, protocol, reference: None, path, route: GitRoute::Any })
    }

    /// Selects a branch, tag or commit; by default the branch that the repository shows first.
    #[must_use]
    pub fn with_reference(self, reference: Option<String>) -> Self {
        Self { reference, ..self }
    }

    /// Selects the folder to search; by default all.
    #[must_use]
    pub fn with_path(self, path: impl Into<String>) -> Self {
        Self { path: path.into(), ..self }
    }

    /// Refuses redirects to other servers.
    #[must_use]
    pub fn without_redirects(self) -> Self {
        Self { route: GitRoute::WithoutRedirects, ..self }
    }

    /// Holds git to addresses of [`remote`](Self::remote), without redirects and proxies.
    #[must_use]
    pub fn pinned_to(self, pinned: PinnedRemote) -> Self {
        Self { route: GitRoute::Pinned(pinned), ..self }
    }

    /// Asks git, and ssh, which server they would contact. Nothing is sent to it.
    ///
    /// # Errors
    /// When `git` is missing, or the server is not known or cannot be pinned.
    pub fn remote(&self) -> Result<GitRemote, BundleError> {
        GitRemote::find(self)
    }

    /// Returns the host in the URL, parsed as browsers do. `None` for a path on this machine, and if it cannot be parsed.
    #[must_use]
    pub fn host(&self) -> Option<Host> {
        remote::host_of(&self.url)
    }

    /// Returns the URL to fetch, which may have credentials.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the URL without credentials.
    #[must_use]
    pub fn public_url(&self) -> &str {
        &self.public_url
    }

    /// Returns the protocol of the URL.
    #[must_use]
    pub const fn protocol(&self) -> GitProtocol {
        self.protocol
    }

    /// Returns the selected branch, tag or commit.
    #[must_use]
    pub fn reference(&self) -> Option<&str> {
        self.reference.as_deref()
    }

    /// Returns the folder to search; empty for all.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// Fetches a repository and finds its bundles. With a display, git may ask for credentials on the terminal.
///
/// # Errors
/// When `git` is missing or fails, a limit is exceeded, or there is no bundle.
pub fn find_in_repository(
    source: &GitSource,
    display: Option<Arc<dyn FetchDisplay>>,
    limits: &FetchLimits,
) -> Result<FoundBundles, BundleError> {
    let GitSource { url, public_url, protocol, reference, path, route } = source;
    let url = match route {
        GitRoute::Pinned(pinned) => pinned.url(),
        GitRoute::Any | GitRoute::WithoutRedirects => url,
    };
    let failed = |reason: String| BundleError::Fetch { url: public_url.clone(), reason };
    let io_error = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => BundleError::GitMissing,
        _ => failed(error.to_string()),
    };
    if reference.as_deref().is_some_and(|name| !is_reference(name)) {
        let reason = "the reference is not the name of a branch, a tag or a commit";
        return Err(failed(reason.to_owned()));
    }
    let dir = temporary_dir().map_err(|error| failed(error.to_string()))?;
    // Git repeats the URL in its messages.
    let hidden = HiddenText { text: url.to_owned(), replacement: public_url.clone() };
    let progress = if display.is_some() { "--progress" } else { "--quiet" };
    let git = Git::new(dir.path(), *protocol).on_route(route).showing(display, hidden);
    let run = |arguments: &[&str]| git.run(arguments).map_err(io_error)?.map_err(failed);
    run(&["init", "--quiet", "--bare", "--template="])?;
    let wanted = reference.as_deref().unwrap_or("HEAD");
    let options = ["--depth=1", "--no-tags", "--no-recurse-submodules", progress];
    let fetch = [&["fetch"] as &[&str], &options, &["--", url, wanted]].concat();
    git.run_bounded(&fetch, limits).map_err(|stopped| match stopped {
        Stopped::Io(error) => io_error(error),
        Stopped::Failed(reason) => failed(reason),
        Stopped::TooLarge => {
            BundleError::FetchTooLarge { url: public_url.clone(), max: limits.max_bytes }
        }
        Stopped::TimedOut => {
            failed(format!("it took longer than {} seconds", limits.timeout.as_secs()))
        }
        Stopped::Cancelled => BundleError::Interrupted { url: public_url.clone() },
    })?;
    let commit = run(&["rev-parse", "--verify", "--quiet", "FETCH_HEAD^{commit}"])?;
    let commit = String::from_utf8_lossy(&commit).trim().to_owned();
    let listing = run(&["ls-tree", "-r", "-z", "-l", "--full-tree", &commit])?;
    let objects = Arc::new(GitObjects::new(git.command(), dir).map_err(io_error)?);
    let entries = parse_tree(&listing, path, &objects);
    let origin = Provenance {
        reference: reference.clone(),
        commit: Some(commit),
        ..Provenance::new(SourceKind::Git, public_url.as_str())
    };
    let name = repository_name(public_url);
    in_entries(Path::new(public_url), Some(name), entries, &origin)
}

fn temporary_dir() -> io::Result<TempDir> {
    tempfile::Builder::new().prefix("skills-git-").tempdir()
}

/// Returns the last segment of a URL without `.git`.
fn repository_name(url: &str) -> &str {
    let name = url.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or(url);
    name.strip_suffix(".git").unwrap_or(name)
}

/// Parses the listing of a tree: `MODE TYPE ID SIZE<tab>PATH<nul>` for each file.
fn parse_tree(listing: &[u8], folder: &str, objects: &Arc<GitObjects>) -> Vec<FileEntry> {
    let folder = Path::new(folder);
    let lines = listing.split(|byte| *byte == 0).filter(|line| !line.is_empty());
    let entry = |line: &[u8]| {
        let at = line.iter().position(|byte| *byte == b'\t')?;
        let (head, path) = (std::str::from_utf8(&line[..at]).ok()?, to_path(&line[at + 1..]));
        let is_ignored = path.iter().any(is_ignored_folder);
        if !path.starts_with(folder) || is_ignored {
            return None;
        }
        let mut fields = head.split_ascii_whitespace();
        let (mode, _, id, size) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let size: Option<usize> = size.parse().ok();
        let is_document = path.file_name().is_some_and(is_document_name);
        let source = match mode {
            REGULAR | EXECUTABLE if size.is_some_and(|size| size > MAX_BUNDLE_BYTES) => {
                Source::TooLarge
            }
            REGULAR | EXECUTABLE => Source::Object {
                objects: Arc::clone(objects) as _,
                id: id.to_owned(),
                executable: mode == EXECUTABLE,
            },
            LINK if is_document => {
                let target = objects.read(id, MAX_LINK_BYTES).ok();
                Source::Link(target.map(|target| to_path(&target)))
            }
            LINK => Source::Link(None),
            // A submodule, which is not fetched.
            _ => return None,
        };
        Some(FileEntry { path, source })
    };
    lines.filter_map(entry).collect()
}

fn to_path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_program_is_no_source() {
        for url in ["ext::sh -c touch% /tmp/x x://y", "git@-oProxyCommand=x:a", "-x", "git://h/x"] {
            assert_eq!(GitSource::new(url, url), None, "{url}");
        }
    }

    #[test]
    fn a_repository_is_named_by_the_end_of_its_url() {
        for (url, name) in [
            ("https://github.com/acme/skills.git", "skills"),
            ("git@github.com:acme/skills", "skills"),
            ("file:///srv/pdf/", "pdf"),
        ] {
            assert_eq!(repository_name(url), name, "{url:?}");
        }
    }
}
