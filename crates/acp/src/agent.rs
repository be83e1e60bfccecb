//! The methods of the protocol, and the state of a connection.
//!
//! Handlers run one after the other in the order of the messages, so none of them waits: a turn is a task of its own.

use std::borrow::Cow;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use agent_client_protocol::{
    Agent, Client, ConnectTo, Error, ErrorCode, RequestCancellation, on_receive_notification,
    on_receive_request,
    schema::ProtocolVersion,
    v1::{
        ConnectionTo,
        schema::{
            AgentCapabilities, CancelNotification, CloseSessionRequest, CloseSessionResponse,
            ContentBlock, ContentChunk, Implementation, InitializeRequest, InitializeResponse,
            NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse,
            SessionCapabilities, SessionCloseCapabilities, SessionNotification, SessionUpdate,
            StopReason, TextContent,
        },
    },
};
use parking_lot::Mutex;
use serde_json::json;
use skills_core::{CallerKind, Code, TracedRequest, request_trace};
use skills_registry::{RegistryError, SkillRegistry};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    SkillsUpdate, advertise,
    chunks::chunks,
    commands::{CommandList, CommandSnapshot},
    send_queue::SendQueue,
    sessions::{Session, Sessions},
    turn,
};

/// State of one connection.
pub(crate) struct Shared {
    pub(crate) skills: Arc<dyn SkillRegistry>,
    pub(crate) sessions: Sessions,
    pub(crate) send_queue: SendQueue,
    /// Notified when a session is opened.
    pub(crate) opened: Notify,
    skills_update: SkillsUpdate,
    wants_skills: AtomicBool,
    snapshot: Mutex<Option<Arc<CommandSnapshot>>>,
}

impl Shared {
    pub(crate) fn new(skills: Arc<dyn SkillRegistry>, skills_update: SkillsUpdate) -> Self {
        Self {
            skills,
            sessions: Sessions::default(),
            send_queue: SendQueue::default(),
            opened: Notify::new(),
            skills_update,
            wants_skills: AtomicBool::new(false),
            snapshot: Mutex::default(),
        }
    }

    /// Returns whether the client gets the list of skills.
    pub(crate) fn wants_skills(&self) -> bool {
        self.wants_skills.load(Ordering::Relaxed)
    }

    /// Returns the current catalog and its commands, which are cached until the catalog changes.
    pub(crate) async fn snapshot(&self) -> Result<Arc<CommandSnapshot>, RegistryError> {
        let catalog = self.skills.catalog().await?;
        let mut cached = self.snapshot.lock();
        if let Some(snapshot) = &*cached
            && Arc::ptr_eq(&snapshot.catalog, &catalog)
        {
            return Ok(Arc::clone(snapshot));
        }
        let commands = Arc::new(CommandList::from_catalog(&catalog));
        Ok(Arc::clone(cached.insert(Arc::new(CommandSnapshot { catalog, commands }))))
    }

    fn initialize(&self, request: &InitializeRequest) -> InitializeResponse {
        let wants = self.skills_update.is_enabled(request.client_capabilities.meta.as_ref());
        self.wants_skills.store(wants, Ordering::Relaxed);
        let sessions = SessionCapabilities::new().close(SessionCloseCapabilities::new());
        let capabilities = AgentCapabilities::new()
            .session_capabilities(sessions)
            .meta(self.skills_update.announcement());
        let info =
            Implementation::new("skills", env!("CARGO_PKG_VERSION")).title("Skills".to_owned());
        // The only version with a stable schema; a client that does not support it disconnects.
        InitializeResponse::new(ProtocolVersion::V1)
            .agent_capabilities(capabilities)
            .agent_info(info)
    }
}

fn unknown_session() -> Error {
    coded(ErrorCode::RESOURCE_NOT_FOUND, Code::NotFound, "unknown session id")
}

/// Creates an error with a code of this project in its data.
fn coded(kind: ErrorCode, code: Code, message: &str) -> Error {
    Error::new(kind, message).data(json!({ "code": code }))
}

/// Returns the code of an error for its access line.
fn code_text(error: &Error) -> Cow<'_, str> {
    let code = error.data.as_ref().and_then(|data| data["code"].as_str());
    code.unwrap_or(Code::Internal.as_str()).into()
}

/// Runs a request within a span, and emits its access line.
async fn trace<T>(method: &str, run: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let traced = TracedRequest::new("acp", method, "", CallerKind::Local);
    request_trace::trace(traced, code_text, run).await
}

