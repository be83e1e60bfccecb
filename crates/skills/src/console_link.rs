//! `console-link` in a data directory: the one-time link of the console, readable by the user of the server only.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use skills_console::LocalLink;

use crate::server_file;

/// Name of the file in a data directory.
const FILE_NAME: &str = "console-link";

/// File with the link that was not used yet. Removed on drop unless another server has replaced it.
#[derive(Debug)]
pub(crate) struct ConsoleLinkFile {
    dir: PathBuf,
    /// Address that the link begins with.
    http: SocketAddr,
    url: Mutex<String>,
}

impl ConsoleLinkFile {
    /// Creates the link of a server and its file. Without randomness there is no link, as there are no sessions.
    pub(crate) fn create(dir: &Path, http: SocketAddr) -> Option<(LocalLink, Arc<Self>)> {
        let file = Arc::new(Self { dir: dir.to_owned(), http, url: Mutex::default() });
        let written = Arc::clone(&file);
        let link = LocalLink::new(move |path| written.write(path));
        let link = link.inspect_err(|error| tracing::error!(%error, "no link of the console"));
        Some((link.ok()?, file))
    }

    /// Removes the file of a server that ended without removing it.
    pub(crate) fn remove_stale(dir: &Path) {
        let _ = fs::remove_file(dir.join(FILE_NAME));
    }

    /// Returns the link that was not used yet.
    pub(crate) fn url(&self) -> String {
        self.url.lock().clone()
    }

    fn write(&self, path: &str) {
        let url = format!("http://{}{path}", self.http);
        if let Err(error) = server_file::write_private(&self.dir, FILE_NAME, url.as_bytes()) {
            tracing::warn!(%error, "cannot write console-link, the link of the console is not kept");
        }
        *self.url.lock() = url;
    }
}

impl Drop for ConsoleLinkFile {
    fn drop(&mut self) {
        if read(&self.dir).is_some_and(|url| url == *self.url.lock()) {
            let _ = fs::remove_file(self.dir.join(FILE_NAME));
        }
    }
}

/// Returns the link of the server that runs on a directory, if it has one.
pub(crate) fn read(dir: &Path) -> Option<String> {
    String::from_utf8(server_file::read_private(&dir.join(FILE_NAME)).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::*;

    #[test]
    fn the_file_is_private_and_removed_with_its_server() {
        let dir = tempfile::tempdir().unwrap();
        let create =
            || ConsoleLinkFile::create(dir.path(), "127.0.0.1:1".parse().unwrap()).unwrap();
        let (link, file) = create();
        let path = dir.path().join(FILE_NAME);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(file.url().starts_with("http://127.0.0.1:1/ui/link/"));
        assert_eq!(read(dir.path()), Some(file.url()));
        let (successor, next) = create();
        drop((link, file));
        assert_eq!(read(dir.path()), Some(next.url()), "the file of a successor stays");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(read(dir.path()), None, "others could have written it");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        drop((successor, next));
        assert!(!path.exists());
    }
}
