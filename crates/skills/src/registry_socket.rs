//! Unix socket in a data directory, on which the process that has the store open serves its bus.
//!
//! The process at the other end must be one of the same user, so that it may get credentials.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use skills_bus::{
    BusClient, ClientError,
    client::{ByteStream, DialError, Dialer},
};
use skills_core::Code;
use tokio::{
    net::{UnixListener, UnixStream},
    time::Instant,
};
use uuid::Uuid;

use crate::{Failure, connect::CONNECT_TIMEOUT};

/// Name of the socket in a data directory.
const FILE_NAME: &str = "skills.sock";
/// URL that stands for the socket in requests and log lines.
pub(crate) const URL: &str = "ws://localhost";
/// Longest path that fits into a socket address on every system, without the final zero.
const MAX_PATH: usize = 100;
/// Longest wait of a command for a process that is starting or ending, or runs a short command.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(5);
/// Interval of attempts meanwhile.
const RETRY: Duration = Duration::from_millis(25);

/// Socket file of this process. Removed on drop, which must happen before the store is closed: afterwards the file may be
/// that of another process.
#[derive(Debug)]
pub(crate) struct RegistrySocket {
    path: PathBuf,
}

impl RegistrySocket {
    /// Binds the socket of a directory whose store this process has open. Replaces the file of a killed process.
    pub(crate) fn bind(dir: &Path) -> io::Result<(UnixListener, Self)> {
        // Renamed when it is private, so that no other user can connect before.
        let draft = format!(".{}", &Uuid::new_v4().simple().to_string()[..8]);
        let (draft, _dir) = address(dir, &draft)?;
        let listener = UnixListener::bind(&draft)?;
        let path = dir.join(FILE_NAME);
        let renamed = fs::set_permissions(&draft, fs::Permissions::from_mode(0o600))
            .and_then(|()| fs::rename(&draft, &path));
        if let Err(error) = renamed {
            let _ = fs::remove_file(&draft);
            return Err(error);
        }
        Ok((listener, Self { path }))
    }
}

impl Drop for RegistrySocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns a path of a file in a directory that fits into a socket address. It is valid while the returned file is open.
fn address(dir: &Path, name: &str) -> io::Result<(PathBuf, Option<File>)> {
    let path = dir.join(name);
    if path.as_os_str().len() <= MAX_PATH {
        return Ok((path, None));
    }
    use std::os::fd::AsRawFd as _;
    let opened = File::open(dir)?;
    Ok((format!("/proc/self/fd/{}/{name}", opened.as_raw_fd()).into(), Some(opened)))
}

/// Connects to the process that serves a directory; `None` if there is none.
///
/// # Errors
/// When the process belongs to another user, or the socket cannot be used.
pub(crate) async fn connect(dir: &Path) -> io::Result<Option<UnixStream>> {
    use io::ErrorKind::{ConnectionRefused, NotADirectory, NotFound};
    let connected = match address(dir, FILE_NAME) {
        Ok((path, _dir)) => UnixStream::connect(path).await,
        Err(error) => Err(error),
    };
    let stream = match connected {
        Ok(stream) => stream,
        // Refused by the file of a killed process.
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | ConnectionRefused) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let user = stream.peer_cred()?.uid();
    if user != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("the process that serves it belongs to another user ({user})"),
        ));
    }
    Ok(Some(stream))
}

/// Returns whether a process serves a directory, even if it cannot be used.
pub(crate) async fn is_served(dir: &Path) -> bool {
    !matches!(connect(dir).await, Ok(None))
}

/// Connects a client to the process that serves a directory; `None` if there is none.
///
/// # Errors
/// When that process does not answer as a bus.
pub(crate) async fn connect_client(dir: &Path) -> Result<Option<BusClient>, ClientError> {
    let name = dir.join(FILE_NAME).display().to_string();
    let unreachable = |error: io::Error| ClientError::Unreachable {
        url: name.clone(),
        reason: error.to_string(),
    };
    match connect(dir).await.map_err(unreachable)? {
        None => Ok(None),
        Some(stream) => BusClient::connect_unix(stream, &name, CONNECT_TIMEOUT).await.map(Some),
    }
}

