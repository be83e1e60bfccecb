//! The methods of the protocol, and what a connection remembers.
//!
//! Handlers run one after the other in the order in which messages came, so none of them waits: a turn is a
//! task of its own.

use std::sync::{
    Arc, Mutex, PoisonError,
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
use skills_registry::{RegistryError, Skills};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    SkillsUpdate, live,
    menu::{Kept, Menu},
    pace::Pace,
    pieces::pieces,
    sessions::{Session, Sessions},
    turn,
};

/// What the parts of one connection share.
pub(crate) struct Shared {
    pub(crate) skills: Arc<dyn Skills>,
    pub(crate) sessions: Sessions,
    pub(crate) pace: Pace,
    /// A session was opened.
    pub(crate) opened: Notify,
    skills_update: SkillsUpdate,
    wants_skills: AtomicBool,
    kept: Mutex<Option<Arc<Kept>>>,
}

impl Shared {
    pub(crate) fn new(skills: Arc<dyn Skills>, skills_update: SkillsUpdate) -> Self {
        Self {
            skills,
            sessions: Sessions::default(),
            pace: Pace::default(),
            opened: Notify::new(),
            skills_update,
            wants_skills: AtomicBool::new(false),
            kept: Mutex::default(),
        }
    }

    /// Whether the client is sent the list of skills.
    pub(crate) fn wants_skills(&self) -> bool {
        self.wants_skills.load(Ordering::Relaxed)
    }

    /// The present snapshot and what it offers.
    pub(crate) async fn look(&self) -> Result<Arc<Kept>, RegistryError> {
        let catalog = self.skills.catalog().await?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = &*kept
            && Arc::ptr_eq(&kept.catalog, &catalog)
        {
            return Ok(Arc::clone(kept));
        }
        let menu = Arc::new(Menu::of(&catalog));
        Ok(Arc::clone(kept.insert(Arc::new(Kept { catalog, menu }))))
    }

    fn initialize(&self, request: &InitializeRequest) -> InitializeResponse {
        let wants = self.skills_update.is_for(request.client_capabilities.meta.as_ref());
        self.wants_skills.store(wants, Ordering::Relaxed);
        let sessions = SessionCapabilities::new().close(SessionCloseCapabilities::new());
        let capabilities = AgentCapabilities::new()
            .session_capabilities(sessions)
            .meta(self.skills_update.advertisement());
        let info =
            Implementation::new("skills", env!("CARGO_PKG_VERSION")).title("Skills".to_owned());
        // The only version there is a stable schema for; a client that has no use for it disconnects.
        InitializeResponse::new(ProtocolVersion::V1)
            .agent_capabilities(capabilities)
            .agent_info(info)
    }
}

fn unknown_session() -> Error {
    Error::new(ErrorCode::RESOURCE_NOT_FOUND, "there is no session with this id")
}

/// Serves one client until it is gone.
pub(crate) async fn serve(
    shared: &Arc<Shared>,
    client: impl ConnectTo<Agent> + 'static,
) -> Result<(), Error> {
    let [initialize, new, prompt, cancel, close, news] = [(); 6].map(|()| Arc::clone(shared));
    Agent
        .v1()
        .name("skills")
        .on_receive_request(
            async move |request: InitializeRequest, responder, _| {
                responder.respond(initialize.initialize(&request))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |_: NewSessionRequest, responder, _| {
                if new.sessions.are_full() {
                    let message = "there are too many sessions; close some first";
                    return responder
                        .respond_with_error(Error::new(ErrorCode::INVALID_REQUEST, message));
                }
                let session = Session::new();
                responder.respond(NewSessionResponse::new(session.id.clone()))?;
                // Only now: the client has to know the session before it is told anything in it.
                new.sessions.add(session);
                new.opened.notify_one();
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, connection| {
                let Some(session) = prompt.sessions.get(&request.session_id) else {
                    return responder.respond_with_error(unknown_session());
                };
                let Some((place, cancelled)) = session.queue() else {
                    let message = "too many turns of this session are waiting";
                    return responder
                        .respond_with_error(Error::new(ErrorCode::INVALID_REQUEST, message));
                };
                let turn = Turn {
                    shared: Arc::clone(&prompt),
                    connection: ConnectionTo::clone(&connection),
                    session,
                    cancelled,
                    withdrawn: responder.cancellation(),
                };
                connection.spawn(async move {
                    let stopped = turn.run(request.prompt).await;
                    drop(place);
                    responder.respond(PromptResponse::new(stopped))
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
            async move |request: CloseSessionRequest, responder, _| match close
                .sessions
                .close(&request.session_id)
            {
                Some(()) => responder.respond(CloseSessionResponse::new()),
                None => responder.respond_with_error(unknown_session()),
            },
            on_receive_request!(),
        )
        .with_spawned(|connection| live::tell(news, connection))
        .connect_to(client)
        .await
}

/// A turn of a conversation.
struct Turn {
    shared: Arc<Shared>,
    connection: ConnectionTo<Client>,
    session: Arc<Session>,
    /// By `session/cancel`.
    cancelled: CancellationToken,
    /// By `$/cancel_request`.
    withdrawn: RequestCancellation,
}

impl Turn {
    /// Says the answer, and why it stopped doing so.
    async fn run(&self, prompt: Vec<ContentBlock>) -> StopReason {
        tokio::select! {
            biased;
            () = self.cancelled.cancelled() => StopReason::Cancelled,
            () = self.withdrawn.cancelled() => StopReason::Cancelled,
            // A client that is gone hears neither this nor anything else.
            _ = self.say(prompt) => StopReason::EndTurn,
        }
    }

    async fn say(&self, prompt: Vec<ContentBlock>) -> Result<(), Error> {
        let _turn = self.session.turn.lock().await;
        let text = turn::text(prompt);
        let answer = match self.shared.look().await {
            Ok(kept) => turn::answer(&*self.shared.skills, &kept, &text).await,
            Err(error) => turn::out_of_reach(&error),
        };
        for block in answer {
            match block {
                ContentBlock::Text(text) => {
                    for piece in pieces(&text.text) {
                        self.send(ContentBlock::Text(TextContent::new(piece))).await?;
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
        self.shared.pace.send(&self.connection, update).await
    }
}
