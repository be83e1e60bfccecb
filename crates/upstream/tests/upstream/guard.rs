//! What may not be reached: by address, by name, by redirect.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value, json};
use skills_upstream::{Call, ExecuteError, Resolve, Settings, Upstream};

use crate::{
    Names, allowing, execute,
    server::{Server, ok},
};

async fn get(settings: Settings, url: &str) -> Result<Value, ExecuteError> {
    execute(settings, json!({"endpoint": url, "method": "GET"}), json!({})).await
}

fn with(names: &Arc<Names>) -> Settings {
    let resolver: Arc<dyn Resolve> = Arc::<Names>::clone(names);
    Settings { resolver, ..Settings::default() }
}

async fn code(settings: Settings, url: &str) -> &'static str {
    get(settings, url).await.unwrap_err().code()
}

#[tokio::test]
async fn every_spelling_of_an_inner_address_is_refused() {
    for host in [
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "0x7f000001",
        "2130706433",
        "017700000001",
        "0177.0.0.1",
        "127.0.0.1.",
        "１２７.０.０.１",
        "127。0。0。1",
        "%31%32%37.0.0.1",
        "0",
        "0.0.0.0",
        "10.0.0.1",
        "169.254.169.254",
        "0xa9fea9fe",
        "169.254.43518",
        "100.100.100.200",
        "168.63.129.16",
        "192.168.0.1",
        "172.16.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::127.0.0.1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::ffff:a9fe:a9fe]",
        "[64:ff9b::169.254.169.254]",
        "[64:ff9b:1::8.8.8.8]",
        "[2002:7f00:1::]",
        "[2001::1]",
        "[fe80::1]",
        "[fec0::1]",
        "[fd00:ec2::254]",
        "[ff02::1]",
    ] {
        let settings = allowing(&["http://127.0.0.1:1"]);
        assert_eq!(code(settings, &format!("https://{host}/")).await, "refused_address", "{host}");
    }
}

#[tokio::test]
async fn one_inner_address_of_a_name_is_enough() {
    let public = "93.184.216.34";
    for inner in ["127.0.0.1", "10.1.2.3", "::1", "::ffff:10.0.0.1", "fe80::1", "169.254.169.254"] {
        for list in [[public, inner], [inner, public]] {
            let names = Names::new(&[("two.test", &[&list])]);
            let error = get(with(&names), "https://two.test/").await.unwrap_err();
            assert_eq!(error, ExecuteError::RefusedAddress { host: "two.test".to_owned() });
            assert_eq!(names.asked(), 1);
        }
    }
    let names = Names::new(&[("localhost", &[&["127.0.0.1"]]), ("none.test", &[&[]])]);
    assert_eq!(code(with(&names), "https://localhost./").await, "refused_address");
    assert_eq!(code(with(&names), "https://none.test/").await, "connect");
    assert_eq!(code(with(&names), "https://unknown.test/").await, "connect");
}

#[tokio::test]
async fn a_name_is_looked_up_once_and_what_was_checked_is_connected_to() {
    let server = Server::echo().await;
    let origin = format!("http://rebinding.test:{}", server.port);
    // Whoever asked twice would connect to another address the second time.
    let names = Names::new(&[("rebinding.test", &[&["127.0.0.1"], &["127.0.0.99"]])]);
    let settings = Settings { allow: vec![origin.parse().unwrap()], ..with(&names) };
    let answer = get(settings, &origin).await.unwrap();
    assert_eq!(answer["headers"]["host"], format!("rebinding.test:{}", server.port));
    assert_eq!(names.asked(), 1);
}

