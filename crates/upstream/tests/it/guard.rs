//! Refused destinations: by address, by name, by redirect.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value, json};
use skills_core::Coded as _;
use skills_upstream::{DnsResolver, Settings, UpstreamCall, UpstreamClient, UpstreamError};

use crate::{
    FakeResolver, allowing, execute,
    test_upstream::{TestUpstream, ok},
};

async fn get(settings: Settings, url: &str) -> Result<Value, UpstreamError> {
    execute(settings, json!({"endpoint": url, "method": "GET"}), json!({})).await
}

fn with(names: &Arc<FakeResolver>) -> Settings {
    let resolver: Arc<dyn DnsResolver> = Arc::<FakeResolver>::clone(names);
    Settings { resolver, ..Settings::default() }
}

async fn code(settings: Settings, url: &str) -> &'static str {
    get(settings, url).await.unwrap_err().code().as_str()
}

#[tokio::test]
async fn every_spelling_of_an_internal_address_is_refused() {
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
async fn one_internal_address_among_several_refuses_the_host() {
    let public = "93.184.216.34";
    for inner in ["127.0.0.1", "10.1.2.3", "::1", "::ffff:10.0.0.1", "fe80::1", "169.254.169.254"] {
        for list in [[public, inner], [inner, public]] {
            let names = FakeResolver::new(&[("two.test", &[&list])]);
            let error = get(with(&names), "https://two.test/").await.unwrap_err();
            assert_eq!(
                error,
                UpstreamError::RefusedAddress { host: "two.test".to_owned() },
                "{list:?}"
            );
            assert_eq!(names.lookups(), 1, "{list:?}");
        }
    }
    let names = FakeResolver::new(&[("localhost", &[&["127.0.0.1"]]), ("none.test", &[&[]])]);
    assert_eq!(code(with(&names), "https://localhost./").await, "refused_address");
    assert_eq!(code(with(&names), "https://none.test/").await, "upstream_connect");
    assert_eq!(code(with(&names), "https://unknown.test/").await, "upstream_connect");
}

#[tokio::test]
async fn a_name_is_resolved_once_and_the_checked_address_is_used() {
    let server = TestUpstream::echo().await;
    let origin = format!("http://rebinding.test:{}", server.port);
    // A second lookup would return another address.
    let names = FakeResolver::new(&[("rebinding.test", &[&["127.0.0.1"], &["127.0.0.99"]])]);
    let settings = Settings { allow: vec![origin.parse().unwrap()], ..with(&names) };
    let answer = get(settings, &origin).await.unwrap();
    assert_eq!(answer["headers"]["host"], format!("rebinding.test:{}", server.port));
    assert_eq!(names.lookups(), 1);
}

#[tokio::test]
async fn an_unreachable_address_is_skipped() {
    let server = TestUpstream::echo().await;
    let origin = format!("http://two.test:{}", server.port);
    // Nothing listens on the first address: the server is bound to one only.
    let names = FakeResolver::new(&[("two.test", &[&["127.0.0.98", "127.0.0.1"]])]);
    let settings = Settings { allow: vec![origin.parse().unwrap()], ..with(&names) };
    assert!(get(settings, &origin).await.is_ok());
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn only_https_and_allowed_origins_are_called() {
    let server = TestUpstream::echo().await;
    let origin = server.origin();
    assert!(get(allowing(&[&origin]), &origin).await.is_ok());
    // The same server under another name, port or scheme.
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
    // Without the https rule the address rule still holds.
    let plain = Settings { https_only: false, ..allowing(&[]) };
    assert_eq!(code(plain, &origin).await, "refused_address");
    assert_eq!(server.received().len(), 1);
}

/// An allowance for one call holds for no other, and a redirect from elsewhere does not use it.
#[tokio::test]
async fn an_origin_may_be_exempt_for_one_call() {
    let inner = TestUpstream::echo().await;
    let origin = inner.origin();
    let outer = {
        let origin = origin.clone();
        TestUpstream::redirecting(302, move |_| origin.clone()).await
    };
    let upstream = UpstreamClient::new(allowing(&[&outer.origin()]));
    let (params, secrets) = (Map::new(), BTreeMap::new());
    let allowed = [origin.parse().unwrap()];
    for (url, allowed, wanted) in [
        (&origin, &allowed[..], Ok(())),
        (&origin, &[], Err("not_https")),
        (&outer.origin(), &allowed, Err("upstream_bad_redirect")),
        (&outer.origin(), &[], Err("not_https")),
    ] {
        let implementation = json!({"endpoint": url, "method": "GET"});
        let done = upstream.execute(UpstreamCall {
            implementation: implementation.as_object().unwrap(),
            params: &params,
            secrets: &secrets,
            trace_id: "t",
            allowed,
            owner: "",
        });
        assert_eq!(done.await.map(|_| ()).map_err(|error| error.code().as_str()), wanted, "{url}");
    }
}

#[tokio::test]
async fn a_redirect_into_an_exempt_origin_is_followed_only_from_the_same_origin() {
    let inner = TestUpstream::echo().await;
    let target = inner.origin();
    let outer = TestUpstream::redirecting(307, move |_| target.clone()).await;
    let both = allowing(&[&outer.origin(), &inner.origin()]);
    assert_eq!(code(both, &outer.origin()).await, "upstream_bad_redirect");
    assert_eq!(inner.received().len(), 0, "nothing was sent there");
    let same = TestUpstream::redirecting(307, |asked| match asked.target.as_str() {
        "/" => "/next".to_owned(),
        _ => "https://[".to_owned(),
    })
    .await;
    assert_eq!(code(allowing(&[&same.origin()]), &same.origin()).await, "upstream_bad_redirect");
    assert_eq!(same.received().len(), 2, "within the origin it was followed");
}

/// Requests that can be refused without a lookup are refused before anything is sent.
#[tokio::test]
async fn a_refused_request_is_not_built() {
    let upstream = UpstreamClient::new(allowing(&[]));
    let (params, secrets) = (Map::new(), BTreeMap::new());
    for (endpoint, code) in [
        ("http://a.test", "not_https"),
        ("https://127.0.0.1", "refused_address"),
        ("https://[::1]/", "refused_address"),
        ("https://a.test/{{q}}", "missing_parameters"),
        ("https://u@a.test/", "invalid_implementation"),
    ] {
        let implementation = json!({"endpoint": endpoint});
        let prepared = upstream.prepare(UpstreamCall {
            implementation: implementation.as_object().unwrap(),
            params: &params,
            secrets: &secrets,
            trace_id: "t",
            allowed: &[],
            owner: "",
        });
        assert_eq!(prepared.unwrap_err().code().as_str(), code, "{endpoint}");
    }
}

#[tokio::test]
async fn urls_with_user_names_or_passwords_are_refused() {
    let server = TestUpstream::echo().await;
    let origin = server.origin();
    let url = origin.replace("http://", "http://user:word@");
    assert_eq!(code(allowing(&[&origin]), &url).await, "invalid_implementation");
    assert_eq!(server.received().len(), 0);
}

#[tokio::test]
async fn redirects_are_checked_like_requests() {
    for (to, wanted) in [
        ("https://127.0.0.1/", "refused_address"),
        ("https://[::ffff:169.254.169.254]/latest/meta-data", "refused_address"),
        ("//169.254.169.254/", "not_https"),
        ("http://93.184.216.34/", "not_https"),
        ("https://inner.test/", "refused_address"),
        ("https://user@inner.test/", "upstream_bad_redirect"),
        ("file:///etc/passwd", "not_https"),
        ("https://[", "upstream_bad_redirect"),
    ] {
        let server = TestUpstream::redirecting(302, move |_| to.to_owned()).await;
        let names = FakeResolver::new(&[("inner.test", &[&["192.168.0.1"]])]);
        let settings = Settings { allow: vec![server.origin().parse().unwrap()], ..with(&names) };
        assert_eq!(code(settings, &server.origin()).await, wanted, "{to}");
        assert_eq!(server.received().len(), 1, "{to}");
    }
}

#[tokio::test]
async fn the_number_of_redirects_is_limited() {
    let circle = TestUpstream::redirecting(302, |asked| format!("{}x", asked.target)).await;
    let settings = Settings { max_redirects: 3, ..allowing(&[&circle.origin()]) };
    assert_eq!(code(settings, &circle.origin()).await, "upstream_bad_redirect");
    assert_eq!(circle.received().len(), 4);
    let nowhere =
        TestUpstream::start(|_| "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n".into()).await;
    assert_eq!(code(allowing(&[&nowhere.origin()]), &nowhere.origin()).await, "upstream_status");
}

/// Redirects to public origins are tested beside the code: here every origin has an allowance.
#[tokio::test]
async fn secrets_are_not_sent_to_another_origin() {
    let other = TestUpstream::start(|_| ok("text/plain", "there")).await;
    let to = format!("{}/next", other.origin());
    let server = TestUpstream::redirecting(307, move |_| to.clone()).await;
    let implementation = json!({
        "endpoint": format!("{}/?k={{{{SECRETS.KEY}}}}", server.origin()),
        "headers": {"X-Key": "{{SECRETS.KEY}}", "X-Plain": "{{p}}", "Cookie": "a=b"},
        "api_key": "{{SECRETS.KEY}}",
        "body": {"p": "{{p}}"},
    });
    let settings = allowing(&[&server.origin(), &other.origin()]);
    let with_secret = json!({"endpoint": server.origin(), "body": {"k": "{{SECRETS.KEY}}"}});
    for implementation in [implementation, with_secret] {
        let error = execute(settings.clone(), implementation, json!({"p": "v"})).await.unwrap_err();
        assert_eq!(error.code().as_str(), "upstream_bad_redirect");
    }
    let first = &server.received()[0];
    assert_eq!(first.target, "/?k=s3cret-value");
    assert_eq!(first.headers["authorization"], "Bearer s3cret-value");
    assert_eq!(other.received().len(), 0);
}
