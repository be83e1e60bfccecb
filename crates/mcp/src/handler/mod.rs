//! Handler of one session, or of one request of a client without a session.
//!
//! `server_handler` has the methods that rmcp calls, `request_trace` the span around them.

mod request_trace;
mod server_handler;

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock},
};

use futures_util::FutureExt as _;
use parking_lot::Mutex;
// Log levels are deprecated by the newest revision and part of the older ones.
#[expect(deprecated, reason = "see above")]
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
use rmcp::{
    ErrorData, Peer, RoleServer,
    model::{CacheScope, ErrorCode, ProtocolVersion, SubscriptionFilter},
    service::RequestContext,
};
use serde_json::json;
use skills_core::{RequestBudget, ResourceUri, WorkAccount, uri::SKILL_SCHEME};
use skills_registry::Resource;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    budget::ResponseBudget,
    error::to_mcp,
    notifications::{
        ListenRefused, ListenStream, Lists, Notifier, NotifierEnd, PendingListens, SessionStream,
        Subscriber,
    },
    server::{McpProfile, Shared},
    skills_extension,
    subscriptions::{MAX_URI_BYTES, UriIndex},
};

/// Client of a handler.
#[derive(Debug)]
pub(crate) struct ClientContext {
    pub(crate) account: WorkAccount,
    /// Budget of the HTTP request that the handler was created for.
    pub(crate) request: Option<RequestBudget>,
    /// Stream of a session, whose client is notified only while that is open; `None` for a client that can always be
    /// notified.
    pub(crate) stream: Option<SessionStream>,
}

/// The only client of a process.
impl Default for ClientContext {
    fn default() -> Self {
        Self { account: WorkAccount::process(), request: None, stream: None }
    }
}

/// Handler of one session, or of one request of a client without a session.
pub(crate) struct Handler {
    shared: Arc<Shared>,
    account: WorkAccount,
    /// Budget of the request that the handler was created for; a session does not hold that of its first request.
    request: Mutex<Option<RequestBudget>>,
    /// `None` for a client that can always be notified.
    stream: Option<SessionStream>,
    /// Subscription of a session, with the changes since the response to `initialize`.
    subscriber: OnceLock<Arc<Subscriber>>,
    pending_listens: PendingListens,
    notifier_task: OnceLock<AbortOnDropHandle<()>>,
    #[expect(deprecated, reason = "part of the older revisions")]
    log_level: Mutex<Option<LoggingLevel>>,
    /// Cancelled when the client does not read.
    pub(crate) stalled: CancellationToken,
    /// Cancelled when the client has closed its side of the connection.
    pub(crate) disconnected: CancellationToken,
}

/// Runs a handler; a panic becomes an error response.
async fn catch_panic<T>(
    handler: impl Future<Output = Result<T, ErrorData>>,
) -> Result<T, ErrorData> {
    AssertUnwindSafe(handler).catch_unwind().await.unwrap_or_else(|_| {
        Err(ErrorData::internal_error("internal error; see the server's log", None))
    })
}

/// Adds the URI that an error is about, unless it is too long.
fn with_uri(mut error: ErrorData, uri: &str) -> ErrorData {
    if error.code != ErrorCode::INTERNAL_ERROR && uri.len() <= MAX_URI_BYTES {
        let mut data = error.data.take().unwrap_or_else(|| json!({}));
        data["uri"] = json!(uri);
        error.data = Some(data);
    }
    error
}

/// Returns whether a URI addresses an entry of one tier.
fn is_tier_uri(uri: &str) -> bool {
    let parsed = uri.parse();
    matches!(parsed, Ok(ResourceUri::InTier { .. } | ResourceUri::Version { tier: Some(_), .. }))
}

/// Returns whether a request is of the revision without sessions. Dates compare as their text does.
pub(crate) fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

impl Handler {
    pub(crate) fn new(shared: Arc<Shared>, client: ClientContext) -> Self {
        let ClientContext { account, request, stream } = client;
        Self {
            shared,
            account,
            request: Mutex::new(request),
            stream,
            subscriber: OnceLock::new(),
            pending_listens: PendingListens::default(),
            notifier_task: OnceLock::new(),
            log_level: Mutex::new(None),
            stalled: CancellationToken::new(),
            disconnected: CancellationToken::new(),
        }
    }

