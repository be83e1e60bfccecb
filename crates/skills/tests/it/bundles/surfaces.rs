use std::fs;

use serde_json::{Value, json};
use skills_testkit::Request;

use super::{answer, put, put_bundles, text, tree};

use crate::support::{TestServer, read};

const REVISION: &str = "2026-07-28";

/// Sends an MCP request of the newest revision, which needs no session.
pub(super) fn ask(server: &TestServer, method: &str, mut params: Value) -> Value {
    let name = params["uri"].as_str().map(str::to_owned);
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let mut request = Request::new("POST", "/mcp")
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", REVISION)
        .header("Mcp-Method", method)
        .body(message.to_string());
    if let ("resources/read", Some(name)) = (method, name) {
        request = request.header("Mcp-Name", &name);
    }
    let mut answer = request.send(&server.process.http).json();
    assert!(answer["error"].is_null(), "{method}: {answer}");
    answer["result"].take()
}

/// Reads the bytes of a resource.
fn bytes(server: &TestServer, uri: &str) -> Vec<u8> {
    let answer = ask(server, "resources/read", json!({ "uri": uri }));
    let content = &answer["contents"][0];
    match content["text"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => from_base64(content["blob"].as_str().unwrap()),
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |byte: &u8| DIGITS.iter().position(|digit| digit == byte);
    let digits: Vec<usize> = text.as_bytes().iter().filter_map(digit).collect();
    let mut bytes = Vec::new();
    for four in digits.chunks(4) {
        let number = four.iter().fold(0, |sum, digit| sum << 6 | digit) << (6 * (4 - four.len()));
        let three = u32::try_from(number).unwrap().to_be_bytes();
        bytes.extend(&three[1..four.len()]);
    }
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nested_files_are_read_over_the_bus_and_mcp() {
    let server = TestServer::new();
    put_bundles(server.dir(), &["one"]);
    let dir = server.dir().join("one");
    put(&dir, "références/mit leerzeichen.md", "# Grüße\n");
    answer(&["--url", &server.process.url, "add", text(&dir)]);

    let worker = server.worker().await;
    let uri = "iii://one/references/deep/notes.md";
    assert_eq!(read(&worker, uri).await, "# Notes of one\n");
    assert_eq!(bytes(&server, uri), b"# Notes of one\n");
    let encoded = "iii://one/r%C3%A9f%C3%A9rences/mit%20leerzeichen.md";
    assert_eq!(read(&worker, encoded).await, "# Grüße\n");
    assert_eq!(bytes(&server, "iii://one/assets/raw.bin"), [0, 159, 146, 150]);

    let list = ask(&server, "skills/list", json!({}));
    let skills = list["skills"].as_array().unwrap();
    assert_eq!(skills.len(), 1, "{list}");
    let resources = skills[0]["resources"].as_array().unwrap();
    let files = worker.ok("skills::files", json!({ "id": "one" })).await;
    let on_disk = tree(&dir);
    assert_eq!(resources.len(), on_disk.len());
    for (resource, file) in resources.iter().zip(files["files"].as_array().unwrap()) {
        let path = file["path"].as_str().unwrap();
        let expected = fs::read(dir.join(path)).unwrap();
        assert_eq!(bytes(&server, resource["uri"].as_str().unwrap()), expected, "{path}");
        assert_eq!(resource["size"], expected.len(), "{path}");
        assert_eq!(resource["digest"], file["digest"], "{path}");
        assert_eq!(file["digest"], format!("sha256:{}", sha256(&dir.join(path))), "{path}");
    }
}

/// Computes the digest with another implementation than the tested one.
fn sha256(path: &std::path::Path) -> String {
    let ran = skills_testkit::run(skills_testkit::program("sha256sum").arg("-z").arg(path));
    ran.stdout.split(' ').next().unwrap().to_owned()
}

#[test]
fn folders_can_be_listed_over_mcp() {
    let server = TestServer::new();
    put_bundles(server.dir(), &["one"]);
    answer(&["--url", &server.process.url, "add", text(&server.dir().join("one"))]);
    let mut open = vec!["skill://one".to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = open.pop() {
        let answer = ask(&server, "resources/directory/read", json!({ "uri": folder }));
        for child in answer["resources"].as_array().unwrap() {
            let uri = child["uri"].as_str().unwrap().to_owned();
            match child["mimeType"] == "inode/directory" {
                true => open.push(uri),
                false => files.push(uri),
            }
        }
    }
    files.sort();
    assert_eq!(
        files,
        [
            "skill://one/SKILL.md",
            "skill://one/assets/raw.bin",
            "skill://one/references/deep/notes.md",
        ]
    );
}
