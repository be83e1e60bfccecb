//! Bodies are returned byte for byte, up to the limit.

use serde_json::json;
use skills_testkit::Random;
use tokio_tungstenite::tungstenite::Message;

use crate::support::{TestServer, ids, read, register};

#[tokio::test]
async fn bodies_are_returned_byte_for_byte() {
    let server = TestServer::new();
    let worker = server.worker().await;
    for body in [
        "x",
        " ",
        "\n",
        "\0",
        "a\0b\0",
        "line\r\nline\r\n",
        "\rlone\r",
        "\u{feff}# BOM",
        "Grüße, 世界, नमस्ते, 🦀👩‍👩‍👧",
        "\u{2028}\u{2029}\u{85}",
        "e\u{301} is not \u{e9}",
        "\u{7f}\u{1b}[31m\u{8}\u{c}",
        "\"quotes\" and \\backslashes\\ and /slashes/ and </script>",
        "trailing   \n\n\n",
        "\u{10ffff}\u{fffd}\u{fffe}",
    ] {
        register(&worker, "body", body).await;
        assert_eq!(read(&worker, "iii://body").await, body, "{body:?}");
        let list = worker.ok("skills::list", json!({})).await;
        assert_eq!(list["skills"][0]["bytes"], body.len(), "{body:?}");
    }
}

#[tokio::test]
async fn any_text_is_returned_unchanged() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let mut random = Random::new();
    let mut bodies = Vec::new();
    for _ in 0..200 {
        let length = 1 + random.below(400);
        let mut character = || loop {
            let range = [0x80, 0x800, 0x1_0000, 0x11_0000][random.below(4)];
            let code = u32::try_from(random.below(range)).unwrap();
            if let Some(character) = char::from_u32(code) {
                return character;
            }
        };
        bodies.push((0..length).map(|_| character()).collect::<String>());
    }
    let calls: Vec<_> = bodies
        .iter()
        .enumerate()
        .map(|(number, body)| {
            let skill = json!({ "id": format!("s{number}"), "skill": body });
            worker.start("skills::register", &skill)
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    for (number, body) in bodies.iter().enumerate() {
        let text = read(&worker, &format!("iii://s{number}")).await;
        assert_eq!(&text, body, "seed {}", random.seed);
    }
}

#[tokio::test]
async fn the_body_limit_is_262144_bytes_and_not_characters() {
    let server = TestServer::new();
    let worker = server.worker().await;
    for body in ["x".repeat(262_144), "é".repeat(131_072), "\u{1}".repeat(262_144)] {
        register(&worker, "large", &body).await;
        assert!(read(&worker, "iii://large").await == body, "{:?}", &body[..2]);
    }
    for body in ["x".repeat(262_145), "é".repeat(131_073)] {
        let data = json!({ "id": "larger", "skill": body });
        let failure = worker.fails("skills::register", data).await;
        assert_eq!(failure.code, "too_large", "{body:?}");
        assert!(failure.message.contains("skill too large"), "{}", failure.message);
        assert!(failure.message.len() < 200, "an error does not repeat the body");
    }
    assert_eq!(ids(&worker).await, ["large"]);
}

#[tokio::test]
async fn a_lone_surrogate_is_refused_and_the_connection_kept() {
    let server = TestServer::new();
    let mut worker = server.worker().await;
    register(&worker, "a", "before").await;
    // A lone surrogate is valid JSON but no valid text.
    worker.send_raw(Message::text(
        r#"{"type":"invokefunction","invocation_id":"6d2b0b9c-4f52-4b0e-8a51-1c55d3c0f3a1",
           "function_id":"skills::register","data":{"id":"a","skill":"\ud800"}}"#,
    ));
    let answer = worker.frame("invocationresult").await;
    assert_eq!(answer["invocation_id"], "6d2b0b9c-4f52-4b0e-8a51-1c55d3c0f3a1");
    assert_eq!(answer["error"]["code"], "invalid_input", "{answer}");
    assert_eq!(read(&worker, "iii://a").await, "before");
}
