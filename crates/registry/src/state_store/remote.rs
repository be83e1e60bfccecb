//! The `state::*` calls. Large scopes are read page by page where the state worker can do that.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::{json, value::RawValue};
use skills_bus::{Bus, CallError, Json};

/// How much one page may weigh: far from what any peer refuses.
const PAGE_BYTES: usize = 2_000_000;
const PAGE_ENTRIES: usize = 500;

/// Where the state lives unless a worker's namespace has one of its own.
const DEFAULT_NAMESPACE: &str = "default";

/// Where the state functions of a bus are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the worker's own namespace.
    Own,
    /// In the engine's default one.
    Default,
}

pub(super) struct Remote {
    bus: Arc<dyn Bus>,
    place: Place,
    timeout: Duration,
}

/// Where a page begins, in the words of the state worker.
pub(super) type Cursor = serde_json::Value;

#[derive(Deserialize)]
struct Page {
    entries: Vec<(String, Box<RawValue>)>,
    next_cursor: Option<Cursor>,
    #[serde(default)]
    done: bool,
}

/// Why a scope could not be read.
#[derive(Debug)]
pub(super) enum Unlisted {
    /// There are no pages, and the whole is too large for a message.
    TooLarge(CallError),
    /// There are no pages, and asking for the whole had no answer. That is also how it looks when the
    /// answer was too large for the connection, which then broke.
    Unanswered(CallError),
    Failed(CallError),
}

impl Remote {
    pub(super) fn new(bus: Arc<dyn Bus>, place: Place, timeout: Duration) -> Self {
        Self { bus, place, timeout }
    }

    /// Looks for the state functions: in the worker's own namespace first.
    pub(super) async fn find(
        bus: &Arc<dyn Bus>,
        timeout: Duration,
    ) -> Result<Option<Place>, CallError> {
        let probe = json!({ "scope": "skills", "key": "probe" });
        for place in [Place::Own, Place::Default] {
            let remote = Self::new(Arc::clone(bus), place, timeout);
            match remote.call("state::get", Json::from(&probe)).await {
                Err(CallError::NotFound(_)) => {}
                // It answered, if only to refuse the probe.
                Ok(_) | Err(CallError::Remote { .. }) => return Ok(Some(place)),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    async fn call(&self, function: &str, payload: Json) -> Result<Json, CallError> {
        match self.place {
            Place::Own => self.bus.call(function, payload, self.timeout).await,
            Place::Default => {
                self.bus.call_in(DEFAULT_NAMESPACE, function, payload, self.timeout).await
            }
        }
    }

    async fn ask(&self, function: &str, payload: &serde_json::Value) -> Result<Json, CallError> {
        self.call(function, Json::from(payload)).await
    }

    /// Hands the values of a page to `each`, with their keys where the state worker tells them, and
    /// returns where the next page begins. Where there are no pages it is asked for the whole, unless
    /// that is known not to work.
    pub(super) async fn page(
        &self,
        scope: &str,
        cursor: Option<&Cursor>,
        may_be_whole: bool,
        each: &mut dyn FnMut(Option<&str>, &str),
    ) -> Result<Option<Cursor>, Unlisted> {
        let request = json!({
            "scope": scope, "limit": PAGE_ENTRIES, "max_bytes": PAGE_BYTES, "cursor": cursor,
        });
        let page = match self.ask("state::list_entries", &request).await {
            Err(CallError::NotFound(_)) if cursor.is_none() && may_be_whole => {
                return self.each_at_once(scope, each).await.map(|()| None);
            }
            Err(error @ CallError::NotFound(_)) if cursor.is_none() => {
                return Err(Unlisted::TooLarge(error));
            }
            page => page.and_then(|page| {
                page.parse::<Page>().map_err(|error| unexpected("list_entries", &error))
            }),
        };
        let page = page.map_err(Unlisted::Failed)?;
        for (key, value) in &page.entries {
            each(Some(key), value.get());
        }
        Ok(page.next_cursor.filter(|_| !page.done))
    }

    async fn each_at_once(
        &self,
        scope: &str,
        each: &mut dyn FnMut(Option<&str>, &str),
    ) -> Result<(), Unlisted> {
        let values = self.ask("state::list", &json!({ "scope": scope })).await;
        let values = values.map_err(|error| match error {
            CallError::PayloadTooLarge(_) => Unlisted::TooLarge(error),
            CallError::Timeout { .. } | CallError::Stopped(_) => Unlisted::Unanswered(error),
            error if error.code() == "payload_too_large" => Unlisted::TooLarge(error),
            error => Unlisted::Failed(error),
        })?;
        let values: Vec<Box<RawValue>> =
            values.parse().map_err(|error| Unlisted::Failed(unexpected("list", &error)))?;
        for value in &values {
            each(None, value.get());
        }
        Ok(())
    }

    pub(super) async fn get(&self, scope: &str, key: &str) -> Result<Option<String>, CallError> {
        let value = self.ask("state::get", &json!({ "scope": scope, "key": key })).await?;
        Ok((value.as_str() != "null").then(|| value.as_str().to_owned()))
    }

    pub(super) async fn set(&self, scope: &str, key: &str, value: &str) -> Result<(), CallError> {
        #[derive(serde::Serialize)]
        struct Set<'a> {
            scope: &'a str,
            key: &'a str,
            value: &'a RawValue,
        }
        let value = serde_json::from_str(value).map_err(|error| unexpected("set", &error))?;
        let payload = Json::from_serialize(&Set { scope, key, value })
            .map_err(|error| unexpected("set", &error))?;
        self.call("state::set", payload).await.map(drop)
    }

    pub(super) async fn delete(&self, scope: &str, key: &str) -> Result<(), CallError> {
        self.ask("state::delete", &json!({ "scope": scope, "key": key })).await.map(drop)
    }
}

fn unexpected(function: &str, error: &serde_json::Error) -> CallError {
    CallError::remote("unexpected_answer", format!("state::{function}: {error}"))
}
