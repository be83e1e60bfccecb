//! Routes with terms of their own.

use std::time::Duration;

use skills_http::Limits;
use skills_testkit::Request;

use crate::house::{House, patient};

fn known(request: Request) -> Request {
    request.header("Authorization", "Bearer s3cret")
}

#[tokio::test]
async fn what_waits_is_no_work_and_is_not_cut_off() {
    let limits = Limits { requests: 1, answer_within: Duration::from_millis(50), ..patient() };
    let house = House::with_wings(limits, "s3cret").await;
    let waiting = [(); 3].map(|()| house.ask(known(Request::get("/hall/wait"))));
    house.until_arrived(3).await;
    assert_eq!(house.answer(known(Request::get("/who"))).await.status, 200);
    // Under the limits of all, the same takes too long.
    let cut_off = house.answer(known(Request::get("/wait"))).await;
    assert_eq!(cut_off.refusal(), (504, "timeout".to_owned()));
    for answer in waiting {
        house.release();
        assert_eq!(answer.await.unwrap().body, b"done");
    }
    let panicked = house.answer(known(Request::get("/hall/panic"))).await;
    assert_eq!(panicked.refusal(), (500, "internal".to_owned()));
}

#[tokio::test]
async fn bodies_may_be_as_large_as_a_wing_says() {
    let house = House::with_wings(patient(), "s3cret").await;
    let size = async |path: &str, size: usize| {
        house.answer(known(Request::new("POST", path)).body(vec![b'x'; size])).await
    };
    assert_eq!(size("/raw", 5 << 20).await.status, 413);
    assert_eq!(size("/hall/raw", 5 << 20).await.body, b"5242880");
    assert_eq!(size("/hall/raw", (8 << 20) + 1).await.status, 413);
}

#[tokio::test]
async fn only_what_is_left_to_a_wing_passes_without_the_token() {
    let house = House::with_wings(patient(), "s3cret").await;
    for path in ["/hall/who", "/elsewhere", "/who", "/healthz/x"] {
        let answer = house.answer(Request::get(path)).await;
        assert_eq!(answer.refusal(), (401, "unauthorized".to_owned()), "{path}");
    }
    let own = |path: &str| Request::get(path).header("X-Own", "1");
    assert_eq!(house.answer(own("/hall/who")).await.body, b"Credential(none)");
    assert_eq!(house.answer(own("/elsewhere")).await.body, b"the rest");
    assert_eq!(house.answer(own("/who")).await.status, 401, "no wing");
    assert_eq!(house.answer(own("/wait")).await.status, 401, "no wing");
    let post = Request::new("POST", "/who").header("X-Own", "1");
    assert_eq!(house.answer(post).await.status, 401, "no wing");
    // Whom the guard knows, a wing is told of; whom it does not know is nobody in particular.
    let ann = own("/hall/caller").header("Authorization", "Bearer us-ann");
    assert!(house.answer(ann).await.body.starts_with(b"key:"));
    let bob = own("/hall/caller").header("Authorization", "Bearer us-bob");
    assert_eq!(house.answer(bob).await.body, b"");
    // Hosts and origins are the same for all.
    let page = own("/hall/who").header("Origin", "https://evil.example");
    assert_eq!(house.answer(page).await.refusal(), (403, "origin_not_allowed".to_owned()));
    let named = own("/elsewhere").header("Host", "evil.example");
    assert_eq!(house.answer(named).await.refusal(), (403, "host_not_allowed".to_owned()));
}

#[tokio::test]
async fn the_rest_takes_what_no_route_has() {
    let house = House::with_wings(patient(), "s3cret").await;
    for (path, status) in [("/", 418), ("/elsewhere/x", 418), ("/healthz", 200), ("/who", 200)] {
        assert_eq!(house.answer(known(Request::get(path))).await.status, status, "{path}");
    }
    let post = house.answer(known(Request::new("POST", "/who"))).await;
    assert_eq!(post.refusal(), (405, "method_not_allowed".to_owned()));
}
