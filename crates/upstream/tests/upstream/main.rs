//! The client against servers that the tests start, over real sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod guard;
mod limits;
mod requests;
mod server;
mod tls;
mod words;

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
use skills_upstream::{Call, ExecuteError, Resolve, Secret, Settings, Upstream};

/// A resolver that says what a test wants, and counts how often it is asked. When there are several answers
/// for a name, each is given once, and the last one from then on.
#[derive(Default)]
struct Names {
    answers: HashMap<String, Vec<Vec<IpAddr>>>,
    asked: AtomicUsize,
}

impl Names {
    fn new(answers: &[(&str, &[&[&str]])]) -> Arc<Self> {
        let parsed = |list: &&[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
        let named = |(name, lists): &(&str, &[&[&str]])| {
            ((*name).to_owned(), lists.iter().map(parsed).collect())
        };
        Arc::new(Self { answers: answers.iter().map(named).collect(), asked: 0.into() })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait::async_trait]
impl Resolve for Names {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        let lists = self.answers.get(host).ok_or(io::ErrorKind::NotFound)?;
        Ok(lists[asked.min(lists.len() - 1)].clone())
    }
}

/// Settings that allow the origins that are named, with nobody to ask for names.
fn allowing(origins: &[&str]) -> Settings {
    Settings {
        allow: origins.iter().map(|origin| origin.parse().unwrap()).collect(),
        resolver: Arc::new(Names::default()),
        ..Settings::default()
    }
}

/// Executes with one secret, `KEY`, whose value is `s3cret-value`.
async fn execute(
    settings: Settings,
    implementation: Value,
    params: Value,
) -> Result<Value, ExecuteError> {
    let secrets = BTreeMap::from([("KEY".to_owned(), Secret::new("s3cret-value"))]);
    let (implementation, params) = (implementation.as_object(), params.as_object());
    let (implementation, params) = (implementation.unwrap(), params.unwrap());
    let call = Call { implementation, params, secrets: &secrets, trace_id: "trace-1", also: &[] };
    Upstream::new(settings).execute(call).await
}
