//! Client of the engine's state worker. Large scopes are read page by page if the worker supports it.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};
use skills_bus::{Bus, CallError, Json};
use skills_core::{Code, Coded};

use super::record::StoredValue;

/// Size limit of a page, far below the message limit of any peer.
const PAGE_BYTES: usize = 2_000_000;
/// Entry limit of a page.
const PAGE_ENTRIES: usize = 500;

/// Namespace of the state worker unless the worker's own namespace has one.
const DEFAULT_NAMESPACE: &str = "default";

/// Namespace of the state functions on an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateLocation {
    /// The namespace of this worker.
    Own,
    /// The engine's default namespace.
    Default,
}

pub(super) struct StateClient {
    bus: Arc<dyn Bus>,
    location: StateLocation,
    timeout: Duration,
}

/// Opaque start of a page, as the state worker returned it.
pub(crate) type Cursor = Value;

/// Receives the values of a page, with their keys if the state worker returns them.
pub(super) type Visitor<'a> = &'a mut dyn FnMut(Option<&str>, &str);

#[derive(Deserialize)]
struct Page {
    entries: Vec<(String, Box<RawValue>)>,
    next_cursor: Option<Cursor>,
    #[serde(default)]
    done: bool,
}

/// Reason why a scope could not be listed.
#[derive(Debug)]
pub(super) enum ListError {
    /// The worker has no pages, and the whole scope is too large for a message.
    TooLarge(CallError),
    /// The worker has no pages, and listing the whole scope had no answer. An answer that is too large for the
    /// connection breaks it and looks the same.
    NoAnswer(CallError),
    Failed(CallError),
}

impl StateClient {
    pub(super) fn new(bus: Arc<dyn Bus>, location: StateLocation, timeout: Duration) -> Self {
        Self { bus, location, timeout }
    }

    /// Locates the state functions: in the worker's own namespace first.
    pub(super) async fn locate(
        bus: &Arc<dyn Bus>,
        timeout: Duration,
    ) -> Result<Option<StateLocation>, CallError> {
        for location in [StateLocation::Own, StateLocation::Default] {
            let client = Self::new(Arc::clone(bus), location, timeout);
            match client.get("skills", "probe").await {
                Err(CallError::NotFound(_)) => {}
                // The worker answered, if only with an error.
                Ok(_) | Err(CallError::Remote { .. }) => return Ok(Some(location)),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    async fn call(&self, function: &str, payload: Json) -> Result<Json, CallError> {
        match self.location {
            StateLocation::Own => self.bus.call(function, payload, self.timeout).await,
            StateLocation::Default => {
                self.bus.call_in(DEFAULT_NAMESPACE, function, payload, self.timeout).await
            }
        }
    }

    /// Visits the values of a page and returns the cursor of the next page. If the worker has no pages, lists the
    /// whole scope, unless `may_list_all` forbids it.
    pub(super) async fn list_page(
        &self,
        scope: &str,
        cursor: Option<&Cursor>,
        may_list_all: bool,
        visit: Visitor<'_>,
    ) -> Result<Option<Cursor>, ListError> {
        let request = json!({
            "scope": scope, "limit": PAGE_ENTRIES, "max_bytes": PAGE_BYTES, "cursor": cursor,
        });
        let page = match self.call("state::list_entries", Json::from(&request)).await {
            Err(CallError::NotFound(_)) if cursor.is_none() && may_list_all => {
                return self.list_all(scope, visit).await.map(|()| None);
            }
            Err(error @ CallError::NotFound(_)) if cursor.is_none() => {
                return Err(ListError::TooLarge(error));
            }
            page => page.and_then(|page| {
                page.parse::<Page>().map_err(|error| unexpected("list_entries", &error))
            }),
        };
        let page = page.map_err(ListError::Failed)?;
        for (key, value) in &page.entries {
            visit(Some(key), value.get());
        }
        Ok(page.next_cursor.filter(|_| !page.done))
    }

    async fn list_all(&self, scope: &str, visit: Visitor<'_>) -> Result<(), ListError> {
        let request = Json::from(&json!({ "scope": scope }));
        let values = self.call("state::list", request).await.map_err(|error| match error {
            CallError::Timeout { .. } | CallError::Stopped(_) => ListError::NoAnswer(error),
            error if error.code() == Code::PayloadTooLarge => ListError::TooLarge(error),
            error => ListError::Failed(error),
        })?;
        let values: Vec<Box<RawValue>> =
            values.parse().map_err(|error| ListError::Failed(unexpected("list", &error)))?;
        for value in &values {
            visit(None, value.get());
        }
        Ok(())
    }

    pub(super) async fn get(&self, scope: &str, key: &str) -> Result<Option<String>, CallError> {
        let request = json!({ "scope": scope, "key": key });
        let value = self.call("state::get", Json::from(&request)).await?;
        Ok((value.as_str() != "null").then(|| value.as_str().to_owned()))
    }

    pub(super) async fn set(
        &self,
        scope: &str,
        key: &str,
        value: &StoredValue<'_>,
    ) -> Result<(), CallError> {
        #[derive(Serialize)]
        struct Set<'a> {
            scope: &'a str,
            key: &'a str,
            value: &'a StoredValue<'a>,
        }
        let payload = Json::from_serialize(&Set { scope, key, value })
            .map_err(|error| unexpected("set", &error))?;
        self.call("state::set", payload).await.map(drop)
    }

    pub(super) async fn delete(&self, scope: &str, key: &str) -> Result<(), CallError> {
        let request = json!({ "scope": scope, "key": key });
        self.call("state::delete", Json::from(&request)).await.map(drop)
    }
}

fn unexpected(function: &str, error: &serde_json::Error) -> CallError {
    CallError::remote(Code::UnexpectedAnswer, format!("state::{function}: {error}"))
}
