//! What rmcp calls for each request: which part of the crate answers it, in the words of its revision.

use std::{
    borrow::Cow,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use futures_util::FutureExt as _;
// Subscriptions and log levels are deprecated by the newest revision and alive in the older ones.
#[expect(deprecated, reason = "see above")]
use rmcp::model::{
    LoggingLevel, LoggingMessageNotificationParam, SetLevelRequestMethod, SetLevelRequestParams,
    SubscribeRequestParams, UnsubscribeRequestParams,
};
use rmcp::{
    ErrorData, Peer, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult,
        CustomRequest, CustomResult, DiscoverResult, ErrorCode, GetPromptRequestParams,
        GetPromptResponse, InitializeRequestParams, InitializeResult, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
        ResourceContents, ServerConfig, SubscriptionFilter, Tool,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde_json::json;
use skills_core::ResourceUri;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    completion,
    error::invalid,
    live::{
        Begun, End, Follow, Hearing, MAX_SUBSCRIPTIONS, MAX_URI_BYTES, Source, Subscriptions, Wants,
    },
    prompts, resources,
    server::{Profile, Shared, TTL_MS, VERSIONS},
    skills_extension, tools,
};

/// What rmcp has types for. It takes a request whose parameters are of other types for one of an extension.
const TYPED: [&str; 9] = [
    "completion/complete",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "subscriptions/listen",
    "tools/call",
    "tools/list",
];
/// The same of the revisions with sessions.
const SESSION_TYPED: [&str; 3] =
    ["logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

/// One session, or one request of a client that has none.
pub(crate) struct Handler {
    pub(crate) shared: Arc<Shared>,
    subscriptions: Subscriptions,
    /// `None` for a client that can always be told.
    hearing: Option<Hearing>,
    /// News since the client was greeted.
    greeted: Mutex<Option<Source>>,
    begun: Begun,
    follower: OnceLock<AbortOnDropHandle<()>>,
    #[expect(deprecated, reason = "alive in the older revisions")]
    level: Mutex<Option<LoggingLevel>>,
    /// Cancelled when the client does not read.
    pub(crate) stalled: CancellationToken,
    /// Cancelled when the client says nothing more.
    pub(crate) hung_up: CancellationToken,
}

/// Runs a handler; should it panic, the client gets an error and not silence.
async fn guarded<T>(handler: impl Future<Output = Result<T, ErrorData>>) -> Result<T, ErrorData> {
    AssertUnwindSafe(handler).catch_unwind().await.unwrap_or_else(|_| {
        Err(ErrorData::internal_error("the server failed; its log says why", None))
    })
}

fn cursor(request: Option<PaginatedRequestParams>) -> Option<String> {
    request?.cursor
}

/// An error that says which URI it is about, as far as that is not too long.
fn about(mut error: ErrorData, uri: &str) -> ErrorData {
    if error.code != ErrorCode::INTERNAL_ERROR && uri.len() <= MAX_URI_BYTES {
        let mut data = error.data.take().unwrap_or_else(|| json!({}));
        data["uri"] = json!(uri);
        error.data = Some(data);
    }
    error
}

/// News of tools and of nothing else.
fn tools_only() -> SubscriptionFilter {
    SubscriptionFilter::builder().tools_list_changed().build()
}

/// Whether a URI is the address of what one tier holds.
fn is_of_a_tier(uri: &str) -> bool {
    matches!(uri.parse(), Ok(ResourceUri::Stored { .. }))
}

/// Whether a request is of the revision without sessions. Dates compare as their text does.
pub(crate) fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

impl Handler {
    pub(crate) fn new(shared: Arc<Shared>, hearing: Option<Hearing>) -> Self {
        Self {
            hearing,
            greeted: Mutex::new(None),
            shared,
            subscriptions: Subscriptions::default(),
            begun: Begun::default(),
            follower: OnceLock::new(),
            level: Mutex::new(None),
            stalled: CancellationToken::new(),
            hung_up: CancellationToken::new(),
        }
    }

    /// Whether there is more than tools.
    fn has_content(&self, method: &str) -> Result<(), ErrorData> {
        match self.shared.settings.profile {
            Profile::Full => Ok(()),
            Profile::Mdp => Err(ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                format!("{method} is not offered here: there are tools and nothing else"),
                None,
            )),
        }
    }

    fn hints(&self, context: &RequestContext<RoleServer>) -> (Option<u64>, Option<CacheScope>) {
        self.shared.settings.cache_hints(context).unzip()
    }

    async fn contents(&self, uri: &str) -> Result<ResourceContents, ErrorData> {
        if uri.starts_with(skills_extension::SCHEME) {
            match skills_extension::read(&self.shared, uri).await {
                Ok(file) => return Ok(resources::contents(file)),
                // What a skill has at that address comes before what a tier has.
                Err(error) if error.code == ErrorCode::RESOURCE_NOT_FOUND && is_of_a_tier(uri) => {}
                Err(error) => return Err(error),
            }
        }
        resources::read(&*self.shared.skills, uri).await
    }

    /// Tells a client that wants to know of a failure that is not its own.
    #[expect(deprecated, reason = "alive in the older revisions")]
    async fn log(&self, peer: &Peer<RoleServer>, error: &ErrorData) {
        let level = *self.level.lock().unwrap_or_else(PoisonError::into_inner);
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

#[expect(deprecated, reason = "subscriptions and log levels are alive in the older revisions")]
impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::clone(&self.shared.info)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(VERSIONS)
    }

    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        Ok(DiscoverResult::from_server_info(VERSIONS.to_vec(), self.get_info())
            .with_ttl_ms(TTL_MS)
            .with_cache_scope(self.shared.settings.scope()))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let source = Source::new(&self.shared);
        *self.greeted.lock().unwrap_or_else(PoisonError::into_inner) = Some(source);
        self.negotiate_initialize(&request)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let peer = context.peer;
        let stalled = self.stalled.clone();
        self.follower.get_or_init(|| {
            let greeted = self.greeted.lock().unwrap_or_else(PoisonError::into_inner).take();
            let source = greeted.unwrap_or_else(|| Source::new(&self.shared));
            let wants = match self.shared.settings.profile {
                Profile::Full => Wants::Session(self.subscriptions.clone()),
                // Nothing is told of what is not offered.
                Profile::Mdp => Wants::Filter(tools_only()),
            };
            let (ear, over) = self.hearing.clone().map(|it| (it.ear, it.over)).unzip();
            let follow = Follow::new(source, wants, ear);
            AbortOnDropHandle::new(tokio::spawn(async move {
                let send = |notification| {
                    let peer = peer.clone();
                    async move { peer.send_notification(notification).await.is_ok() }
                };
                match (follow.tell(send).await, over) {
                    (End::Stalled, _) => {
                        tracing::info!("a client does not read; it is told nothing more");
                        stalled.cancel();
                    }
                    (End::Over, Some(over)) => over.cancel(),
                    (End::Over | End::Gone, _) => {}
                }
            }))
        });
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let mut accepted = match self.shared.settings.profile {
            Profile::Full => requested.clone(),
            // Nothing is told of what is not offered.
            Profile::Mdp => requested.intersection(&tools_only()),
        };
        if let Some(uris) = &mut accepted.resource_subscriptions {
            uris.retain(|uri| uri.len() <= MAX_URI_BYTES);
            uris.truncate(MAX_SUBSCRIPTIONS);
        }
        // What is accepted is acknowledged next.
        self.begun.begin(&self.shared);
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let source = self.begun.take(&self.shared);
        let follow = Follow::new(source, Wants::Filter(context.accepted().clone()), None);
        let sink = context.sink();
        let told = follow.tell(|notification| async { sink.send(notification).await.is_ok() });
        tokio::select! {
            _ = told => {}
            () = context.cancelled() => {}
            () = self.hung_up.cancelled() => {}
            () = self.shared.settings.shutdown.cancelled() => {}
        }
        Ok(())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.has_content("resources/list")?;
        let cursor = cursor(request);
        let mut page = guarded(resources::list(&*self.shared.skills, cursor.as_deref())).await?;
        (page.ttl_ms, page.cache_scope) = self.hints(&context);
        Ok(page)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.has_content("resources/templates/list")?;
        crate::cursor::none(cursor(request).as_deref())?;
        let mut page = resources::templates();
        (page.ttl_ms, page.cache_scope) = self.hints(&context);
        Ok(page)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.has_content("resources/read")?;
        match guarded(self.contents(&request.uri)).await {
            Ok(contents) => {
                let mut result = ReadResourceResult::new(vec![contents]);
                (result.ttl_ms, result.cache_scope) = self.hints(&context);
                Ok(result.into())
            }
            Err(error) => {
                self.log(&context.peer, &error).await;
                Err(about(error, &request.uri))
            }
        }
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.has_content("resources/subscribe")?;
        self.subscriptions.add(request.uri).map_err(invalid)
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.has_content("resources/unsubscribe")?;
        self.subscriptions.remove(&request.uri);
        Ok(())
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if is_stateless(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = Some(request.level);
        Ok(())
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.has_content("prompts/list")?;
        let cursor = cursor(request);
        let mut page = guarded(prompts::list(&*self.shared.skills, cursor.as_deref())).await?;
        (page.ttl_ms, page.cache_scope) = self.hints(&context);
        Ok(page)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.has_content("prompts/get")?;
        match guarded(prompts::get(&*self.shared.skills, request)).await {
            Ok(result) => Ok(result.into()),
            Err(error) => {
                self.log(&context.peer, &error).await;
                Err(error)
            }
        }
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        self.has_content("completion/complete")?;
        guarded(completion::complete(&self.shared, request)).await
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut page = tools::list(&self.shared, cursor(request).as_deref()).await?;
        (page.ttl_ms, page.cache_scope) = self.hints(&context);
        Ok(page)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        guarded(tools::call(&self.shared, request)).await.map(Into::into)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::get(&self.shared, name)
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method.as_str();
        if TYPED.contains(&method) || (SESSION_TYPED.contains(&method) && !is_stateless(&context)) {
            return Err(invalid(format!("the parameters of {method} are not what it takes")));
        }
        self.has_content(method)?;
        let hints = self.shared.settings.cache_hints(&context);
        let answer = skills_extension::answer(&self.shared, request, hints);
        guarded(answer).await.map(CustomResult::new)
    }
}
