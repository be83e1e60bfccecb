//! `server.json`: addresses and proof secret of the server that runs on a data directory, readable by its user only.
//!
//! A command sends credentials to a server at the default address only if the server knows this secret.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    net::{IpAddr, SocketAddr},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags, openat};
use serde::{Deserialize, Serialize};
use skills_bus::ServerSecret;
use uuid::Uuid;

/// Name of the file in a data directory.
const FILE_NAME: &str = "server.json";
/// All permissions of group and others.
const OTHERS: u32 = 0o077;
/// Write permissions of group and others.
const OTHERS_WRITE: u32 = 0o022;
/// Most bytes that are read; the file is far smaller.
const MAX_BYTES: u64 = 4096;

#[derive(Serialize, Deserialize)]
struct Contents {
    bus: SocketAddr,
    http: SocketAddr,
    pid: u32,
    nonce: String,
}

/// File of a running server. Removed on drop unless another server has replaced it.
#[derive(Debug)]
pub(crate) struct ServerFile {
    path: PathBuf,
    secret: ServerSecret,
}

impl ServerFile {
    /// Writes the file atomically.
    pub(crate) fn write(
        dir: &Path,
        bus: SocketAddr,
        http: SocketAddr,
        secret: ServerSecret,
    ) -> io::Result<Self> {
        let nonce = secret.as_text().to_owned();
        let text = serde_json::to_vec(&Contents { bus, http, pid: std::process::id(), nonce })?;
        write_private(dir, FILE_NAME, &text)?;
        Ok(Self { path: dir.join(FILE_NAME), secret })
    }
}

/// Writes a file of a directory atomically, readable by the user of this process only.
pub(crate) fn write_private(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let draft = dir.join(format!("{name}.{}", Uuid::new_v4()));
    let written = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&draft, dir.join(name)));
    written.inspect_err(|_| drop(fs::remove_file(&draft)))
}

