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
use skills_core::{ResourceUri, uri::SKILL_SCHEME};
use skills_registry::Resource;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    budget::ResponseBudget,
    error::to_mcp,
    notifications::{
        ChangeSource, NotificationFilter, Notifier, NotifierEnd, PendingListens, SessionStream,
    },
    server::{McpProfile, Shared},
    skills_extension,
    subscriptions::{MAX_URI_BYTES, Subscriptions},
};

/// Handler of one session, or of one request of a client without a session.
pub(crate) struct Handler {
    shared: Arc<Shared>,
    subscriptions: Subscriptions,
    /// `None` for a client that can always be notified.
    stream: Option<SessionStream>,
    /// Changes since the response to `initialize`.
    initialized_source: Mutex<Option<ChangeSource>>,
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
    pub(crate) fn new(shared: Arc<Shared>, stream: Option<SessionStream>) -> Self {
        Self {
            shared,
            subscriptions: Subscriptions::default(),
            stream,
            initialized_source: Mutex::new(None),
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

    /// Starts the task that notifies the client of changes.
    fn spawn_notifier(&self, peer: Peer<RoleServer>) -> AbortOnDropHandle<()> {
        let source = self.initialized_source.lock().take();
        let source = source.unwrap_or_else(|| ChangeSource::new(&self.shared));
        let filter = match self.shared.settings.profile {
            McpProfile::Full | McpProfile::Skills => {
                NotificationFilter::Session(self.subscriptions.clone())
            }
            McpProfile::Mdp => SubscriptionFilter::default().into(),
        };
        let stalled = self.stalled.clone();
        let (state, closed) =
            self.stream.clone().map(|stream| (stream.state, stream.closed)).unzip();
        let notifier = Notifier::new(source, filter, state);
        AbortOnDropHandle::new(tokio::spawn(async move {
            let send = |notification| {
                let peer = peer.clone();
                async move { peer.send_notification(notification).await.is_ok() }
            };
            match (notifier.run(send).await, closed) {
                (NotifierEnd::Stalled, _) => {
                    tracing::info!("client stalled; notifications stopped");
                    stalled.cancel();
                }
                (NotifierEnd::Closed, Some(closed)) => closed.cancel(),
                (NotifierEnd::Closed | NotifierEnd::Disconnected, _) => {}
            }
        }))
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
