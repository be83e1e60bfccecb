//! The client: prepares, checks, connects and sends a request, and repeats that for each redirect.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use serde_json::{Map, Value};
use skills_core::{CallerKind, Coded, TracedRequest, request_trace};
use skills_manifest::template::api_key_template;
use tokio::time::{Instant, timeout_at};

use crate::{
    DnsResolver, Secret, SystemResolver, UpstreamError, UpstreamOrigin,
    address_guard::AddressGuard,
    connector::{Connector, OpenResponse},
    redirect,
    request::UpstreamRequest,
    response::{self, MAX_MESSAGE_CHARS},
    response_mapping::apply_mapping,
    secret::Redactor,
};

/// Default `User-Agent`.
pub(crate) const USER_AGENT: &str = concat!("skills/", env!("CARGO_PKG_VERSION"));

/// Settings of an [`UpstreamClient`].
#[derive(Clone)]
pub struct Settings {
    /// Origins that are exempt from the rules on https and addresses for all calls.
    pub allow: Vec<UpstreamOrigin>,
    /// True if other origins must be called over https.
    pub https_only: bool,
    /// Timeout of the whole call: lookup, connecting, sending, redirects, reading.
    pub timeout: Duration,
    /// Maximum bytes of a response, and of the result selected from it.
    pub max_response: usize,
    /// Maximum bytes of a request: URL, headers and body together.
    pub max_request: usize,
    /// Maximum number of redirects.
    pub max_redirects: usize,
    /// Resolver of host names.
    pub resolver: Arc<dyn DnsResolver>,
    /// Root certificates (DER) that are trusted besides those of the system.
    pub extra_roots: Vec<Vec<u8>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            allow: vec![],
            https_only: true,
            timeout: Duration::from_secs(10),
            max_response: 1 << 20,
            max_request: 1 << 20,
            max_redirects: 3,
            resolver: Arc::new(SystemResolver),
            extra_roots: vec![],
        }
    }
}

/// Call of an upstream, as the implementation of a manifest describes it.
///
/// - The URL is `endpoint`, or else `url`; the method is `method`, or else `request.method`, or else POST.
/// - Headers are `headers`, and over them `request.headers`; `api_key` is sent as a bearer token.
/// - The body is `request.body`, or else `body`, or else `payload`. Without one and without any placeholder
///   the parameters are sent as they are: in the query for GET, HEAD and DELETE, else as JSON.
#[derive(Debug, Clone, Copy)]
pub struct UpstreamCall<'a> {
    /// Implementation of the manifest.
    pub implementation: &'a Map<String, Value>,
    /// Parameters of the caller.
    pub params: &'a Map<String, Value>,
    /// Secrets by name.
    pub secrets: &'a BTreeMap<String, Secret>,
    /// Id of the call, sent to the upstream.
    pub trace_id: &'a str,
    /// Origins that are exempt from the rules on https and addresses for this call.
    pub allowed: &'a [UpstreamOrigin],
    /// Owner whose share of name lookups the call uses; callers without a key share one.
    pub owner: &'a str,
}

/// Prepared request that is not sent yet.
pub struct PreparedRequest<'a> {
    request: UpstreamRequest,
    implementation: &'a Map<String, Value>,
    allowed: &'a [UpstreamOrigin],
    owner: &'a str,
    redactor: Redactor,
}

impl fmt::Debug for PreparedRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedRequest")
            .field("method", &self.request.method)
            .finish_non_exhaustive()
    }
}

/// HTTP client for untrusted requests.
pub struct UpstreamClient {
    guard: AddressGuard,
    connector: Connector,
    timeout: Duration,
    max_response: usize,
    max_request: usize,
    max_redirects: usize,
}

impl fmt::Debug for UpstreamClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("allow", &self.guard.allow).finish_non_exhaustive()
    }
}