/// Returns a dialer of the socket, for a client that reconnects.
pub(crate) fn dialer(dir: &Path) -> Arc<dyn Dialer> {
    Arc::new(SocketDialer(dir.to_owned()))
}

/// Dialer of the process that serves a data directory.
#[derive(Debug)]
struct SocketDialer(PathBuf);

#[async_trait]
impl Dialer for SocketDialer {
    async fn dial(&self) -> Result<Box<dyn ByteStream>, DialError> {
        let stream = connect(&self.0).await;
        let stream = stream.map_err(|error| DialError::Unreachable(error.to_string()))?;
        let absent = || DialError::Unreachable("no process serves the data directory".to_owned());
        Ok(Box::new(stream.ok_or_else(absent)?))
    }
}

/// Access to a store: through the process that has it open, or in this process.
pub(crate) enum StoreAccess<T> {
    Served(BusClient),
    Opened(T),
}

/// Connects to the process that has a store open, or else opens the store. While the store is in use by a process that
/// does not serve it, such as a short command, it tries again for some seconds.
///
/// # Errors
/// When neither is possible.
pub(crate) async fn access<T>(
    dir: &Path,
    open: impl AsyncFn() -> Result<T, Failure>,
) -> Result<StoreAccess<T>, Failure> {
    access_within(dir, MAX_WAIT, open).await
}

/// Like [`access`], with another longest wait.
///
/// # Errors
/// When neither is possible.
pub(crate) async fn access_within<T>(
    dir: &Path,
    max_wait: Duration,
    open: impl AsyncFn() -> Result<T, Failure>,
) -> Result<StoreAccess<T>, Failure> {
    let started = Instant::now();
    loop {
        // A process that is ending refuses connections before it closes the store.
        let refusal = match connect_client(dir).await {
            Ok(Some(client)) => return Ok(StoreAccess::Served(client)),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        match open().await {
            Ok(opened) => return Ok(StoreAccess::Opened(opened)),
            Err(failure) if failure.code != Code::StoreInUse => return Err(failure),
            Err(failure) if started.elapsed() > max_wait => {
                return Err(refusal.map_or(failure, Failure::from));
            }
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[tokio::test]
    async fn a_socket_is_private_replaces_a_stale_one_and_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        // Too long for a socket address.
        for dir in [parent.path().join("short"), parent.path().join("long".repeat(40))] {
            fs::create_dir(&dir).unwrap();
            assert!(connect(&dir).await.unwrap().is_none(), "nothing there");
            let (listener, socket) = RegistrySocket::bind(&dir).unwrap();
            assert!(connect(&dir).await.unwrap().is_some());
            let path = dir.join(FILE_NAME);
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
            // A killed process leaves the file.
            std::mem::forget(socket);
            drop(listener);
            assert!(connect(&dir).await.unwrap().is_none(), "nobody listens");
            let (_listener, socket) = RegistrySocket::bind(&dir).unwrap();
            assert!(connect(&dir).await.unwrap().is_some());
            drop(socket);
            assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_in_use_is_waited_for_as_long_as_asked() {
        let dir = tempfile::tempdir().unwrap();
        let opened = async |max_wait: Duration| {
            let start = Instant::now();
            let open = async || match start.elapsed() {
                elapsed if elapsed < 2 * MAX_WAIT => {
                    Err(Failure::new(Code::StoreInUse, "in use by another process"))
                }
                _ => Ok(()),
            };
            access_within(dir.path(), max_wait, open).await.map(|_| ()).map_err(|error| error.code)
        };
        assert_eq!(opened(MAX_WAIT).await, Err(Code::StoreInUse));
        assert_eq!(opened(Duration::MAX).await, Ok(()));
    }
}
