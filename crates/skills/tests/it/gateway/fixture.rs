//! A data directory with content, keys and secrets, and the server on it.

use std::sync::Arc;

use serde_json::{Value, json};
use skills_core::{Layer, Owner, SkillId};
use skills_manifest::{self as manifest, ParseMode};
use skills_registry::{Registry, RegistryConfig, Tool};
use skills_testkit::{Request, Response, ServerProcess};
use skills_vault::{Actor, MasterKeys, NewKey, SecretName, Vault, now};
use tempfile::TempDir;

use crate::support::{
    BINARY, TestServer,
    admin::{ADMIN_KEY, MASTER_KEY, with_key},
    store::{open_store, open_vault},
    upstream::TestUpstream,
};

/// Returns the example manifest of the specification with another endpoint.
pub(crate) fn weather(endpoint: &str) -> String {
    let example = include_str!("../../../../gateway/tests/it/weather.json");
    let mut manifest: Value = serde_json::from_str(example).unwrap();
    manifest["config"]["endpoint"] = json!(endpoint);
    manifest.to_string()
}

/// Builds the manifest of a tool that is called with POST.
pub(crate) fn tool(id: &str, endpoint: &str, headers: Value) -> String {
    json!({
        "id": id,
        "meta": {"name": id, "description": "A tool.", "parameters": {"type": "object"}},
        "config": {"type": "custom_http", "endpoint": endpoint, "method": "POST", "headers": headers},
    })
    .to_string()
}

pub(crate) fn private(uid: &str) -> Layer {
    Layer::Private(uid.parse().unwrap())
}

/// Content of the data directory before the server starts.
pub(crate) struct GatewaySetup {
    dir: TempDir,
    registry: Arc<Registry>,
    vault: Vault,
    damaged: Vec<&'static str>,
    pub(crate) upstream: TestUpstream,
}

impl GatewaySetup {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let registry = Registry::open(open_store(&data), None, RegistryConfig::default()).unwrap();
        let master = MasterKeys::from_env(Some(MASTER_KEY), None).unwrap();
        let vault = open_vault(&data, master);
        Self { dir, registry, vault, damaged: vec![], upstream: TestUpstream::start() }
    }

    /// Makes the stored metadata of an official entry unreadable before the server starts.
    pub(crate) fn damage(&mut self, id: &'static str) {
        self.damaged.push(id);
    }

    pub(crate) async fn tool(&self, layer: &Layer, id: &str, manifest: &str) {
        let skill: SkillId = id.parse().unwrap();
        let parsed = manifest::parse(manifest, ParseMode::Strict, Some(&skill)).unwrap();
        let tool = Tool::from_manifest(&skill, &parsed, manifest.to_owned()).unwrap();
        self.registry.register_tool("test", layer, id, tool).await.unwrap();
    }

    pub(crate) async fn document(&self, id: &str) {
        self.registry
            .register_skill("test", &Layer::Official, id, format!("# {id}"))
            .await
            .unwrap();
    }

    /// Creates a key of a user.
    pub(crate) fn key(&self, uid: &str) -> String {
        let owner: Owner = uid.parse().unwrap();
        let new = NewKey::for_owner(&owner);
        self.vault.create_key(act(), &new).unwrap().key.to_string()
    }

    pub(crate) fn secret(&self, uid: &str, skill: Option<&str>, name: &str, value: &str) {
        let (owner, name): (Owner, SecretName) = (uid.parse().unwrap(), name.parse().unwrap());
        let skill: Option<SkillId> = skill.map(|skill| skill.parse().unwrap());
        self.vault.set_secret(act(), &owner, skill.as_ref(), &name, value).unwrap();
    }

    pub(crate) fn grant(&self, uid: &str, skill: &str, name: &str) {
        let (owner, name): (Owner, SecretName) = (uid.parse().unwrap(), name.parse().unwrap());
        self.vault.grant_secret(act(), &owner, &skill.parse().unwrap(), None, &name).unwrap();
    }

    /// Starts the server.
    pub(crate) fn serve(self) -> TestGateway {
        self.serve_with("", Some(MASTER_KEY))
    }

    /// Closes registry and vault, so that another process can open the data directory.
    pub(crate) fn close(self) -> (TempDir, TestUpstream) {
        let Self { dir, registry, vault, damaged, upstream } = self;
        registry.close();
        drop((registry, vault));
        if damaged.is_empty() {
            return (dir, upstream);
        }
        let database = rusqlite::Connection::open(dir.path().join("data/skills.db")).unwrap();
        for id in damaged {
            let sql = "UPDATE version SET content = '{}'
                WHERE entry = (SELECT number FROM entry WHERE tier = 'official' AND id = ?1)";
            assert_eq!(database.execute(sql, [id]).unwrap(), 1);
        }
        drop(database);
        (dir, upstream)
    }

    pub(crate) fn serve_with(self, config: &str, master: Option<&str>) -> TestGateway {
        let allow = self.upstream.origin.clone();
        self.serve_allowing(&allow, config, master)
    }

    /// Starts the server with a value of `--allow-upstream`.
    pub(crate) fn serve_allowing(
        self,
        allow: &str,
        config: &str,
        master: Option<&str>,
    ) -> TestGateway {
        let (dir, upstream) = self.close();
        let path = dir.path().join("config.yaml");
        std::fs::write(&path, config).unwrap();
        let mut command = ServerProcess::command(BINARY, &dir.path().join("data"));
        command.arg("--config").arg(path).args(["--allow-upstream", allow]);
        command.env("RUST_LOG", "debug").env("ADMIN_KEY", ADMIN_KEY);
        if let Some(master) = master {
            command.env("MASTER_ENCRYPTION_KEY", master);
        }
        let server = TestServer::from_parts(ServerProcess::spawn(&mut command), dir);
        TestGateway { server, upstream }
    }
}

fn act() -> Actor<'static> {
    Actor { name: "test", at: now() }
}

/// A server and the upstream that its tools call.
pub(crate) struct TestGateway {
    pub(crate) server: TestServer,
    pub(crate) upstream: TestUpstream,
}

impl TestGateway {
    pub(crate) fn send(&self, key: Option<&str>, request: Request) -> Response {
        with_key(request, key).send(&self.server.process.http)
    }

    pub(crate) fn get(&self, key: Option<&str>, target: &str) -> Response {
        self.send(key, Request::get(target))
    }

    pub(crate) fn post(&self, key: Option<&str>, target: &str, body: &Value) -> Response {
        self.server.ask(key, "POST", target, body)
    }

    /// Executes a tool with a payload.
    pub(crate) fn execute(&self, key: Option<&str>, id: &str, payload: Value) -> Response {
        self.post(key, &format!("/v1/execute/{id}"), &json!({ "payload": payload }))
    }
}

/// Returns status and code of an answer in the shape of the gateway.
pub(crate) fn outcome(answer: &Response) -> (u16, String) {
    let body = answer.json();
    assert_eq!(body["success"], answer.status == 200, "{body}");
    (answer.status, body["code"].as_str().unwrap_or_default().to_owned())
}
