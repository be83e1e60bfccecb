//! Requests that no git client sends.

use std::io::Write as _;

use axum::{body::Body, http::Request};
use flate2::{Compression, write::GzEncoder};
use skills_core::{Caller, Layer};

use crate::support::{Site, lines};

const ANYONE: Caller = Caller::Anonymous;

async fn status(site: &Site, encoding: Option<&str>, body: Vec<u8>) -> u16 {
    let mut request =
        Request::post("/git/all.git/git-upload-pack").header("git-protocol", "version=2");
    if let Some(encoding) = encoding {
        request = request.header("content-encoding", encoding);
    }
    site.send(&ANYONE, request.body(Body::from(body)).unwrap()).await.status
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn malformed_requests_are_refused() {
    let site = Site::new();
    site.put(&Layer::Official, "a", "1").await;
    for (body, expected) in [
        (b"zzzz".to_vec(), 400),
        (b"0010".to_vec(), 400),
        (b"0014command=unknown\n0000".to_vec(), 400),
        (b"0012command=fetch\n0001000fwant nothing00000".to_vec(), 400),
        (b"0012command=fetch\n00010000".to_vec(), 400),
        (b"0000".to_vec(), 200),
        (vec![], 200),
    ] {
        let text = String::from_utf8_lossy(&body).into_owned();
        assert_eq!(status(&site, None, body).await, expected, "{text}");
    }
    assert_eq!(status(&site, Some("gzip"), b"no gzip".to_vec()).await, 400);
    assert_eq!(status(&site, Some("br"), vec![]).await, 400);
    assert_eq!(status(&site, Some("gzip"), gzip(b"0000")).await, 200);
    // Expands to more than a negotiation can need.
    assert_eq!(status(&site, Some("gzip"), gzip(&vec![b'0'; 11 << 20])).await, 413);
}

#[tokio::test]
async fn a_huge_negotiation_is_answered() {
    let site = Site::new();
    site.put(&Layer::Official, "a", "1").await;
    let main = site.main(&ANYONE, "all").await;
    let want = format!("want {main}");
    let haves: Vec<String> = (0..100_000).map(|number| format!("have {number:040x}")).collect();
    let mut all = vec!["command=fetch", "0001", &want];
    all.extend(haves.iter().map(String::as_str));
    all.push("0000");
    let answer = site.post(&ANYONE, "all", 2, &all).await;
    assert_eq!(lines(&answer.body), ["acknowledgments", "NAK"]);
}

#[tokio::test]
async fn wants_that_do_not_exist_are_refused_with_a_sentence() {
    let site = Site::new();
    site.put(&Layer::Official, "a", "1").await;
    let want = format!("want {}", "3".repeat(40));
    let expected = format!("ERR upload-pack: not our ref {}", "3".repeat(40));
    let answer =
        site.post(&ANYONE, "all", 2, &["command=fetch", "0001", &want, "done", "0000"]).await;
    assert_eq!((answer.status, lines(&answer.body)), (200, vec![expected.clone()]));
    let answer = site.post(&ANYONE, "all", 0, &[&want, "0000", "done"]).await;
    assert_eq!((answer.status, lines(&answer.body)), (200, vec![expected]));
}

#[tokio::test]
async fn other_paths_and_services_are_refused() {
    let site = Site::new();
    for (target, expected) in [
        ("/git/all.git/info/refs?service=git-receive-pack", 403),
        ("/git/all.git/info/refs", 403),
        ("/git/all/info/refs?service=git-upload-pack", 404),
        ("/git/all.git/HEAD", 404),
        ("/git/nothing.git/info/refs?service=git-upload-pack", 404),
        ("/git/skill/nothing.git/info/refs?service=git-upload-pack", 404),
        ("/git/skill/..%2fx.git/info/refs?service=git-upload-pack", 404),
    ] {
        assert_eq!(site.get(&ANYONE, target).await.status, expected, "{target}");
    }
    let push = Request::post("/git/all.git/git-receive-pack").body(Body::empty()).unwrap();
    assert_eq!(site.send(&ANYONE, push).await.status, 403);
}
