//! [`InProcessServer`]: a server in this process with a fixed key directory.

use std::sync::Arc;

use serde_json::{Value, json};
use skills::{
    config::Config,
    serve::{Options, Server},
};
use skills_core::{
    Caller, Digest, KeyDirectory, KeyLookup, User,
    caller::{AdminName, EmptyKeyDirectory},
};
use skills_http::Access;
use skills_testkit::Worker;
use tempfile::TempDir;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) const ANN: &str = "us-ann-key";
pub(crate) const BOB: &str = "us-bob-key";

/// Key directory with two users and an administrator.
struct FixedKeys;

impl KeyDirectory for FixedKeys {
    fn lookup(&self, bearer: &str) -> KeyLookup {
        let user = |uid: &str| {
            let key = Digest::of(bearer.as_bytes());
            KeyLookup::Found(Caller::User(User { owner: uid.parse().unwrap(), key }))
        };
        match bearer {
            ANN => user("ann"),
            BOB => user("bob"),
            "the-admin-secret" => KeyLookup::Found(Caller::Admin(AdminName::AdminKey)),
            other => EmptyKeyDirectory.lookup(other),
        }
    }
}

/// Server that stops when dropped.
pub(crate) struct InProcessServer {
    pub(crate) bus: String,
    pub(crate) http: String,
    _stop: DropGuard,
    _dir: TempDir,
}

impl InProcessServer {
    pub(crate) async fn new() -> Self {
        Self::with(Config::default(), None).await
    }

    pub(crate) async fn with(config: Config, token: Option<&str>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let token = token.map(str::to_owned);
        let server = Server::start(Options {
            bus: "127.0.0.1:0".to_owned(),
            http: "127.0.0.1:0".to_owned(),
            data_dir: dir.path().join("data"),
            token: None,
            access: Access { keys: Arc::new(FixedKeys), token, ..Access::default() },
            console: None,
            config,
        });
        let server = server.await.unwrap_or_else(|failure| panic!("{failure:?}"));
        let bus = format!("ws://{}", server.bus_address().unwrap());
        let http = format!("http://{}", server.http_address().unwrap());
        let shutdown = CancellationToken::new();
        tokio::spawn(server.run(shutdown.clone()));
        Self { bus, http, _stop: shutdown.drop_guard(), _dir: dir }
    }

    pub(crate) async fn worker(&self) -> Worker {
        Worker::connect(&self.bus).await
    }
}

/// Registers a skill in a tier, with the name of the tier as body.
pub(crate) async fn register(worker: &Worker, tier: &str, key: Option<&str>, id: &str) {
    let body = format!("# {tier} {id}\n\nOf the {tier} tier.");
    let input = json!({ "id": id, "skill": body, "tier": tier, "key": key });
    worker.ok("skills::register", input).await;
}

/// Registers a name in all three tiers: privately for ann, publicly in the other two.
pub(crate) async fn register_in_three_tiers(worker: &Worker, id: &str) {
    for (tier, key) in [("market", None), ("official", None), ("private", Some(ANN))] {
        register(worker, tier, key, id).await;
    }
}

pub(crate) async fn unregister(worker: &Worker, tier: &str, key: Option<&str>, id: &str) {
    let input = json!({ "id": id, "tier": tier, "key": key });
    let answer = worker.ok("skills::unregister", input).await;
    assert_eq!(answer["removed"], true, "{tier} {id}");
}

/// Returns a field of each row.
pub(crate) fn column(rows: &Value, field: &str) -> Vec<String> {
    let cell = |row: &Value| row[field].as_str().unwrap_or_default().to_owned();
    rows.as_array().unwrap().iter().map(cell).collect()
}
