//! Span, access line and account of every MCP request.

use std::borrow::Cow;

use axum::http::request::Parts;
use rmcp::{ErrorData, RoleServer, service::RequestContext};
use serde_json::{Map, Value};
use skills_core::{
    CallerKind, RequestBudget, RequestId, TracedRequest, WorkAccount, request_trace,
};

use super::Handler;

/// Description of a request, and id and account of the HTTP request that it came with.
pub(super) struct RequestTrace {
    traced: Option<TracedRequest>,
    id: Option<RequestId>,
    account: Option<WorkAccount>,
}

impl Handler {
    /// Describes a request for its span; `tool` is empty for methods other than `tools/call`.
    pub(super) fn request_trace(
        &self,
        method: &str,
        tool: &str,
        context: &RequestContext<RoleServer>,
    ) -> RequestTrace {
        // rmcp runs handlers in tasks of their own, which have neither the current id nor the current account.
        let parts = context.extensions.get::<Parts>();
        let id = parts.and_then(|parts| parts.extensions.get::<RequestId>().cloned());
        let budget = parts.and_then(|parts| parts.extensions.get::<RequestBudget>());
        let account = budget.map(|budget| budget.account().clone());
        let caller = CallerKind::from(&self.shared.caller);
        RequestTrace { traced: TracedRequest::new("mcp", method, tool, caller), id, account }
    }
}

impl RequestTrace {
    /// Runs the request.
    pub(super) async fn run<T>(
        self,
        run: impl Future<Output = Result<T, ErrorData>>,
    ) -> Result<T, ErrorData> {
        let Self { traced, id, account } = self;
        // A process without an account of the client has one client.
        let account = account.unwrap_or_else(WorkAccount::process);
        let run = account.scope(request_trace::trace(traced, error_code, run));
        let Some(id) = id else { return run.await };
        let result = id.clone().scope(run).await;
        result.map_err(|error| with_request_id(error, &id))
    }
}

/// Returns the code of the registry, if the error has one.
fn error_code(error: &ErrorData) -> Cow<'_, str> {
    let code = error.data.as_ref().and_then(|data| data["code"].as_str());
    code.unwrap_or("error").into()
}

/// Adds the id of the HTTP request to the data of an error, unless that is something other than an object.
fn with_request_id(mut error: ErrorData, id: &RequestId) -> ErrorData {
    if let Value::Object(data) = error.data.get_or_insert_with(|| Value::Object(Map::new())) {
        data.insert("request_id".to_owned(), id.as_str().into());
    }
    error
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skills_core::{MemoryBudget, WorkAccounts};

    use super::*;

    #[tokio::test]
    async fn a_request_runs_on_the_account_of_its_client() {
        let account = WorkAccounts::new(MemoryBudget::default()).open();
        for (account, expected) in
            [(Some(account.clone()), account), (None, WorkAccount::process())]
        {
            let trace = RequestTrace { traced: None, id: None, account };
            let current = trace.run(async { Ok(WorkAccount::current()) }).await.unwrap();
            assert_eq!(current, expected);
        }
    }

    #[test]
    fn every_error_has_the_request_id() {
        let id = RequestId::next();
        for (data, expected) in [
            (None, json!({ "request_id": id.as_str() })),
            (Some(json!({ "code": "c" })), json!({ "code": "c", "request_id": id.as_str() })),
            (Some(json!([1])), json!([1])),
        ] {
            let error = with_request_id(ErrorData::invalid_params("m", data), &id);
            assert_eq!(error.data, Some(expected));
        }
    }
}
