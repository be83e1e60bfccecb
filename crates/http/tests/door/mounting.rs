//! What a surface's routes get from the door.

use skills_testkit::Request;

use crate::house::House;

#[tokio::test]
async fn a_method_that_a_route_does_not_have_is_refused() {
    let house = House::new().await;
    for path in ["/who", "/healthz"] {
        let answer = house.answer(Request::new("POST", path)).await;
        assert_eq!(answer.refusal(), (405, "method_not_allowed".to_owned()), "{path}");
        assert_eq!(answer.header("Allow").as_deref(), Some("GET,HEAD"), "{path}");
    }
}

#[tokio::test]
async fn what_a_surface_answers_beneath_its_own_address_is_its_own_affair() {
    let house = House::new().await;
    let answer = house.answer(Request::get("/nested/anything")).await;
    assert_eq!((answer.status, answer.body.as_slice()), (418, b"mine".as_slice()));
    assert_eq!(answer.header("Vary").as_deref(), Some("origin"), "but it is guarded");
    let page = Request::get("/nested/anything").header("Origin", "https://evil.example");
    assert_eq!(house.answer(page).await.refusal().1, "origin_not_allowed");
    let outside = house.answer(Request::get("/nowhere")).await;
    assert_eq!(outside.refusal(), (404, "not_found".to_owned()));
}

#[tokio::test]
async fn a_surface_sees_that_something_was_presented_and_not_what() {
    let house = House::new().await;
    assert_eq!(house.answer(Request::get("/who")).await.body, b"Credential(none)");
    let who = Request::get("/who").header("Authorization", "Bearer abc");
    assert_eq!(house.answer(who).await.body, b"Credential(_)");
}
