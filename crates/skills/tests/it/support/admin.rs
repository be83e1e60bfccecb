//! Requests with keys and administrators' secrets.

use serde_json::{Value, json};
use skills_testkit::{Request, Response, ServerProcess};

use super::{BINARY, TestServer};

pub(crate) const ADMIN_KEY: &str = "an-administrators-secret-0123456789";
pub(crate) const INTERNAL_SECRET: &str = "another-secret-of-insiders-0123456789";
pub(crate) const MASTER_KEY: &str =
    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// Adds a key as bearer token.
pub(crate) fn with_key(request: Request, key: Option<&str>) -> Request {
    match key {
        Some(key) => request.header("Authorization", &format!("Bearer {key}")),
        None => request,
    }
}

/// Builds a request with an optional key and, unless it is null, a JSON body.
pub(crate) fn json_request(key: Option<&str>, method: &str, target: &str, body: &Value) -> Request {
    // A fixed id, so that responses can be compared as a whole.
    let request = with_key(Request::new(method, target), key).header("X-Request-Id", "test");
    if body.is_null() {
        return request;
    }
    request.header("Content-Type", "application/json").body(body.to_string())
}

impl TestServer {
    /// Starts a server with both administrators' secrets and a master key.
    pub(crate) fn with_admin() -> Self {
        Self::with_env(&[("ADMIN_KEY", ADMIN_KEY), ("INTERNAL_API_SECRET", INTERNAL_SECRET)])
    }

    /// Starts a server with a master key and these variables, of the administrators' secrets only those.
    pub(crate) fn with_env(variables: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = ServerProcess::command(BINARY, &dir.path().join("data"));
        command.env_remove("ADMIN_KEY").env_remove("INTERNAL_API_SECRET");
        command.env("MASTER_ENCRYPTION_KEY", MASTER_KEY).envs(variables.iter().copied());
        Self::from_parts(ServerProcess::spawn(&mut command), dir)
    }

    /// Sends a request with an optional key and, unless it is null, a JSON body.
    pub(crate) fn ask(
        &self,
        key: Option<&str>,
        method: &str,
        target: &str,
        body: &Value,
    ) -> Response {
        json_request(key, method, target, body).send(&self.process.http)
    }

    /// Sends a request of an administrator, which must succeed.
    pub(crate) fn administer(&self, method: &str, target: &str, body: &Value) -> Value {
        let answer = self.ask(Some(ADMIN_KEY), method, target, body);
        assert!(answer.status < 300, "{method} {target}: {}", answer.json());
        answer.json()
    }

    /// Creates a key of a user and returns it with its id.
    pub(crate) fn create_key(&self, uid: &str) -> (String, String) {
        let answer = self.administer("POST", "/v1/admin/keys", &json!({ "user_uid": uid }));
        let text = |field: &str| answer[field].as_str().unwrap().to_owned();
        (text("key"), text("key_id"))
    }

    /// Stores a tool whose upstream does not exist.
    pub(crate) fn add_tool(&self, uid: &str, status: &str, id: &str) {
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
