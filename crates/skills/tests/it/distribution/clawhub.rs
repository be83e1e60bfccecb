//! ClawHub's API on a server: bodies, limits and errors that the listener handles.

use serde_json::{Value, json};
use skills_core::Digest;
use skills_testkit::{Request, Response};

use super::document;
use crate::support::TestServer;

const TEN_MIB: usize = 10 << 20;

fn text(response: &Response) -> String {
    String::from_utf8_lossy(&response.body).into_owned()
}

/// Announces a file and sends it. Returns the response, and the file as a publish names it.
fn upload(server: &TestServer, key: &str, path: &str, bytes: &[u8]) -> (Response, Value) {
    let mut file = json!({ "path": path, "size": bytes.len(), "sha256": Digest::of(bytes) });
    let ticket = server.ask(Some(key), "POST", "/api/v1/skills/-/upload-url", &file).json();
    let url = ticket["uploadUrl"].as_str().unwrap();
    let id = url.rsplit('/').next().unwrap();
    let target = format!("/api/v1/uploads/{id}");
    let request = Request::new("POST", &target).header("Authorization", &format!("Bearer {key}"));
    let request = request.header("Content-Type", "application/json");
    let response = request.body(bytes).send(&server.process.http);
    file["storageId"] = id.into();
    file["uploadTicket"] = ticket["uploadTicket"].clone();
    (response, file)
}

#[test]
fn files_of_ten_mebibytes_are_published_and_counted() {
    let server = TestServer::with_admin();
    let (key, id) = server.create_key("ann");
    let (sent, root) = upload(&server, &key, "SKILL.md", document("notes", "Text.").as_bytes());
    assert_eq!(sent.status, 200, "{}", text(&sent));
    // More values than a request in JSON may have: it is a file and not parsed.
    let mut table = vec![b'['];
    table.extend_from_slice(&b"0,".repeat(TEN_MIB / 2 - 1));
    table.extend_from_slice(b"0]");
    table.truncate(TEN_MIB);
    let (sent, table) = upload(&server, &key, "table.json", &table);
    assert_eq!(sent.status, 200, "{}", text(&sent));
    let remaining = |response: &Response| -> u32 {
        response.header("ratelimit-remaining").unwrap().parse().unwrap()
    };
    let before = server.ask(Some(&key), "GET", "/api/v1/whoami", &Value::Null);
    let body = json!({
        "slug": "notes", "displayName": "Notes", "version": "1.0.0", "changelog": "",
        "ownerHandle": "ann", "tags": ["latest"], "files": [root, table],
    });
    let published = server.ask(Some(&key), "POST", "/api/v1/skills", &body);
    assert_eq!(published.status, 200, "{}", text(&published));
    assert!(remaining(&published) < remaining(&before), "a publish counts");
    assert!(published.header("ratelimit-reset").is_some());
    let found = server.ask(Some(&key), "GET", "/api/v1/download?slug=notes", &Value::Null);
    assert_eq!(
        (found.status, found.header("content-type").as_deref()),
        (200, Some("application/zip"))
    );

    // Errors of the listener are plain text too.
    let target = "/api/v1/uploads/x";
    let large = Request::new("POST", target).header("Authorization", &format!("Bearer {key}"));
    let large = large.body(vec![0; TEN_MIB + 1]).send(&server.process.http);
    assert_eq!((large.status, text(&large).as_str()), (413, "the request body is too large"));
    server.administer("DELETE", &format!("/v1/admin/keys/{id}"), &Value::Null);
    let revoked = server.ask(Some(&key), "GET", "/api/v1/whoami", &Value::Null);
    assert_eq!(revoked.status, 401);
    assert!(text(&revoked).starts_with("the key is unknown"), "{}", text(&revoked));
}
