use std::{path::Path, sync::Arc};

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

/// Starts a hub with a token and writes its server file.
async fn server(dir: &Path) -> (DefaultBus, ServerFile, CancellationToken) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let secret = ServerSecret::random();
    let file = ServerFile::write(dir, address, address, secret.clone()).unwrap();
    let config =
        HubConfig { token: Some(TOKEN.to_owned()), secret: Some(secret), ..HubConfig::default() };
    let (hub, stop) = (Hub::new(config), CancellationToken::new());
    let stopped = stop.clone();
    tokio::spawn(async move { hub.serve(listener, stopped).await });
    (DefaultBus { address, data_dir: dir.to_owned() }, file, stop)
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
    bus.connect(&target()).await.unwrap();
    bus.dialer(&target()).unwrap().dial().await.unwrap_or_else(|error| panic!("{error}"));
    let bare = Target { token: None, key: None, ..target() };
    assert!(bus.dialer(&bare).is_none(), "not needed without a credential");
    let result = bus.connect(&bare).await;
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
        let bus = DefaultBus { address, data_dir: dir.path().to_owned() };
        let result = bus.connect(&target()).await;
        assert!(
            matches!(result, Err(DefaultBusError::Client(ClientError::Unproven { .. }))),
            "{answer}"
        );
        let dialed = bus.dialer(&target()).unwrap().dial().await;
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
    let bus = DefaultBus { address, data_dir: dir.path().to_owned() };
    for (target, name) in [
        (target(), "the token (--token or III_TOKEN)"),
        (Target { token: None, ..target() }, "the key (--key or SKILLS_KEY)"),
    ] {
        let failure = Failure::from(bus.connect(&target).await.unwrap_err());
        assert_eq!(failure.code, Code::UnprovenServer, "{name:?}");
        assert!(failure.message.starts_with(&format!("{name} is not sent")), "{failure:?}");
        assert!(failure.message.contains("server.json"), "{failure:?}");
        assert!(failure.hint.unwrap().contains("--url ws://127.0.0.1:"), "{name:?}");
    }
    let dialed = bus.dialer(&target()).unwrap().dial().await;
    assert!(matches!(dialed, Err(DialError::Unproven(_))));
    assert!(received.try_recv().is_err(), "nothing was sent at all");
    let closed = ReservedPort::new();
    let bus = DefaultBus { address: closed.address(), ..bus };
    let result = bus.connect(&target()).await;
    assert!(matches!(result, Err(DefaultBusError::Client(ClientError::Unreachable { .. }))));
}

#[tokio::test]
async fn a_server_on_another_data_directory_gets_no_credential() {
    let (ours, others) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (bus, _file, _stop) = server(others.path()).await;
    let _stale =
        ServerFile::write(ours.path(), bus.address, bus.address, ServerSecret::random()).unwrap();
    let bus = DefaultBus { data_dir: ours.path().to_owned(), ..bus };
    let result = bus.connect(&target()).await;
    assert!(matches!(result, Err(DefaultBusError::Client(ClientError::Unproven { .. }))));
}
