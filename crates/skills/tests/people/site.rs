//! The program with administrators' secrets, and asking it as somebody.

use serde_json::{Value, json};
use skills_testkit::{Answer, Request, Server};
use tempfile::TempDir;

use crate::support::BINARY;

pub(crate) const ADMIN_KEY: &str = "an-administrators-secret-0123456789";
pub(crate) const INTERNAL: &str = "another-secret-of-insiders-0123456789";
pub(crate) const MASTER: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// A server that ends with the test, before its data goes.
pub(crate) struct Site {
    pub(crate) server: Server,
    _dir: TempDir,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self::with(&[("ADMIN_KEY", ADMIN_KEY), ("INTERNAL_API_SECRET", INTERNAL)])
    }

    /// With these variables in its environment.
    pub(crate) fn with(variables: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Server::command(BINARY, &dir.path().join("data"));
        command.env_remove("ADMIN_KEY").env_remove("INTERNAL_API_SECRET");
        command.env("MASTER_ENCRYPTION_KEY", MASTER).envs(variables.iter().copied());
        Self { server: Server::spawn(&mut command), _dir: dir }
    }

    pub(crate) fn ask(
        &self,
        key: Option<&str>,
        method: &str,
        target: &str,
        body: &Value,
    ) -> Answer {
        let mut request = Request::new(method, target);
        if let Some(key) = key {
            request = request.header("Authorization", &format!("Bearer {key}"));
        }
        if !body.is_null() {
            request = request.header("Content-Type", "application/json").body(body.to_string());
        }
        request.send(&self.server.http)
    }

    /// What an administrator does, which must succeed.
    pub(crate) fn administer(&self, method: &str, target: &str, body: &Value) -> Value {
        let answer = self.ask(Some(ADMIN_KEY), method, target, body);
        assert!(answer.status < 300, "{method} {target}: {}", answer.json());
        answer.json()
    }

    /// A new key of a user, and its id.
    pub(crate) fn key(&self, uid: &str) -> (String, String) {
        let answer = self.administer("POST", "/v1/admin/keys", &json!({ "user_uid": uid }));
        let text = |field: &str| answer[field].as_str().unwrap().to_owned();
        (text("key"), text("key_id"))
    }

    /// Stores a tool that would call nobody in reach.
    pub(crate) fn tool(&self, uid: &str, status: &str, id: &str) {
        let manifest = json!({
            "id": id,
            "meta": {
                "name": "Plan", "description": format!("What only {uid} knows."),
                "parameters": {"type": "object", "properties": {}},
            },
            "config": {"endpoint": "https://nobody.invalid/{{SECRETS.PLAN_KEY}}", "method": "GET"},
        });
        let body = json!({
            "user_uid": uid, "skill_name": id, "status": status, "manifest": manifest,
            "secrets": {"PLAN_KEY": "the-plan-of-ann"},
        });
        self.administer("POST", "/v1/admin/sync_skill", &body);
    }
}
