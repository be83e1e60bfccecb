//! Route groups with their own policy.

use std::time::Duration;

use skills_http::HttpLimits;
use skills_testkit::Request;

use crate::test_server::{TestServer, without_timeouts};

fn with_credentials(request: Request) -> Request {
    request.header("Authorization", "Bearer s3cret")
}

#[tokio::test]
async fn long_poll_routes_need_no_permit_and_have_no_timeout() {
    let limits = HttpLimits {
        requests: 1,
        response_timeout: Duration::from_millis(50),
        ..without_timeouts()
    };
    let server = TestServer::with_route_groups(limits, "s3cret").await;
    let waiting = [(); 3].map(|()| server.ask(with_credentials(Request::get("/hall/wait"))));
    server.until_arrived(3).await;
    assert_eq!(server.answer(with_credentials(Request::get("/who"))).await.status, 200);
    // Under the common limits the same request times out.
    let cut_off = server.answer(with_credentials(Request::get("/wait"))).await;
    assert_eq!(cut_off.refusal(), (504, "timeout".to_owned()));
    // The order of release is not defined.
    waiting.iter().for_each(|_| server.release());
    for answer in waiting {
        assert_eq!(answer.await.unwrap().body, b"done");
    }
    let panicked = server.answer(with_credentials(Request::get("/hall/panic"))).await;
    assert_eq!(panicked.refusal(), (500, "internal".to_owned()));
}

#[tokio::test]
async fn a_route_group_can_raise_the_body_limit() {
    let server = TestServer::with_route_groups(without_timeouts(), "s3cret").await;
    let size = async |path: &str, size: usize| {
        server.answer(with_credentials(Request::new("POST", path)).body(vec![b'x'; size])).await
    };
    assert_eq!(size("/raw", 5 << 20).await.status, 413);
    assert_eq!(size("/hall/raw", 5 << 20).await.body, b"5242880");
    assert_eq!(size("/hall/raw", (8 << 20) + 1).await.status, 413);
}

#[tokio::test]
async fn only_requests_with_an_auth_bypass_pass_without_the_token() {
    let server = TestServer::with_route_groups(without_timeouts(), "s3cret").await;
    for path in ["/hall/who", "/elsewhere", "/who", "/healthz/x"] {
        let answer = server.answer(Request::get(path)).await;
        assert_eq!(answer.refusal(), (401, "unauthorized".to_owned()), "{path}");
    }
    let own = |path: &str| Request::get(path).header("X-Own", "1");
    assert_eq!(server.answer(own("/hall/who")).await.body, b"Credential(none)");
    assert_eq!(server.answer(own("/elsewhere")).await.body, b"the rest");
    assert_eq!(server.answer(own("/who")).await.status, 401, "no wing");
    assert_eq!(server.answer(own("/wait")).await.status, 401, "no wing");
    let post = Request::new("POST", "/who").header("X-Own", "1");
    assert_eq!(server.answer(post).await.status, 401, "no wing");
    // A group sees callers that the guard knows; unknown callers are anonymous.
    let ann = own("/hall/caller").header("Authorization", "Bearer us-ann");
    assert!(server.answer(ann).await.body.starts_with(b"key:"));
    let bob = own("/hall/caller").header("Authorization", "Bearer us-bob");
    assert_eq!(server.answer(bob).await.body, b"");
    // Host and origin checks apply to all groups.
    let page = own("/hall/who").header("Origin", "https://evil.example");
    assert_eq!(server.answer(page).await.refusal(), (403, "origin_not_allowed".to_owned()));
    let named = own("/elsewhere").header("Host", "evil.example");
    assert_eq!(server.answer(named).await.refusal(), (403, "host_not_allowed".to_owned()));
}

#[tokio::test]
async fn the_fallback_group_takes_unmatched_paths() {
    let server = TestServer::with_route_groups(without_timeouts(), "s3cret").await;
    for (path, status) in [("/", 418), ("/elsewhere/x", 418), ("/healthz", 200), ("/who", 200)] {
        assert_eq!(
            server.answer(with_credentials(Request::get(path))).await.status,
            status,
            "{path}"
        );
    }
    let post = server.answer(with_credentials(Request::new("POST", "/who"))).await;
    assert_eq!(post.refusal(), (405, "method_not_allowed".to_owned()));
}
