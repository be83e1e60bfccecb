//! Over ACP.

use serde_json::json;

use super::{HERS, NOBODYS, TEXT, Town, same, strangers};
use crate::acp::Client;

/// A client with a session, and what its first list of commands said.
async fn open(town: &Town, key: Option<&str>) -> (Client, String, String) {
    let mut arguments = vec!["--url", &town.site.server.url];
    arguments.extend(key.into_iter().flat_map(|key| ["--key", key]));
    let mut client = Client::greeted(&arguments, json!({})).await;
    let session = client.open().await;
    let listed = client.update("available_commands_update", |update| {
        update["availableCommands"].to_string().contains("common-note")
    });
    let listed = listed.await.to_string();
    (client, session, listed)
}

async fn answers(client: &mut Client, session: &str, typed: &str) -> (String, String) {
    let mut said = vec![];
    for word in [HERS, NOBODYS] {
        let turn = client.turn(session, &typed.replace('@', word)).await;
        said.push(same(&turn, word));
    }
    (said.remove(0), said.remove(0))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_elses_is_like_nobodys() {
    const TYPED: [&str; 4] = ["/@-note", "/@_plan", "/@-prompt", "/@-note some words"];
    let town = Town::new().await;
    for (who, key) in strangers(&town.bob) {
        let (mut client, session, listed) = open(&town, key).await;
        assert!(!listed.contains(HERS) && !listed.contains(TEXT), "{who}: {listed}");
        for typed in TYPED {
            let (hers, nobodys) = answers(&mut client, &session, typed).await;
            assert_eq!(hers, nobodys, "{who} {typed}");
            assert!(!hers.contains(TEXT), "{who} {typed}: {hers}");
        }
    }
    let (mut client, session, listed) = open(&town, Some(&town.ann)).await;
    assert!(listed.contains("hidden-note"), "{listed}");
    for typed in TYPED {
        let (hers, nobodys) = answers(&mut client, &session, typed).await;
        assert_ne!(hers, nobodys, "{typed} shows nothing");
    }
}
