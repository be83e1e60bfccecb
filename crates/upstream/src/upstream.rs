//! The client: prepare, check, connect, send, and again for each redirect.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use serde_json::{Map, Value};
use skills_core::template::key_of;
use tokio::time::{Instant, timeout_at};

use crate::{
    ExecuteError, Origin, Resolve, Secret, SystemResolver,
    answer::{self, MAX_MESSAGE_CHARS},
    connect::{Answer, Connector},
    guard::Guard,
    mapping::mapped,
    outgoing::Outgoing,
    redirect,
    secret::Redactor,
};

/// Who we say we are, unless a manifest says otherwise.
pub(crate) const USER_AGENT: &str = concat!("skills/", env!("CARGO_PKG_VERSION"));

/// What the client may do.
#[derive(Clone)]
pub struct Settings {
    /// Origins that are exempt from the rules on https and addresses, whoever calls.
    pub allow: Vec<Origin>,
    /// Whether other origins are asked over https only.
    pub https_only: bool,
    /// How long everything together may take: looking up, connecting, sending, redirects, reading.
    pub timeout: Duration,
    /// Most bytes of an answer, and of what is picked from it.
    pub max_response: usize,
    /// Most bytes of a request: URL, headers and body together.
    pub max_request: usize,
    /// How many redirects are followed.
    pub max_redirects: usize,
    /// Who turns names into addresses.
    pub resolver: Arc<dyn Resolve>,
    /// Certificates (DER) that are trusted besides the system's.
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
            resolver: Arc::new(SystemResolver::default()),
            extra_roots: vec![],
        }
    }
}

/// What is called, and with what.
///
/// - The URL is `endpoint`, or else `url`; the method is `method`, or else `request.method`, or else POST.
/// - Headers are `headers`, and over them `request.headers`; `api_key` is sent as a bearer token.
/// - The body is `request.body`, or else `body`, or else `payload`. Without one and without any placeholder
///   the parameters are sent as they are: in the query for GET, HEAD and DELETE, else as JSON.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The implementation of a manifest.
    pub implementation: &'a Map<String, Value>,
    /// The caller's parameters.
    pub params: &'a Map<String, Value>,
    /// The secrets that the manifest needs, by name.
    pub secrets: &'a BTreeMap<String, Secret>,
    /// What the call is known by.
    pub trace_id: &'a str,
    /// Origins that are exempt from the rules on https and addresses for this call.
    pub also: &'a [Origin],
}

/// A request that was put together and not sent yet.
pub struct Prepared<'a> {
    outgoing: Outgoing,
    implementation: &'a Map<String, Value>,
    also: &'a [Origin],
    redactor: Redactor,
}

impl fmt::Debug for Prepared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("method", &self.outgoing.method).finish_non_exhaustive()
    }
}

/// The guarded client.
pub struct Upstream {
    guard: Guard,
    connector: Connector,
    timeout: Duration,
    max_response: usize,
    max_request: usize,
    max_redirects: usize,
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("allow", &self.guard.allow).finish_non_exhaustive()
    }
}

impl Upstream {
    /// Makes the client. Nothing is read or opened yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let Settings { allow, https_only, resolver, extra_roots, .. } = settings;
        Self {
            guard: Guard { allow, https_only, resolver },
            connector: Connector::new(extra_roots),
            timeout: settings.timeout,
            max_response: settings.max_response,
            max_request: settings.max_request,
            max_redirects: settings.max_redirects,
        }
    }

    /// Sends the request of a [`Call`] and returns the result: the answer's JSON, picked apart by
    /// `response_mapping`, or else `response.output_mapping`. An answer of type `text/*` is a JSON string, an
    /// empty one is null.
    ///
    /// # Errors
    /// One for each way in which it can fail; see [`ExecuteError`]. None of them holds a secret.
    pub async fn execute(&self, call: Call<'_>) -> Result<Value, ExecuteError> {
        self.send(self.prepare(call)?).await
    }

    /// Puts a request together, without sending anything or asking anybody. What can be refused without that is
    /// refused here.
    ///
    /// # Errors
    /// When there is no such request, or it may not be sent.
    pub fn prepare<'a>(&self, call: Call<'a>) -> Result<Prepared<'a>, ExecuteError> {
        let Call { implementation, params, secrets, trace_id, also } = call;
        let redactor = Redactor::new(secrets, key_of(implementation));
        let outgoing = Outgoing::new(implementation, params, secrets, trace_id, self.max_request)
            .and_then(|outgoing| self.guard.origin(&outgoing.url, also).map(|_| outgoing));
        match outgoing {
            Ok(outgoing) => Ok(Prepared { outgoing, implementation, also, redactor }),
            Err(error) => Err(told(error, &redactor)),
        }
    }

    /// Sends a request that was put together, and returns the result.
    ///
    /// # Errors
    /// As [`Upstream::execute`].
    pub async fn send(&self, prepared: Prepared<'_>) -> Result<Value, ExecuteError> {
        let Prepared { outgoing, implementation, also, redactor } = prepared;
        let deadline = Instant::now() + self.timeout;
        let run = async {
            let answer = self.exchanged(outgoing, also, deadline, &redactor).await?;
            mapped(implementation, answer, self.max_response)
        };
        let timed_out = ExecuteError::TimedOut { after: self.timeout };
        let done = timeout_at(deadline, run).await.unwrap_or(Err(timed_out));
        done.map_err(|error| told(error, &redactor))
    }

    async fn exchanged(
        &self,
        mut outgoing: Outgoing,
        also: &[Origin],
        deadline: Instant,
        redactor: &Redactor,
    ) -> Result<Value, ExecuteError> {
        let mut redirects = 0;
        loop {
            let hop = self.hop(&outgoing, also, deadline, redactor).await;
            let answer = hop.map_err(|error| match error {
                // By now it is not the manifest that names the URL.
                ExecuteError::InvalidImplementation { reason } if redirects > 0 => {
                    redirect::bad(&reason)
                }
                other => other,
            })?;
            let Some(location) = redirect::location(&answer.response)? else {
                return answer::result(answer.response, self.max_response).await;
            };
            if redirects == self.max_redirects {
                return Err(redirect::bad("there are too many in a row"));
            }
            redirects += 1;
            outgoing.redirect(answer.response.status(), location)?;
        }
    }

    async fn hop(
        &self,
        outgoing: &Outgoing,
        also: &[Origin],
        deadline: Instant,
        redactor: &Redactor,
    ) -> Result<Answer, ExecuteError> {
        let target = self.guard.target(&outgoing.url, also).await?;
        let host = redactor.redacted(&target.origin.host.to_string());
        tracing::debug!(method = %outgoing.method, host, "calls an upstream");
        self.connector.send(outgoing, &target, deadline).await
    }
}

/// The error as it is told: without secrets, and what an upstream said in one short line. Cut only after it
/// was redacted: half a secret is one too.
fn told(error: ExecuteError, redactor: &Redactor) -> ExecuteError {
    let mut error = error.redacted(redactor);
    if let ExecuteError::UpstreamStatus { message, .. } = &mut error {
        let words = message.split(|c: char| c.is_whitespace() || c.is_control());
        let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        *message = line.chars().take(MAX_MESSAGE_CHARS).collect();
    }
    error
}