impl UpstreamClient {
    /// Creates a client. Certificates are read on the first https request.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let Settings { allow, https_only, resolver, extra_roots, .. } = settings;
        Self {
            guard: AddressGuard { allow, https_only, resolver },
            connector: Connector::new(extra_roots),
            timeout: settings.timeout,
            max_response: settings.max_response,
            max_request: settings.max_request,
            max_redirects: settings.max_redirects,
        }
    }

    /// Sends the request of a call and returns the result: the JSON of the response, with `response_mapping` or else
    /// `response.output_mapping` applied.
    ///
    /// # Errors
    /// See [`UpstreamError`]; no error contains a secret.
    pub async fn execute(&self, call: UpstreamCall<'_>) -> Result<Value, UpstreamError> {
        self.send(self.prepare(call)?).await
    }

    /// Prepares a request without any network access, and refuses what can be refused without it.
    ///
    /// # Errors
    /// When the request cannot be built, or may not be sent.
    pub fn prepare<'a>(
        &self,
        call: UpstreamCall<'a>,
    ) -> Result<PreparedRequest<'a>, UpstreamError> {
        let UpstreamCall { implementation, params, secrets, trace_id, allowed, owner } = call;
        let redactor = Redactor::new(secrets, api_key_template(implementation));
        let request =
            UpstreamRequest::new(implementation, params, secrets, trace_id, self.max_request)
                .and_then(|request| self.guard.check_url(&request.url, allowed).map(|_| request));
        match request {
            Ok(request) => {
                Ok(PreparedRequest { request, implementation, allowed, owner, redactor })
            }
            Err(error) => Err(redact(error, &redactor)),
        }
    }

    /// Returns the maximum bytes of a response.
    #[must_use]
    pub const fn max_response(&self) -> usize {
        self.max_response
    }

    /// Sends a prepared request and returns the result.
    ///
    /// # Errors
    /// See [`UpstreamError`]; no error contains a secret.
    pub async fn send(&self, prepared: PreparedRequest<'_>) -> Result<Value, UpstreamError> {
        let PreparedRequest { request, implementation, allowed, owner, redactor } = prepared;
        let deadline = Instant::now() + self.timeout;
        let traced = traced_request(&request, owner, &redactor);
        let run = async {
            let response = self.send_following(request, allowed, deadline, &redactor).await?;
            apply_mapping(implementation, response, self.max_response)
        };
        let run = async {
            let timed_out = UpstreamError::TimedOut { after: self.timeout };
            timeout_at(deadline, run).await.unwrap_or(Err(timed_out))
        };
        let result = request_trace::trace(traced, Coded::code_text, run).await;
        result.map_err(|error| redact(error, &redactor))
    }

    /// Returns the timeout of a whole call.
    pub(crate) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Sends a request, follows redirects and reads the response.
    async fn send_following(
        &self,
        request: UpstreamRequest,
        allowed: &[UpstreamOrigin],
        deadline: Instant,
        redactor: &Redactor,
    ) -> Result<Value, UpstreamError> {
        let opened = self.open_following(request, allowed, deadline, redactor).await?;
        response::read_result(opened.response, self.max_response).await
    }

    /// Sends a request and follows redirects.
    pub(crate) async fn open_following(
        &self,
        mut request: UpstreamRequest,
        allowed: &[UpstreamOrigin],
        deadline: Instant,
        redactor: &Redactor,
    ) -> Result<OpenResponse, UpstreamError> {
        let mut redirects = 0;
        loop {
            let hop = self.send_once(&request, allowed, deadline, redactor).await;
            let opened = hop.map_err(|error| match error {
                // After a redirect, the manifest does not name the URL.
                UpstreamError::InvalidImplementation { reason } if redirects > 0 => {
                    redirect::refuse(&reason)
                }
                other => other,
            })?;
            let Some(location) = redirect::location(&opened.response)? else {
                return Ok(opened);
            };
            if redirects == self.max_redirects {
                return Err(redirect::refuse("there are too many in a row"));
            }
            redirects += 1;
            let from = UpstreamOrigin::from_url(&request.url);
            request.redirect(opened.response.status(), location)?;
            self.guard.check_redirect(from.as_ref(), &request.url, allowed)?;
        }
    }

    async fn send_once(
        &self,
        request: &UpstreamRequest,
        allowed: &[UpstreamOrigin],
        deadline: Instant,
        redactor: &Redactor,
    ) -> Result<OpenResponse, UpstreamError> {
        let target = self.guard.target(&request.url, allowed).await?;
        let host = redactor.redact(&target.origin.host.to_string());
        tracing::debug!(method = %request.method, host, "upstream called");
        self.connector.send(request, &target, deadline).await
    }
}

/// Describes a call for its span: the host alone, since path and query may contain secrets.
fn traced_request(
    request: &UpstreamRequest,
    owner: &str,
    redactor: &Redactor,
) -> Option<TracedRequest> {
    if !request_trace::is_enabled() {
        return None;
    }
    let origin = UpstreamOrigin::from_url(&request.url);
    let host = origin.map(|origin| origin.host.to_string()).unwrap_or_default();
    let caller = if owner.is_empty() { CallerKind::Anonymous } else { CallerKind::User };
    TracedRequest::new("upstream", request.method.as_str(), &redactor.redact(&host), caller)
}

/// Redacts an error, and shortens the upstream's message to one line. It is truncated only after it was redacted: half a
/// secret is one too.
fn redact(error: UpstreamError, redactor: &Redactor) -> UpstreamError {
    let mut error = error.redact(redactor);
    if let UpstreamError::UpstreamStatus { message, .. } = &mut error {
        let parts = message.split(|c: char| c.is_whitespace() || c.is_control());
        let line = parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        *message = line.chars().take(MAX_MESSAGE_CHARS).collect();
    }
    error
}