/// Serves one client until it disconnects.
pub(crate) async fn serve(
    shared: &Arc<Shared>,
    client: impl ConnectTo<Agent> + 'static,
) -> Result<(), Error> {
    let [initialize, new, prompt, cancel, close, advertised] = [(); 6].map(|()| Arc::clone(shared));
    Agent
        .v1()
        .name("skills")
        .on_receive_request(
            async move |request: InitializeRequest, responder, _| {
                let response = async { Ok(initialize.initialize(&request)) };
                responder.respond_with_result(trace("initialize", response).await)
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |_: NewSessionRequest, responder, _| {
                let session = async {
                    let message = "too many sessions; close some first";
                    let full = coded(ErrorCode::INVALID_REQUEST, Code::Overloaded, message);
                    if new.sessions.is_full() { Err(full) } else { Ok(Session::new()) }
                };
                let session = match trace("session/new", session).await {
                    Ok(session) => session,
                    Err(error) => return responder.respond_with_error(error),
                };
                responder.respond(NewSessionResponse::new(session.id.clone()))?;
                // Added after the response: the client must know the session before its first update.
                new.sessions.add(session);
                new.opened.notify_one();
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, connection| {
                let Some(session) = prompt.sessions.get(&request.session_id) else {
                    let refused: Result<PromptResponse, _> = Err(unknown_session());
                    let refused = trace("session/prompt", async { refused }).await;
                    return responder.respond_with_result(refused);
                };
                let Some((permit, cancelled)) = session.queue_turn() else {
                    let message = "too many turns of this session are queued";
                    let full = coded(ErrorCode::INVALID_REQUEST, Code::Overloaded, message);
                    let refused: Result<PromptResponse, _> = Err(full);
                    let refused = trace("session/prompt", async { refused }).await;
                    return responder.respond_with_result(refused);
                };
                let turn = Turn {
                    shared: Arc::clone(&prompt),
                    connection: ConnectionTo::clone(&connection),
                    session,
                    cancelled,
                    request_cancelled: responder.cancellation(),
                };
                connection.spawn(async move {
                    let stopped = async { Ok(turn.run(request.prompt).await) };
                    let stopped = trace("session/prompt", stopped).await;
                    drop(permit);
                    responder.respond_with_result(stopped.map(PromptResponse::new))
                })
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |notification: CancelNotification, _| {
                if let Some(session) = cancel.sessions.get(&notification.session_id) {
                    session.cancel();
                }
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: CloseSessionRequest, responder, _| {
                let response = async {
                    let closed = close.sessions.close(&request.session_id);
                    closed.map(|()| CloseSessionResponse::new()).ok_or_else(unknown_session)
                };
                responder.respond_with_result(trace("session/close", response).await)
            },
            on_receive_request!(),
        )
        .with_spawned(|connection| advertise::run(advertised, connection))
        .connect_to(client)
        .await
}

/// Turn of a conversation.
struct Turn {
    shared: Arc<Shared>,
    connection: ConnectionTo<Client>,
    session: Arc<Session>,
    /// Cancelled by `session/cancel`.
    cancelled: CancellationToken,
    /// Cancelled by `$/cancel_request`.
    request_cancelled: RequestCancellation,
}

impl Turn {
    /// Streams the response, and returns why it stopped.
    async fn run(&self, prompt: Vec<ContentBlock>) -> StopReason {
        tokio::select! {
            biased;
            () = self.cancelled.cancelled() => StopReason::Cancelled,
            () = self.request_cancelled.cancelled() => StopReason::Cancelled,
            // An error means that the client is disconnected and gets no response.
            _ = self.stream(prompt) => StopReason::EndTurn,
        }
    }

    async fn stream(&self, prompt: Vec<ContentBlock>) -> Result<(), Error> {
        let _turn = self.session.turn.lock().await;
        let text = turn::text(prompt);
        let response = match self.shared.snapshot().await {
            Ok(snapshot) => turn::respond(&*self.shared.skills, &snapshot, &text).await,
            Err(error) => turn::registry_unavailable(&error),
        };
        for block in response {
            match block {
                ContentBlock::Text(text) => {
                    for chunk in chunks(&text.text) {
                        self.send(ContentBlock::Text(TextContent::new(chunk))).await?;
                    }
                }
                other => self.send(other).await?,
            }
        }
        Ok(())
    }

    async fn send(&self, block: ContentBlock) -> Result<(), Error> {
        let update = SessionUpdate::AgentMessageChunk(ContentChunk::new(block));
        let update = SessionNotification::new(self.session.id.clone(), update);
        self.shared.send_queue.send(&self.connection, update).await
    }
}