    /// Refuses a method that the MDP profile does not offer.
    fn require_full_profile(&self, method: &str) -> Result<(), ErrorData> {
        match self.shared.settings.profile {
            McpProfile::Full | McpProfile::Skills => Ok(()),
            McpProfile::Mdp => Err(ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                format!("{method} is not available: this endpoint offers tools only"),
                None,
            )),
        }
    }

    fn cache_hints(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> (Option<u64>, Option<CacheScope>) {
        self.shared.settings.cache_hints(context).unzip()
    }

    async fn read(&self, budget: &ResponseBudget, uri: &str) -> Result<Resource, ErrorData> {
        let expected = budget.stored_sizes(&*self.shared.skills).await.get(uri);
        budget.reserve(expected)?;
        let resource = self.resource(uri).await?;
        // The size as JSON, and the size of sections and live skills, is known only now.
        budget.reserve_resource(&resource, expected)?;
        Ok(resource)
    }

    async fn resource(&self, uri: &str) -> Result<Resource, ErrorData> {
        if uri.starts_with(SKILL_SCHEME) {
            match skills_extension::read(&self.shared, uri).await {
                Ok(file) => return Ok(file),
                // A skill whose id is a tier's name comes before the entries of that tier.
                Err(error) if error.code == ErrorCode::RESOURCE_NOT_FOUND && is_tier_uri(uri) => {}
                Err(error) => return Err(error),
            }
        }
        self.shared.skills.read(uri).await.map_err(|error| to_mcp(&error))
    }

    /// Returns the subscription of a session: all lists, and the URIs that it has subscribed to.
    fn subscriber(&self) -> &Arc<Subscriber> {
        let Shared { settings, caller, dispatcher, .. } = &*self.shared;
        self.subscriber.get_or_init(|| {
            let lists = match settings.profile {
                McpProfile::Full | McpProfile::Skills => Lists::ALL,
                // Its four tools never change.
                McpProfile::Mdp => Lists::default(),
            };
            Arc::new(dispatcher.subscribe(caller.owner().cloned(), lists, UriIndex::default()))
        })
    }

    /// Starts the task that notifies the client of changes.
    fn spawn_notifier(&self, peer: Peer<RoleServer>) -> AbortOnDropHandle<()> {
        let (subscriber, shared) = (Arc::clone(self.subscriber()), Arc::clone(&self.shared));
        let stalled = self.stalled.clone();
        let (state, closed) =
            self.stream.clone().map(|stream| (stream.state, stream.closed)).unzip();
        AbortOnDropHandle::new(tokio::spawn(async move {
            let send = |notification| {
                let peer = peer.clone();
                async move { peer.send_notification(notification).await.is_ok() }
            };
            match (Notifier::new(&subscriber, &shared, state).run(send).await, closed) {
                (NotifierEnd::Stalled, _) => {
                    tracing::info!("client stalled; notifications stopped");
                    stalled.cancel();
                }
                (NotifierEnd::Closed, Some(closed)) => closed.cancel(),
                (NotifierEnd::Closed | NotifierEnd::Disconnected, _) => {}
            }
        }))
    }

    /// Opens the stream of a listen request whose filter was accepted. The listener responds to a request that was refused
    /// memory.
    fn open_listen(&self, filter: SubscriptionFilter) -> Result<ListenStream, ListenRefused> {
        let request = self.request.lock().clone();
        let opened = ListenStream::open(&self.shared, filter, &self.account, request.as_ref());
        opened.inspect_err(|ListenRefused| {
            request.inspect(|request| request.refuse());
        })
    }

    /// Sends an internal error as a log message to a client that has set a log level.
    #[expect(deprecated, reason = "part of the older revisions")]
    async fn log(&self, peer: &Peer<RoleServer>, error: &ErrorData) {
        let level = *self.log_level.lock();
        let is_wanted = level.is_some_and(|level| {
            !matches!(level, LoggingLevel::Critical | LoggingLevel::Alert | LoggingLevel::Emergency)
        });
        if is_wanted && error.code == ErrorCode::INTERNAL_ERROR {
            let data = json!({ "message": error.message, "data": error.data });
            let message = LoggingMessageNotificationParam::new(LoggingLevel::Error, data)
                .with_logger("skills");
            let _ = peer.notify_logging_message(message).await;
        }
    }
}
