//! The client of the protocol's own crate, which fails a turn on any unknown update.

use agent_client_protocol::{
    Agent, Channel, Client, Error, TransportFrame,
    schema::ProtocolVersion,
    v1::{ConnectionTo, schema::InitializeRequest},
};
use futures_util::StreamExt as _;
use skills_testkit::DEADLINE;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use crate::support::{TestServer, acp_client::start, register};

/// Connects to a new process.
fn connect(arguments: &[&str]) -> Channel {
    let mut child = start(arguments);
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let (ours, theirs) = Channel::duplex();
    let (mut outgoing, incoming) = ours.into_parts();
    tokio::spawn(async move {
        while let Ok(Some(line)) = output.next_line().await {
            let frame = TransportFrame::parse_json(&line);
            assert!(matches!(frame, TransportFrame::Single(_)), "{line}");
            if incoming.unbounded_send(frame).is_err() {
                break;
            }
        }
    });
    tokio::spawn(async move {
        // The process lives as long as its standard input is open.
        let _child = child;
        while let Some(frame) = outgoing.next().await {
            let line = frame.to_json().unwrap() + "\n";
            input.write_all(line.as_bytes()).await.unwrap();
        }
    });
    theirs
}

/// Runs turns until one fails and returns their answers. A callback runs before each turn.
async fn turns(
    arguments: &[&str],
    messages: &[&str],
    before: impl AsyncFn(),
) -> Result<Vec<String>, Error> {
    let talk =
        Client.v1().connect_with(connect(arguments), async |connection: ConnectionTo<Agent>| {
            let greeting = InitializeRequest::new(ProtocolVersion::V1);
            connection.send_request(greeting).block_task().await?;
            let session = connection.build_session("/").block_task();
            let mut session = session.start_session().await?.session;
            let mut answers = vec![];
            for message in messages {
                before().await;
                session.send_prompt(message)?;
                answers.push(session.read_to_string().await?);
            }
            Ok(answers)
        });
    tokio::time::timeout(DEADLINE, talk).await.expect("the talk did not end in time")
}

#[tokio::test]
async fn a_strict_client_receives_no_unknown_updates() {
    let server = TestServer::new();
    let worker = server.worker().await;
    register(&worker, "pdf", "# PDF\n\nText.\n").await;
    let change = async || drop(register(&worker, "other", "# Other\n\nText.\n").await);
    let place = ["--url", &server.process.url];
    let answers = turns(&place, &["/pdf", "hello", "/pdf now", "/nothing"], change).await.unwrap();
    assert_eq!(answers[0], "# PDF\n\nText.\n");
    assert!(answers[1].contains("/other"), "{}", answers[1]);
    assert_eq!(answers[2], "# PDF\n\nText.\n\nARGUMENTS: now\n");
    assert!(answers[3].contains("no prompt or skill"), "{}", answers[3]);
}

#[tokio::test]
async fn a_strict_client_fails_on_an_unrequested_skill_list() {
    let server = TestServer::new();
    let place = ["--url", &server.process.url, "--skills-update=always"];
    let error = turns(&place, &["hello", "again"], async || ()).await.unwrap_err();
    assert_eq!(i32::from(error.code), -32602, "{error:?}");
}
