//! Requests that no git client sends.

use std::{
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{body::Body, http::Request};
use flate2::{Compression, write::GzEncoder};
use futures_util::StreamExt as _;
use skills_core::{Caller, KeyDirectory, KeyLookup, Layer};
use skills_registry::{Registry, RegistryConfig};
use skills_store::MemoryStore;

use crate::support::{Site, lines, skill, user};

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

/// Registers a skill whose pack is larger than what waits for a client.
async fn put_large(site: &Site) {
    let noise: Vec<u8> = (0..300_000_u64)
        .map(|index| (index.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
        .collect();
    let files: Vec<(String, Vec<u8>)> = (0..20_u8)
        .map(|number| (format!("{number}.bin"), [&[number], &noise[..]].concat()))
        .collect();
    let files: Vec<(&str, &[u8], Option<bool>)> =
        files.iter().map(|(path, bytes)| (path.as_str(), &bytes[..], None)).collect();
    site.put_bundle("large", skill("large", "Text."), &files).await;
}

#[tokio::test]
async fn a_pack_ends_with_its_client() {
    let site = Site::new();
    put_large(&site).await;
    let main = site.main(&ANYONE, "all").await;
    let want = format!("want {main}");
    let mut body = site
        .open(&ANYONE, "all", 2, &["command=fetch", "0001", &want, "done", "0000"])
        .await
        .into_data_stream();
    assert!(body.next().await.unwrap().is_ok());
    // The queue is full now, and the sender waits for the client.
    let held = || Arc::strong_count(&site.registry);
    let sending = held();
    drop(body);
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    while held() >= sending {
        assert!(tokio::time::Instant::now() < deadline, "the pack is still being sent");
        tokio::task::yield_now().await;
    }
}

/// Keys of one user, which can be revoked.
#[derive(Debug, Default)]
struct Keys(AtomicBool);

impl KeyDirectory for Keys {
    fn lookup(&self, _: &str) -> KeyLookup {
        KeyLookup::UnknownKey
    }

    fn is_active(&self, _: &Caller) -> bool {
        !self.0.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn a_key_that_is_revoked_ends_a_pack_that_is_being_sent() {
    let keys = Arc::new(Keys::default());
    let config = RegistryConfig { keys: Some(Arc::clone(&keys) as _), ..RegistryConfig::default() };
    let registry = Registry::open(Arc::new(MemoryStore::new()), None, config).unwrap();
    let site = Site::of(registry);
    put_large(&site).await;
    let ann = user("ann");
    let main = site.main(&ann, "mine").await;
    let want = format!("want {main}");
    let body = site.open(&ann, "mine", 2, &["command=fetch", "0001", &want, "done", "0000"]).await;
    let mut body = body.into_data_stream();
    assert!(body.next().await.unwrap().is_ok());
    keys.0.store(true, Ordering::SeqCst);
    let mut received = Vec::new();
    while let Some(part) = body.next().await {
        received.extend_from_slice(&part.unwrap());
    }
    // What was queued, then the last frame: an error in the third band.
    assert!(received.len() < 3_000_000, "{}", received.len());
    let sentence = b"\x03the server cannot complete the pack";
    assert!(received.windows(sentence.len()).any(|part| part == sentence));
    let refused = site.get(&ann, "/git/mine.git/info/refs?service=git-upload-pack").await;
    assert_eq!(refused.status, 401);
}
