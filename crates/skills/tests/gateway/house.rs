//! A data directory with content and people in it, and the program that serves it.

use std::sync::Arc;

use serde_json::{Value, json};
use skills_core::{
    Layer, Owner, SkillId,
    manifest::{self, Mode},
};
use skills_registry::{Registry, RegistryConfig, Tool};
use skills_store::SqliteStore;
use skills_testkit::{Answer, Request, Server};
use skills_vault::{Act, MasterKeys, NewKey, SecretName, Vault, now};
use tempfile::TempDir;

use crate::{support::BINARY, upstream::Upstream};

pub(crate) const ADMIN: &str = "an-administrators-secret-0123456789";
pub(crate) const MASTER: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// The example of the specification, with another endpoint.
pub(crate) fn weather(endpoint: &str) -> String {
    let example = include_str!("../../../gateway/tests/gateway/weather.json");
    let mut manifest: Value = serde_json::from_str(example).unwrap();
    manifest["config"]["endpoint"] = json!(endpoint);
    manifest.to_string()
}

/// A manifest of a tool that is called with POST.
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

/// What is there before the program starts.
pub(crate) struct Plan {
    dir: TempDir,
    registry: Arc<Registry>,
    vault: Vault,
    damaged: Vec<&'static str>,
    pub(crate) upstream: Upstream,
}

impl Plan {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let store = SqliteStore::open(&data).unwrap();
        let registry = Registry::open(Arc::new(store), None, RegistryConfig::default()).unwrap();
        let master = MasterKeys::from_env(Some(MASTER), None).unwrap();
        let vault = Vault::open(&data, master).unwrap();
        Self { dir, registry, vault, damaged: vec![], upstream: Upstream::start() }
    }

    /// Has what is known of an official entry be unreadable when the program starts.
    pub(crate) fn damage(&mut self, id: &'static str) {
        self.damaged.push(id);
    }

    pub(crate) async fn tool(&self, layer: &Layer, id: &str, manifest: &str) {
        let skill: SkillId = id.parse().unwrap();
        let parsed = manifest::parse(manifest, Mode::Strict, Some(&skill)).unwrap();
        let tool = Tool::of_manifest(&skill, &parsed, manifest.to_owned()).unwrap();
        self.registry.register_tool_in("test", layer, id, tool).await.unwrap();
    }

    pub(crate) async fn document(&self, id: &str) {
        self.registry.register_skill("test", id, format!("# {id}")).await.unwrap();
    }

    /// A key of a user.
    pub(crate) fn key(&self, uid: &str) -> String {
        let owner: Owner = uid.parse().unwrap();
        let new = NewKey { owner: &owner, tier: None, label: None, expires_at: None };
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

    /// Starts the program.
    pub(crate) fn serve(self) -> House {
        self.serve_with("", Some(MASTER))
    }

    /// Leaves everything to whoever opens it next.
    pub(crate) fn close(self) -> (TempDir, Upstream) {
        let Self { dir, registry, vault, damaged, upstream } = self;
        registry.close();
        drop((registry, vault));
        let database = rusqlite::Connection::open(dir.path().join("data/skills.db")).unwrap();
        for id in damaged {
            let sql = "UPDATE change SET content = '{}' WHERE tier = 'official' AND id = ?1";
            assert_eq!(database.execute(sql, [id]).unwrap(), 1);
        }
        drop(database);
        (dir, upstream)
    }

    pub(crate) fn serve_with(self, config: &str, master: Option<&str>) -> House {
        let allow = self.upstream.origin.clone();
        self.serve_allowing(&allow, config, master)
    }

    /// With what tools may call, as the command line is told.
    pub(crate) fn serve_allowing(self, allow: &str, config: &str, master: Option<&str>) -> House {
        let (dir, upstream) = self.close();
        let path = dir.path().join("config.yaml");
        std::fs::write(&path, config).unwrap();
        let mut command = Server::command(BINARY, &dir.path().join("data"));
        command.arg("--config").arg(path).args(["--allow-upstream", allow]);
        command.env("RUST_LOG", "debug").env("ADMIN_KEY", ADMIN);
        if let Some(master) = master {
            command.env("MASTER_ENCRYPTION_KEY", master);
        }
        House { server: Server::spawn(&mut command), upstream, dir }
    }
}

fn act() -> Act<'static> {
    Act { by: "test", at: now() }
}

/// The program, and what is behind it. The program ends before the data goes.
pub(crate) struct House {
    pub(crate) server: Server,
    pub(crate) upstream: Upstream,
    #[expect(dead_code, reason = "it goes with the test")]
    dir: TempDir,
}

impl House {
    pub(crate) fn ask(&self, key: Option<&str>, request: Request) -> Answer {
        let request = match key {
            Some(key) => request.header("Authorization", &format!("Bearer {key}")),
            None => request,
        };
        request.send(&self.server.http)
    }

    pub(crate) fn get(&self, key: Option<&str>, target: &str) -> Answer {
        self.ask(key, Request::get(target))
    }

    pub(crate) fn post(&self, key: Option<&str>, target: &str, body: &Value) -> Answer {
        let request = Request::new("POST", target).header("Content-Type", "application/json");
        self.ask(key, request.body(body.to_string()))
    }

    /// Executes with a payload.
    pub(crate) fn execute(&self, key: Option<&str>, id: &str, payload: Value) -> Answer {
        self.post(key, &format!("/v1/execute/{id}"), &json!({ "payload": payload }))
    }
}

/// Status and code.
pub(crate) fn outcome(answer: &Answer) -> (u16, String) {
    let body = answer.json();
    assert_eq!(body["success"], answer.status == 200, "{body}");
    (answer.status, body["code"].as_str().unwrap_or_default().to_owned())
}
