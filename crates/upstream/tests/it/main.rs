//! The upstream client against test servers, over real sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod guard;
mod limits;
mod redaction;
mod requests;
mod test_upstream;
mod tls;

use std::{
    collections::{BTreeMap, HashMap},
    io,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::Value;
use skills_upstream::{DnsResolver, Secret, Settings, UpstreamCall, UpstreamClient, UpstreamError};

/// Resolver with fixed answers that counts lookups. Several answers for a name are given one after the other, and
/// the last one from then on.
#[derive(Default)]
struct FakeResolver {
    answers: HashMap<String, Vec<Vec<IpAddr>>>,
    lookups: AtomicUsize,
}

impl FakeResolver {
    fn new(answers: &[(&str, &[&[&str]])]) -> Arc<Self> {
        let parsed = |list: &&[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
        let named = |(name, lists): &(&str, &[&[&str]])| {
            ((*name).to_owned(), lists.iter().map(parsed).collect())
        };
        Arc::new(Self { answers: answers.iter().map(named).collect(), lookups: 0.into() })
    }

    fn lookups(&self) -> usize {
        self.lookups.load(Ordering::SeqCst)
    }
}

#[async_trait::async_trait]
impl DnsResolver for FakeResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let lookups = self.lookups.fetch_add(1, Ordering::SeqCst);
        let lists = self.answers.get(host).ok_or(io::ErrorKind::NotFound)?;
        Ok(lists[lookups.min(lists.len() - 1)].clone())
    }
}

/// Settings that allow these origins and resolve no names.
fn allowing(origins: &[&str]) -> Settings {
    Settings {
        allow: origins.iter().map(|origin| origin.parse().unwrap()).collect(),
        resolver: Arc::new(FakeResolver::default()),
        ..Settings::default()
    }
}

/// Executes a call with one secret, `KEY`, whose value is `s3cret-value`.
async fn execute(
    settings: Settings,
    implementation: Value,
    params: Value,
) -> Result<Value, UpstreamError> {
    let secrets = BTreeMap::from([("KEY".to_owned(), Secret::new("s3cret-value"))]);
    let (implementation, params) = (implementation.as_object(), params.as_object());
    let (implementation, params) = (implementation.unwrap(), params.unwrap());
    let (secrets, trace_id) = (&secrets, "trace-1");
    let call = UpstreamCall { implementation, params, secrets, trace_id, allowed: &[], owner: "" };
    UpstreamClient::new(settings).execute(call).await
}
