//! Over ACP.

use serde_json::json;

use super::{ABSENT, EXISTING, IsolationFixture, TEXT, normalized, other_callers};

use crate::support::acp_client::Client;

/// Opens a client with a session and returns its first list of commands.
async fn open(fixture: &IsolationFixture, key: Option<&str>) -> (Client, String, String) {
    let mut arguments = vec!["--url", &fixture.server.process.url];
    arguments.extend(key.into_iter().flat_map(|key| ["--key", key]));
    let mut client = Client::initialized(&arguments, json!({})).await;
    let session = client.open().await;
    let listed = client.update("available_commands_update", |update| {
        update["availableCommands"].to_string().contains("common-note")
    });
    let listed = listed.await.to_string();
    (client, session, listed)
}

async fn answers(client: &mut Client, session: &str, typed: &str) -> (String, String) {
    let mut output = vec![];
    for word in [EXISTING, ABSENT] {
        let turn = client.turn(session, &typed.replace('@', word)).await;
        output.push(normalized(&turn, word));
    }
    (output.remove(0), output.remove(0))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_users_entries_look_absent_over_acp() {
    const TYPED: [&str; 4] = ["/@-note", "/@_plan", "/@-prompt", "/@-note some words"];
    let fixture = IsolationFixture::new().await;
    for (who, key) in other_callers(&fixture.bob) {
        let (mut client, session, listed) = open(&fixture, key).await;
        assert!(!listed.contains(EXISTING) && !listed.contains(TEXT), "{who}: {listed}");
        for typed in TYPED {
            let (hers, nobodys) = answers(&mut client, &session, typed).await;
            assert_eq!(hers, nobodys, "{who} {typed}");
            assert!(!hers.contains(TEXT), "{who} {typed}: {hers}");
        }
    }
    let (mut client, session, listed) = open(&fixture, Some(&fixture.ann)).await;
    assert!(listed.contains("hidden-note"), "{listed}");
    for typed in TYPED {
        let (hers, nobodys) = answers(&mut client, &session, typed).await;
        assert_ne!(hers, nobodys, "{typed} shows nothing");
    }
}
