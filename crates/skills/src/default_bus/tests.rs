use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use skills_bus::{Hub, HubConfig, ServerSecret};
use skills_testkit::ReservedPort;
use tokio::{io::AsyncReadExt as _, net::TcpListener, sync::mpsc};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::server_file::ServerFile;

const TOKEN: &str = "the-token-of-the-bus";

fn target() -> Target {
    Target {
        url: None,
        env_url: None,
        is_default_bus_only: false,
        verbose: false,
        data_dir: None,
        is_data_dir_chosen: false,
        store: None,
        token: Some(TOKEN.to_owned()),
        key: Some("us-the-key-of-a-user".to_owned()),
    }
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// User of a hostile server.
const STRANGER: u32 = 65_533;

/// Returns the bus at an address whose server runs as this user, for a target with credentials.
fn bus(address: SocketAddr, dir: &Path) -> DefaultBus {
    DefaultBus {
        address,
        data_dir: dir.to_owned(),
        token: Some(TOKEN.to_owned()),
        credential: credential(&target()),
        peer_socket: |_, _| PeerSocket::Held(own_user()),
    }
}

fn bare(bus: DefaultBus) -> DefaultBus {
    DefaultBus { token: None, credential: None, ..bus }
}

/// Starts a hub with a token and writes its server file.
async fn server(dir: &Path) -> (DefaultBus, ServerFile, CancellationToken) {
    let (bus, secret, stop) = hub(dir, Some(TOKEN)).await;
    let file = ServerFile::write(dir, bus.address, bus.address, secret).unwrap();
    (bus, file, stop)
}

async fn hub(dir: &Path, token: Option<&str>) -> (DefaultBus, ServerSecret, CancellationToken) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let secret = ServerSecret::random();
    let config = HubConfig {
        token: token.map(ToOwned::to_owned),
        secret: Some(secret.clone()),
        ..HubConfig::default()
    };
    let (hub, stop) = (Hub::new(config), CancellationToken::new());
    let stopped = stop.clone();
    tokio::spawn(async move { hub.serve(listener, stopped).await });
    (bus(address, dir), secret, stop)
}

/// Starts an impostor on a port, which answers with a fixed text and reports what it receives.
async fn impostor(answer: &'static str) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sent, received) = mpsc::unbounded_channel();
    let sent = Arc::new(sent);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let sent = Arc::clone(&sent);
            tokio::spawn(async move {
                let mut bytes = vec![0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut bytes).await {
                    let _ = sent.send(String::from_utf8_lossy(&bytes[..count]).into_owned());
                    let _ =
                        tokio::io::AsyncWriteExt::write_all(&mut stream, answer.as_bytes()).await;
                }
            });
        }
    });
    (address, received)
}

#[tokio::test]
async fn credentials_are_sent_to_the_server_of_the_data_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (bus, _file, _stop) = server(dir.path()).await;
    let (_, trust) = bus.connect().await.unwrap();
    assert_eq!(trust, ServerTrust::Proven);
    Dialer::dial(&bus).await.unwrap_or_else(|error| panic!("{error}"));
    let result = bare(bus).connect().await.map(|_| ());
    assert!(matches!(result, Err(DefaultBusError::Client(ClientError::Unauthorized { .. }))));
}

#[tokio::test]
async fn a_process_on_the_port_of_a_killed_server_gets_no_credential() {
    for answer in [
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nskills-proof: 00\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "nonsense\r\n\r\n",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (address, mut received) = impostor(answer).await;
        // The server file of a killed server with the same address.
        let _stale =
            ServerFile::write(dir.path(), address, address, ServerSecret::random()).unwrap();
        let bus = bus(address, dir.path());
        let result = bus.connect().await;
        assert!(matches!(result, Err(DefaultBusError::Unproven { .. })), "{answer}");
        let dialed = Dialer::dial(&bus).await;
        assert!(matches!(dialed, Err(DialError::Unproven(_))), "{answer}");
        for _ in 0..2 {
            let sent = received.recv().await.unwrap();
            assert!(sent.starts_with("GET /proof ") && !sent.contains(TOKEN), "{sent}");
            assert!(!sent.contains("us-the-key"), "{sent}");
        }
        assert!(received.try_recv().is_err(), "nothing follows the challenge");
    }
}

#[tokio::test]
async fn a_server_without_a_server_file_gets_no_credential_and_an_error_explains_it() {
    let dir = tempfile::tempdir().unwrap();
    let (address, mut received) = impostor("").await;
    let ours = bus(address, dir.path());
    for (target, name) in [
        (target(), "the token (--token or III_TOKEN)"),
        (Target { token: None, ..target() }, "the key (--key or SKILLS_KEY)"),
    ] {
        let bus = DefaultBus { credential: credential(&target), ..ours.clone() };
        let failure = Failure::from(bus.connect().await.unwrap_err());
        assert_eq!(failure.code, Code::UnprovenServer, "{name:?}");
        assert!(failure.message.starts_with(&format!("{name} is not sent")), "{failure:?}");
        assert!(failure.message.contains("server.json"), "{failure:?}");
        assert!(failure.hint.unwrap().contains("--url ws://127.0.0.1:"), "{name:?}");
    }
    let dialed = Dialer::dial(&ours).await;
    assert!(matches!(dialed, Err(DialError::Unproven(_))));
    assert!(received.try_recv().is_err(), "nothing was sent at all");
    let closed = ReservedPort::new();
    let bus = DefaultBus { address: closed.address(), ..ours };
    let result = bus.connect().await;
    assert!(matches!(result, Err(DefaultBusError::Client(ClientError::Unreachable { .. }))));
}