/// Reads a file that only the user of this process can have written and read.
pub(crate) fn read_private(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::from(openat(rustix::fs::CWD, path, file_flags(), Mode::empty())?);
    if !file.metadata()?.is_file() || !is_private(&file, OTHERS)? {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Drop for ServerFile {
    fn drop(&mut self) {
        let is_ours = read(&self.path).is_ok_and(|it| it.nonce == self.secret.as_text());
        if is_ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Reason why the server at an address cannot be trusted by this data directory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UntrustedServer {
    /// The file is missing or unreadable.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// Another user could have created the file.
    #[error("{} belongs to another user, or its group or others can write to it", path.display())]
    ExposedDirectory { path: PathBuf },
    /// Another user could have read or written the file.
    #[error("{} belongs to another user, or others can read or write it", path.display())]
    ExposedFile { path: PathBuf },
    /// The file belongs to a server at another address.
    #[error("{} belongs to a server at {found}", path.display())]
    OtherAddress { path: PathBuf, found: SocketAddr },
}

/// Returns the secret that the server at an address knows if it runs on this data directory.
pub(crate) fn secret_for(dir: &Path, address: SocketAddr) -> Result<ServerSecret, UntrustedServer> {
    let path = dir.join(FILE_NAME);
    let unreadable = |source| UntrustedServer::Unreadable { path: path.clone(), source };
    // Checks the opened file, so that it cannot be replaced in between. Links are not followed: a link and its target may
    // have different owners.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(rustix::fs::CWD, dir, flags, Mode::empty());
    let opened = File::from(opened.map_err(|error| unreadable(error.into()))?);
    if !is_private(&opened, OTHERS_WRITE).map_err(unreadable)? {
        return Err(UntrustedServer::ExposedDirectory { path: dir.to_owned() });
    }
    let file = openat(&opened, FILE_NAME, file_flags(), Mode::empty());
    let file = File::from(file.map_err(|error| unreadable(error.into()))?);
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::other("not a regular file")));
    }
    if !is_private(&file, OTHERS).map_err(unreadable)? {
        return Err(UntrustedServer::ExposedFile { path });
    }
    let contents = parse(file).map_err(unreadable)?;
    let found = contents.bus;
    let is_same = found.port() == address.port()
        && (found.ip().to_canonical() == address.ip()
            || is_unspecified_match(found.ip(), address.ip()));
    if !is_same {
        return Err(UntrustedServer::OtherAddress { path, found });
    }
    let invalid = || unreadable(io::Error::new(io::ErrorKind::InvalidData, "invalid nonce"));
    ServerSecret::from_text(&contents.nonce).ok_or_else(invalid)
}

/// Returns the addresses of bus and HTTP of the server that runs on a directory, if there is one.
pub(crate) fn addresses(dir: &Path) -> Option<(SocketAddr, SocketAddr)> {
    let contents = read(&dir.join(FILE_NAME)).ok()?;
    Some((contents.bus, contents.http))
}

/// Returns whether a file belongs to the user of this process and grants none of these permissions.
fn is_private(file: &File, permissions: u32) -> io::Result<bool> {
    let metadata = file.metadata()?;
    let is_ours = metadata.uid() == rustix::process::geteuid().as_raw();
    Ok(is_ours && metadata.mode() & permissions == 0)
}

/// Returns whether a listener on all addresses includes this one.
fn is_unspecified_match(listens: IpAddr, address: IpAddr) -> bool {
    listens.is_unspecified() && (listens.is_ipv6() || address.is_ipv4())
}

/// Returns the flags to open the file; opening a pipe in its place does not block.
fn file_flags() -> OFlags {
    OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC
}

fn parse(file: File) -> io::Result<Contents> {
    let mut text = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

fn read(path: &Path) -> io::Result<Contents> {
    let file = openat(rustix::fs::CWD, path, file_flags(), Mode::empty())?;
    parse(file.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    const HERE: &str = "127.0.0.1:49134";

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_file_is_private_and_removed_on_drop() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE_NAME);
        let secret = ServerSecret::random();
        let write = |secret: &ServerSecret| {
            ServerFile::write(dir.path(), address(HERE), address("127.0.0.1:1"), secret.clone())
        };
        let file = write(&secret).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(secret_for(dir.path(), address(HERE)).unwrap(), secret);
        let successor = write(&ServerSecret::random()).unwrap();
        drop(file);
        assert!(path.exists(), "the file of a successor stays");
        drop(successor);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_is_trusted_for_its_address_and_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE_NAME);
        let secret_at = |at: &str| secret_for(dir.path(), address(at));
        assert!(matches!(secret_at(HERE), Err(UntrustedServer::Unreadable { .. })));
        let write = |bus: &str| {
            let http = address("127.0.0.1:1");
            ServerFile::write(dir.path(), address(bus), http, ServerSecret::random()).unwrap()
        };
        for (bus, is_here) in [
            (HERE, true),
            ("0.0.0.0:49134", true),
            ("[::]:49134", true),
            ("127.0.0.1:49135", false),
            ("127.0.0.2:49134", false),
            ("[::1]:49134", false),
        ] {
            let file = write(bus);
            assert_eq!(secret_at(HERE).is_ok(), is_here, "{bus}");
            drop(file);
        }
        let _file = write(HERE);
        for mode in [0o644, 0o640, 0o620, 0o604] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(
                matches!(secret_at(HERE), Err(UntrustedServer::ExposedFile { .. })),
                "{mode:o}"
            );
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(&path, dir.path().join("elsewhere")).unwrap();
        symlink(dir.path().join("elsewhere"), &path).unwrap();
        assert!(matches!(secret_at(HERE), Err(UntrustedServer::Unreadable { .. })), "a link");
    }

    #[test]
    fn a_directory_that_others_can_write_is_not_trusted() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("data");
        fs::create_dir(&dir).unwrap();
        let _file =
            ServerFile::write(&dir, address(HERE), address("127.0.0.1:1"), ServerSecret::random());
        for (mode, is_safe) in
            [(0o700, true), (0o755, true), (0o775, false), (0o757, false), (0o1777, false)]
        {
            fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
            let found = secret_for(&dir, address(HERE));
            match found {
                Ok(_) => assert!(is_safe, "{mode:o}"),
                Err(UntrustedServer::ExposedDirectory { path }) => {
                    assert!(!is_safe && path == dir, "{mode:o}");
                }
                Err(error) => panic!("{mode:o}: {error}"),
            }
        }
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        let link = parent.path().join("link");
        symlink(&dir, &link).unwrap();
        let found = secret_for(&link, address(HERE));
        assert!(matches!(found, Err(UntrustedServer::Unreadable { .. })), "a link");
    }

    #[test]
    fn a_pipe_in_place_of_the_file_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let mut mkfifo = std::process::Command::new("mkfifo");
        mkfifo.args(["-m", "600"]).arg(dir.path().join(FILE_NAME));
        assert!(mkfifo.status().unwrap().success());
        let found = secret_for(dir.path(), address(HERE));
        assert!(matches!(found, Err(UntrustedServer::Unreadable { .. })), "{found:?}");
    }
}
