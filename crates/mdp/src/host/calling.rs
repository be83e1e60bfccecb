//! Asking a client.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};
use tokio::time::timeout;

use super::{Client, Host, Params};
use crate::{
    CallError, REGISTRY,
    path::{self},
    wire::{
        Auth, Descriptor, Method,
        outgoing::{self, CallFields},
    },
};

/// What a client is asked.
#[derive(Debug, Clone)]
pub struct Call {
    /// How.
    pub method: Method,
    /// For what; a concrete path.
    pub path: String,
    /// With which query.
    pub query: Option<Map<String, Value>>,
    /// With which body; null is one.
    pub body: Option<Value>,
    /// With which headers, whose names are in lower case and no two equal.
    pub headers: Option<Vec<(String, String)>>,
    /// By whom.
    pub auth: Option<Auth>,
}

impl Call {
    /// With nothing but a method and a path.
    #[must_use]
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), query: None, body: None, headers: None, auth: None }
    }

    /// About how many bytes a client is sent for it.
    pub(crate) fn bytes(&self) -> usize {
        let fields = self.fields("", &[]);
        outgoing::call_bytes(&fields)
    }

    fn fields<'a>(
        &'a self,
        client_id: &'a str,
        params: &'a [(&'a str, &'a str)],
    ) -> CallFields<'a> {
        let Self { method, path, query, body, headers, auth } = self;
        CallFields {
            client_id,
            method: *method,
            path,
            params,
            query: query.as_ref(),
            body: body.as_ref(),
            headers: headers.as_deref(),
            auth: auth.as_ref(),
        }
    }
}

/// What a client answered.
#[derive(Debug, Clone, Serialize)]
pub struct Answer {
    /// JSON as the client wrote it; absent when it gave nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
}

impl Answer {
    /// The data as a string, if it is one.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let data = self.data.as_deref()?.get();
        // A look at the first character is cheaper than to read what is no string.
        data.starts_with('"').then(|| serde_json::from_str(data).ok()).flatten()
    }

    /// The data as a tree.
    ///
    /// # Errors
    /// When it is nested too deeply for that.
    pub fn value(&self, client: &str) -> Result<Option<Value>, CallError> {
        let read = |data: &RawValue| serde_json::from_str(data.get());
        let too_deep = |_| CallError::TooDeep(client.to_owned());
        self.data.as_deref().map(read).transpose().map_err(too_deep)
    }

    /// Bytes of the data.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.data.as_deref().map_or(0, |data| data.get().len())
    }
}

impl Host {
    /// Asks a client, which may be [`REGISTRY`], and waits for its answer.
    ///
    /// # Errors
    /// When there is no such client or path, or no answer: too late, gone, failed, too busy.
    pub async fn call(&self, client_id: &str, call: &Call) -> Result<Answer, CallError> {
        if client_id == REGISTRY
            && let Some(stored) = self.stored()
        {
            let within = self.0.config.times.answer_within;
            let answer = timeout(within, stored.call(call.method, &call.path)).await;
            return answer.unwrap_or_else(|_| Err(CallError::Timeout(REGISTRY.to_owned())));
        }
        let client = self.client(client_id)?;
        let (_, params) = self.find(&client, call.method, &call.path)?;
        self.ask(&client, &params, call).await
    }

    pub(crate) fn client(&self, id: &str) -> Result<Arc<Client>, CallError> {
        let roster = self.0.roster.load();
        roster.client(id).cloned().ok_or_else(|| CallError::NotConnected(id.to_owned()))
    }

    /// What a client has at a path.
    pub(crate) fn find<'a>(
        &self,
        client: &'a Client,
        method: Method,
        path: &'a str,
    ) -> Result<(&'a Descriptor, Params<'a>), CallError> {
        if path.len() > self.0.config.limits.path_bytes {
            return Err(CallError::PathTooLong);
        }
        path::check_concrete(path)?;
        client.catalog.find(method, path).ok_or_else(|| CallError::NotFound {
            client: client.info.id.clone(),
            method,
            path: path.to_owned(),
        })
    }

    /// Asks a client for what it has.
    pub(crate) async fn ask(
        &self,
        client: &Client,
        params: &Params<'_>,
        call: &Call,
    ) -> Result<Answer, CallError> {
        let id = client.info.id.as_str();
        let fields = call.fields(id, params);
        let asked = client.session.ask(id, |request_id| outgoing::call(request_id, &fields))?;
        let data = asked.answer(id, self.0.config.times.answer_within).await?;
        Ok(Answer { data })
    }
}