#[tokio::test]
async fn an_address_that_does_not_answer_is_passed_over() {
    let server = Server::echo().await;
    let origin = format!("http://two.test:{}", server.port);
    // Nothing listens on the first one: the server is bound to one address only.
    let names = Names::new(&[("two.test", &[&["127.0.0.98", "127.0.0.1"]])]);
    let settings = Settings { allow: vec![origin.parse().unwrap()], ..with(&names) };
    assert!(get(settings, &origin).await.is_ok());
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn only_https_and_only_the_origin_that_is_allowed() {
    let server = Server::echo().await;
    let origin = server.origin();
    assert!(get(allowing(&[&origin]), &origin).await.is_ok());
    // The same address by another name, another port, another scheme.
    let port = server.port;
    let elsewhere = ["http://127.0.0.2:80".to_owned(), format!("http://localhost:{port}")];
    for url in elsewhere {
        assert_eq!(code(allowing(&[&origin]), &url).await, "not_https", "{url}");
    }
    let secured = format!("https://127.0.0.1:{port}");
    assert_eq!(code(allowing(&[&origin]), &secured).await, "refused_address");
    for url in ["http://93.184.216.34/", "ftp://a.test/", "file:///etc/passwd", "gopher://a.test"] {
        assert_eq!(code(allowing(&[]), url).await, "not_https", "{url}");
    }
    // Without the rule on https the rule on addresses still holds.
    let plain = Settings { https_only: false, ..allowing(&[]) };
    assert_eq!(code(plain, &origin).await, "refused_address");
    assert_eq!(server.asked().len(), 1);
}

/// What is exempt for one call is exempt for no other, and where a redirect leads is judged the same.
#[tokio::test]
async fn an_origin_may_be_exempt_for_one_call() {
    let inner = Server::echo().await;
    let origin = inner.origin();
    let outer = {
        let origin = origin.clone();
        Server::redirecting(302, move |_| origin.clone()).await
    };
    let upstream = Upstream::new(allowing(&[&outer.origin()]));
    let (params, secrets) = (Map::new(), BTreeMap::new());
    let also = [origin.parse().unwrap()];
    for (url, also, wanted) in [
        (&origin, &also[..], Ok(())),
        (&origin, &[], Err("not_https")),
        (&outer.origin(), &also, Ok(())),
        (&outer.origin(), &[], Err("not_https")),
    ] {
        let implementation = json!({"endpoint": url, "method": "GET"});
        let done = upstream.execute(Call {
            implementation: implementation.as_object().unwrap(),
            params: &params,
            secrets: &secrets,
            trace_id: "t",
            also,
        });
        assert_eq!(done.await.map(|_| ()).map_err(|error| error.code()), wanted, "{url}");
    }
}

/// What can be refused without asking anybody is refused before anything is sent.
#[tokio::test]
async fn what_may_not_be_sent_is_not_put_together() {
    let upstream = Upstream::new(allowing(&[]));
    let (params, secrets) = (Map::new(), BTreeMap::new());
    for (endpoint, code) in [
        ("http://a.test", "not_https"),
        ("https://127.0.0.1", "refused_address"),
        ("https://[::1]/", "refused_address"),
        ("https://a.test/{{q}}", "missing_parameters"),
        ("https://u@a.test/", "invalid_implementation"),
    ] {
        let implementation = json!({"endpoint": endpoint});
        let prepared = upstream.prepare(Call {
            implementation: implementation.as_object().unwrap(),
            params: &params,
            secrets: &secrets,
            trace_id: "t",
            also: &[],
        });
        assert_eq!(prepared.unwrap_err().code(), code, "{endpoint}");
    }
}

#[tokio::test]
async fn users_and_passwords_stay_out_of_urls() {
    let server = Server::echo().await;
    let origin = server.origin();
    let url = origin.replace("http://", "http://user:word@");
    assert_eq!(code(allowing(&[&origin]), &url).await, "invalid_implementation");
    assert_eq!(server.asked().len(), 0);
}

#[tokio::test]
async fn redirects_are_checked_like_requests() {
    for (to, wanted) in [
        ("https://127.0.0.1/", "refused_address"),
        ("https://[::ffff:169.254.169.254]/latest/meta-data", "refused_address"),
        ("//169.254.169.254/", "not_https"),
        ("http://93.184.216.34/", "not_https"),
        ("https://inner.test/", "refused_address"),
        ("https://user@inner.test/", "bad_redirect"),
        ("file:///etc/passwd", "not_https"),
        ("https://[", "bad_redirect"),
    ] {
        let server = Server::redirecting(302, move |_| to.to_owned()).await;
        let names = Names::new(&[("inner.test", &[&["192.168.0.1"]])]);
        let settings = Settings { allow: vec![server.origin().parse().unwrap()], ..with(&names) };
        assert_eq!(code(settings, &server.origin()).await, wanted, "{to}");
        assert_eq!(server.asked().len(), 1);
    }
}

#[tokio::test]
async fn redirects_end() {
    let circle = Server::redirecting(302, |asked| format!("{}x", asked.target)).await;
    let settings = Settings { max_redirects: 3, ..allowing(&[&circle.origin()]) };
    assert_eq!(code(settings, &circle.origin()).await, "bad_redirect");
    assert_eq!(circle.asked().len(), 4);
    let nowhere = Server::start(|_| "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n".into()).await;
    assert_eq!(code(allowing(&[&nowhere.origin()]), &nowhere.origin()).await, "upstream_status");
}

#[tokio::test]
async fn secrets_do_not_follow_to_another_origin() {
    let other = Server::start(|_| ok("text/plain", "there")).await;
    let to = format!("{}/next", other.origin());
    let server = Server::redirecting(307, move |_| to.clone()).await;
    let implementation = json!({
        "endpoint": format!("{}/?k={{{{SECRETS.KEY}}}}", server.origin()),
        "headers": {"X-Key": "{{SECRETS.KEY}}", "X-Plain": "{{p}}", "Cookie": "a=b"},
        "api_key": "{{SECRETS.KEY}}",
        "body": {"p": "{{p}}"},
    });
    let settings = allowing(&[&server.origin(), &other.origin()]);
    let answer = execute(settings.clone(), implementation.clone(), json!({"p": "v"})).await;
    assert_eq!(answer, Ok(json!("there")));
    let first = &server.asked()[0];
    assert_eq!(first.target, "/?k=s3cret-value");
    assert_eq!(first.headers["authorization"], "Bearer s3cret-value");
    let second = &other.asked()[0];
    assert_eq!((second.method.as_str(), second.body.as_str()), ("POST", r#"{"p":"v"}"#));
    assert_eq!(second.headers["x-plain"], "v");
    assert!(!format!("{second:?}").contains("s3cret"), "{second:?}");
    for absent in ["authorization", "cookie", "x-key", "referer"] {
        assert!(!second.headers.contains_key(absent), "{absent}");
    }
    // With a secret in the body it is not sent at all.
    let mut secret = implementation;
    secret["body"] = json!({"deep": ["{{SECRETS.KEY}}"]});
    let error = execute(settings, secret, json!({"p": "v"})).await.unwrap_err();
    assert_eq!(error.code(), "bad_redirect");
    assert_eq!(other.asked().len(), 1);
}