#[tokio::test]
async fn a_server_on_another_data_directory_gets_no_credential() {
    let (ours, others) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (bus, _file, _stop) = server(others.path()).await;
    let _stale =
        ServerFile::write(ours.path(), bus.address, bus.address, ServerSecret::random()).unwrap();
    let bus = DefaultBus { data_dir: ours.path().to_owned(), ..bus };
    let result = bus.connect().await;
    assert!(matches!(result, Err(DefaultBusError::Unproven { .. })));
}

#[tokio::test]
async fn a_listener_of_another_user_is_not_used_and_gets_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (address, mut received) = impostor("").await;
    let refused: [(PeerSocketFn, &str); 2] = [
        (|_, _| PeerSocket::Held(STRANGER), "runs as another user (65533)"),
        (|_, _| PeerSocket::Unknown, "runs as a user that cannot be determined"),
    ];
    for (peer_socket, reason) in refused {
        for bus in [bus(address, dir.path()), bare(bus(address, dir.path()))] {
            let bus = DefaultBus { peer_socket, ..bus };
            let failure = Failure::from(bus.connect().await.unwrap_err());
            assert_eq!(failure.code, Code::UnprovenServer, "{reason}");
            assert!(failure.message.ends_with(reason), "{failure:?}");
            let hint = failure.hint.unwrap();
            assert!(hint.contains(&format!("--url ws://{address}")), "{hint}");
            match Dialer::dial(&bus).await {
                Err(DialError::Unproven(said)) => assert!(said.contains(reason), "{said}"),
                Err(error) => panic!("{error}"),
                Ok(_) => panic!("{reason}: a connection"),
            }
            // A command that can create its store continues with that.
            let chosen = bus.choose().await;
            assert!(matches!(chosen, DefaultRegistry::Directory(Some(_))), "{reason}");
        }
    }
    assert!(received.try_recv().is_err(), "nothing was sent at all");
}

#[tokio::test]
async fn a_server_of_the_same_user_or_of_root_is_used_where_there_is_no_store() {
    let dir = tempfile::tempdir().unwrap();
    let (bus, _, _stop) = hub(dir.path(), None).await;
    let owners: [PeerSocketFn; 2] =
        [|_, _| PeerSocket::Held(own_user()), |_, _| PeerSocket::Held(0)];
    for peer_socket in owners {
        let bus = DefaultBus { peer_socket, ..bare(bus.clone()) };
        match bus.choose().await {
            DefaultRegistry::Bus(Ok((_, trust))) => assert_eq!(trust, ServerTrust::Owner),
            DefaultRegistry::Bus(Err(error)) => panic!("{error}"),
            DefaultRegistry::Directory(_) => panic!("the data directory"),
        }
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_owner_of_a_server_is_found_when_it_has_accepted_the_connection() {
    let dir = tempfile::tempdir().unwrap();
    let (bus, _, _stop) = hub(dir.path(), None).await;
    let bus = DefaultBus { peer_socket: socket_owner::peer_socket, ..bare(bus) };
    assert_eq!(bus.connect().await.unwrap().1, ServerTrust::Owner);

    static LOOKUPS: AtomicU32 = AtomicU32::new(0);
    let peer_socket = |_, _| match LOOKUPS.fetch_add(1, Ordering::Relaxed) {
        0..3 => PeerSocket::Unheld,
        _ => PeerSocket::Held(own_user()),
    };
    let bus = DefaultBus { peer_socket, ..bus };
    assert_eq!(bus.connect().await.unwrap().1, ServerTrust::Owner);
    assert_eq!(LOOKUPS.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn the_own_store_precedes_the_server_at_the_default_address() {
    let dir = tempfile::tempdir().unwrap();
    let (address, mut received) = impostor("").await;
    std::fs::write(dir.path().join("skills.db"), "").unwrap();
    let ours = bus(address, dir.path());
    for bus in [ours.clone(), bare(ours)] {
        assert!(matches!(bus.choose().await, DefaultRegistry::Directory(None)));
    }
    assert!(received.try_recv().is_err(), "nothing was sent at all");
}

#[tokio::test]
async fn the_server_of_the_own_store_is_used_if_it_cannot_listen_in_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (bus, _file, _stop) = server(dir.path()).await;
    std::fs::write(dir.path().join("skills.db"), "").unwrap();
    let bus = DefaultBus { peer_socket: |_, _| PeerSocket::Held(STRANGER), ..bus };
    match bus.choose().await {
        DefaultRegistry::Bus(Ok((_, trust))) => assert_eq!(trust, ServerTrust::Proven),
        _ => panic!("not the server"),
    }
}
