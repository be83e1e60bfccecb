//! Calls of clients.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use skills_core::{
    Caller, Coded, MemoryBudget, Reservation, TracedRequest, json_size, request_trace,
};
use tokio::time::timeout;

use super::{MdpHost, PathParams, RegisteredClient};
use crate::{
    ClientCallError, REGISTRY_CLIENT_ID, path,
    wire::{
        AuthContext, Descriptor, Method,
        outgoing::{self, CallFields, Pairs, Payload, PayloadFields},
    },
};

/// Maximum memory of a response, or of all responses to one call, as a JSON tree.
pub(crate) const MAX_TREE_BYTES: usize = 32 << 20;

/// Call of a client.
#[derive(Debug, Clone)]
pub struct ClientCall {
    /// Method.
    pub method: Method,
    /// Concrete path.
    pub path: String,
    /// Query parameters.
    pub query: Option<Map<String, Value>>,
    /// Body; `null` is a body.
    pub body: Option<Value>,
    /// Headers with unique names in lower case.
    pub headers: Option<Vec<(String, String)>>,
    /// Credentials for the client.
    pub auth: Option<AuthContext>,
    /// Caller whose memory share the call uses.
    pub caller: Caller,
}

impl ClientCall {
    /// Creates a call without query, body, headers and credentials.
    #[must_use]
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        let (path, caller) = (path.into(), Caller::Anonymous);
        Self { method, path, query: None, body: None, headers: None, auth: None, caller }
    }

    /// Serializes the part that is the same for every called client.
    pub(crate) fn payload(&self) -> Payload {
        let Self { query, body, headers, auth, .. } = self;
        Payload::new(&PayloadFields {
            query: query.as_ref(),
            body: body.as_ref(),
            headers: headers.as_deref().map(Pairs),
            auth: auth.as_ref(),
        })
    }
}

/// Response of a client.
#[derive(Debug, Serialize)]
pub struct ClientResponse {
    /// JSON as the client wrote it; absent if the client returned nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Box<RawValue>>,
    /// Reason why the version of a stored document was yanked.
    #[serde(skip_serializing_if = "Option::is_none")]
    yanked: Option<String>,
    #[serde(skip)]
    reserved: Option<Reservation>,
}

/// Bytes with their memory reservation.
struct ReservedBytes(
    Vec<u8>,
    #[allow(dead_code, reason = "released when the bytes are dropped")] Option<Reservation>,
);

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl ClientResponse {
    /// Creates a response of this server, whose size no client controls.
    pub(crate) const fn from_server(data: Box<RawValue>, yanked: Option<String>) -> Self {
        Self { data: Some(data), yanked, reserved: None }
    }

    /// Copies the data of a client, if the budget has memory for it.
    pub(super) fn from_client(
        data: Option<&RawValue>,
        memory: &MemoryBudget,
    ) -> Result<Self, ClientCallError> {
        let reserved = Some(memory.try_reserve(data.map_or(0, |data| data.get().len()))?);
        Ok(Self { data: data.map(RawValue::to_owned), yanked: None, reserved })
    }

    /// Converts the data to an HTTP body: a string to its text, anything else to `{"data": …}`. Returns whether it is
    /// text. The memory stays reserved until the bytes are dropped.
    ///
    /// # Errors
    /// When the budget has no memory for it.
    pub(crate) fn into_body(mut self) -> Result<(bool, Bytes), ClientCallError> {
        self.reserve(self.bytes())?;
        Ok(match self.text() {
            Some(text) => (true, self.into_reserved(text.into_bytes())),
            None => {
                let json = serde_json::to_vec(&self).unwrap_or_default();
                (false, self.into_reserved(json))
            }
        })
    }

    /// Converts the data to a document: a string, or the `content` of an object, to its text, anything else to JSON as
    /// the client wrote it. Returns whether it is text. The memory stays reserved until the bytes are dropped.
    ///
    /// # Errors
    /// When the budget has no memory for it.
    pub(crate) fn into_document(mut self) -> Result<(bool, Bytes), ClientCallError> {
        #[derive(Deserialize)]
        struct Document {
            content: String,
        }
        self.reserve(self.bytes())?;
        let data = self.data.as_deref().map_or("null", RawValue::get);
        let content = || serde_json::from_str(data).ok().map(|Document { content }| content);
        let is_object = data.starts_with('{');
        Ok(match self.text().or_else(|| is_object.then(content).flatten()) {
            Some(text) => (true, self.into_reserved(text.into_bytes())),
            None => {
                let json = data.as_bytes().to_vec();
                (false, self.into_reserved(json))
            }
        })
    }

    fn into_reserved(self, bytes: Vec<u8>) -> Bytes {
        Bytes::from_owner(ReservedBytes(bytes, self.reserved))
    }

    /// Extends the reservation.
    fn reserve(&mut self, more: usize) -> Result<(), ClientCallError> {
        Ok(self.reserved.as_mut().map_or(Ok(()), |reserved| reserved.try_grow(more))?)
    }

    /// Returns the memory of the data as a JSON tree.
    pub(crate) fn tree_bytes(&self) -> usize {
        let data = self.data.as_deref().map_or("", RawValue::get);
        json_size::memory_size(data.len(), json_size::count_values(data.as_bytes()))
    }

    /// Returns the data if it is a string.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let data = self.data.as_deref()?.get();
        // Checking the first character is cheaper than parsing data that is no string.
        data.starts_with('"').then(|| serde_json::from_str(data).ok()).flatten()
    }

    /// Parses the data.
    ///
    /// # Errors
    /// When it is nested too deeply, has too many values, or the budget has no memory for it.
    pub fn value(&mut self, client: &str) -> Result<Option<Value>, ClientCallError> {
        let bytes = self.tree_bytes();
        if bytes > MAX_TREE_BYTES {
            return Err(ClientCallError::TooManyValues(client.to_owned()));
        }
        self.reserve(bytes)?;
        let read = |data: &RawValue| serde_json::from_str(data.get());
        let too_deep = |_| ClientCallError::TooDeep(client.to_owned());
        self.data.as_deref().map(read).transpose().map_err(too_deep)
    }

    /// Returns the bytes of the data.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.data.as_deref().map_or(0, |data| data.get().len())
    }
}

impl MdpHost {
    /// Calls a client, which may be [`REGISTRY_CLIENT_ID`], and waits for its response.
    ///
    /// # Errors
    /// When the client or the path does not exist, or the client does not respond: timeout, disconnect, failure, overload.
    pub async fn call(
        &self,
        client_id: &str,
        call: &ClientCall,
    ) -> Result<ClientResponse, ClientCallError> {
        self.call_with_payload(client_id, call, &call.payload()).await
    }

    /// Calls a client with a payload that is shared with other calls.
    pub(crate) async fn call_with_payload(
        &self,
        client_id: &str,
        call: &ClientCall,
        payload: &Payload,
    ) -> Result<ClientResponse, ClientCallError> {
        if client_id == REGISTRY_CLIENT_ID
            && let Some(builtin) = self.builtin_client()
        {
            let within = self.0.config.times.answer_within;
            let response = timeout(within, builtin.call(call.method, &call.path)).await;
            return response
                .unwrap_or_else(|_| Err(ClientCallError::Timeout(REGISTRY_CLIENT_ID.to_owned())));
        }
        let client = self.client(client_id)?;
        let (_, params) = self.find(&client, call.method, &call.path)?;
        self.call_client(&client, &params, call, payload).await
    }

    pub(crate) fn client(&self, id: &str) -> Result<Arc<RegisteredClient>, ClientCallError> {
        let clients = self.0.clients.load();
        clients.client(id).cloned().ok_or_else(|| ClientCallError::NotConnected(id.to_owned()))
    }

    /// Finds the descriptor of a client for a path.
    pub(crate) fn find<'a>(
        &self,
        client: &'a RegisteredClient,
        method: Method,
        path: &'a str,
    ) -> Result<(&'a Descriptor, PathParams<'a>), ClientCallError> {
        if path.len() > self.0.config.limits.path_bytes {
            return Err(ClientCallError::PathTooLong);
        }
        path::check_concrete(path)?;
        client.catalog.find(method, path).ok_or_else(|| ClientCallError::NotFound {
            client: client.info.id.clone(),
            method,
            path: path.to_owned(),
        })
    }

    /// Calls a client at a path that [`find`](Self::find) has found.
    pub(crate) async fn call_client(
        &self,
        client: &RegisteredClient,
        params: &PathParams<'_>,
        call: &ClientCall,
        payload: &Payload,
    ) -> Result<ClientResponse, ClientCallError> {
        let client_id = client.info.id.as_str();
        let fields = CallFields { client_id, method: call.method, path: &call.path, params };
        let memory = self.0.memory.for_caller(&call.caller);
        let head = |request_id| outgoing::call_head(request_id, &fields);
        // The client's id stands for the route: a concrete path may contain names.
        let traced =
            TracedRequest::new("mdp", call.method.as_str(), client_id, (&call.caller).into());
        let run = async {
            let pending = client.session.send_call(client_id, &memory, payload, head)?;
            pending.response(client_id, self.0.config.times.answer_within).await
        };
        request_trace::trace(traced, Coded::code_text, run).await
    }
}
