//! Methods that rmcp calls: each delegates to the module of its part of the protocol.

use std::borrow::Cow;

// Subscriptions and log levels are deprecated by the newest revision and part of the older ones.
#[expect(deprecated, reason = "see above")]
use rmcp::model::{
    SetLevelRequestMethod, SetLevelRequestParams, SubscribeRequestParams, UnsubscribeRequestParams,
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult,
        CustomRequest, CustomResult, DiscoverResult, GetPromptRequestParams, GetPromptResponse,
        InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult,
        ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
        ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ServerConfig,
        SubscriptionFilter, Tool,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};

use super::{Handler, catch_panic, is_stateless, with_uri};
use crate::{
    budget::{ResponseBudget, overloaded},
    completion, cursor,
    error::invalid,
    notifications::Notifier,
    prompts, resources,
    server::{McpProfile, TTL_MS, VERSIONS},
    skills_extension::{self, resource_list},
    subscriptions::{self, SubscribeError},
    tools,
};

/// Methods that rmcp has types for. It treats such a request with invalid parameters as a custom one.
const TYPED_METHODS: [&str; 9] = [
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
/// Methods that rmcp has types for in the revisions with sessions.
const SESSION_METHODS: [&str; 3] =
    ["logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

/// Most bytes of the parameters of `initialize`, which are held as long as the session.
const MAX_INITIALIZE_BYTES: usize = 16 << 10;

fn cursor(request: Option<PaginatedRequestParams>) -> Option<String> {
    request?.cursor
}

#[expect(deprecated, reason = "subscriptions and log levels are part of the older revisions")]
impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::clone(&self.shared.info)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(VERSIONS)
    }

    async fn ping(&self, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.request_trace("ping", "", &context).run(async { Ok(()) }).await
    }

    async fn discover(
        &self,
        context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let trace = self.request_trace("server/discover", "", &context);
        trace
            .run(async move {
                Ok(DiscoverResult::from_server_info(VERSIONS.to_vec(), self.get_info())
                    .with_ttl_ms(TTL_MS)
                    .with_cache_scope(self.shared.settings.scope()))
            })
            .await
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let trace = self.request_trace("initialize", "", &context);
        trace
            .run(async move {
                let size = serde_json::to_vec(&request).map_or(usize::MAX, |text| text.len());
                if size > MAX_INITIALIZE_BYTES {
                    return Err(invalid("the parameters of initialize are too large"));
                }
                context.peer.set_peer_info(request.clone());
                *self.request.lock() = None;
                self.subscriber();
                self.negotiate_initialize(&request)
            })
            .await
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.notifier_task.get_or_init(|| self.spawn_notifier(context.peer));
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let mut accepted = match self.shared.settings.profile {
            McpProfile::Full | McpProfile::Skills => requested.clone(),
            McpProfile::Mdp => {
                requested.intersection(&SubscriptionFilter::builder().tools_list_changed().build())
            }
        };
        if let Some(uris) = &mut accepted.resource_subscriptions {
            subscriptions::truncate(uris);
        }
        // rmcp acknowledges the request next.
        self.pending_listens.push(self.open_listen(accepted.clone()).ok()?);
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let trace = self.request_trace("subscriptions/listen", "", context.request_context());
        let stream = self.pending_listens.take(context.accepted());
        let stream = stream.map_or_else(|| self.open_listen(context.accepted().clone()), Ok);
        let listen = async {
            let Ok(stream) = stream else { return Err(overloaded()) };
            let notifier = Notifier::new(&stream.subscriber, &self.shared, None);
            let sink = context.sink();
            let notify =
                notifier.run(|notification| async { sink.send(notification).await.is_ok() });
            tokio::select! {
                _ = notify => {}
                () = stream.evicted() => {}
                () = context.cancelled() => {}
                () = self.disconnected.cancelled() => {}
                () = self.shared.settings.shutdown.cancelled() => {}
            }
            Ok(())
        };
        trace.run(listen).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let trace = self.request_trace("resources/list", "", &context);
        trace
            .run(async move {
                self.require_full_profile("resources/list")?;
                let cursor = cursor(request);
                let budget = ResponseBudget::from_extensions(&context.extensions);
                let cursor = cursor.as_deref();
                let mut page = if self.shared.settings.profile == McpProfile::Skills {
                    let listed = resource_list::list(&self.shared, &budget, cursor);
                    catch_panic(listed).await?
                } else {
                    catch_panic(resources::list(&*self.shared.skills, &budget, cursor)).await?
                };
                (page.ttl_ms, page.cache_scope) = self.cache_hints(&context);
                Ok(page)
            })
            .await
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let trace = self.request_trace("resources/templates/list", "", &context);
        trace
            .run(async move {
                self.require_full_profile("resources/templates/list")?;
                cursor::reject(cursor(request).as_deref())?;
                let mut page = resources::templates();
                (page.ttl_ms, page.cache_scope) = self.cache_hints(&context);
                Ok(page)
            })
            .await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let trace = self.request_trace("resources/read", "", &context);
        trace
            .run(async move {
                self.require_full_profile("resources/read")?;
                let budget = ResponseBudget::from_extensions(&context.extensions);
                match catch_panic(self.read(&budget, &request.uri)).await {
                    Ok(resource) => {
                        let mut result =
                            ReadResourceResult::new(vec![resources::contents(resource)]);
                        (result.ttl_ms, result.cache_scope) = self.cache_hints(&context);
                        Ok(result.into())
                    }
                    Err(error) => {
                        self.log(&context.peer, &error).await;
                        Err(with_uri(error, &request.uri))
                    }
                }
            })
            .await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let trace = self.request_trace("resources/subscribe", "", &context);
        trace
            .run(async move {
                self.require_full_profile("resources/subscribe")?;
                let budget = ResponseBudget::from_extensions(&context.extensions);
                let memory = self.account.held_memory();
                let added = self.subscriber().add(&request.uri, memory);
                added.map_err(|error| match error {
                    SubscribeError::Invalid(reason) => invalid(reason),
                    SubscribeError::OverBudget => budget.refuse(),
                })
            })
            .await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let trace = self.request_trace("resources/unsubscribe", "", &context);
        trace
            .run(async move {
                self.require_full_profile("resources/unsubscribe")?;
                self.subscriber().remove(&request.uri);
                Ok(())
            })
            .await
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let trace = self.request_trace("logging/setLevel", "", &context);
        trace
            .run(async move {
                if is_stateless(&context) {
                    return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
                }
                *self.log_level.lock() = Some(request.level);
                Ok(())
            })
            .await
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let trace = self.request_trace("prompts/list", "", &context);
        trace
            .run(async move {
                self.require_full_profile("prompts/list")?;
                let cursor = cursor(request);
                let budget = ResponseBudget::from_extensions(&context.extensions);
                let listed = prompts::list(&*self.shared.skills, &budget, cursor.as_deref());
                let mut page = catch_panic(listed).await?;
                (page.ttl_ms, page.cache_scope) = self.cache_hints(&context);
                Ok(page)
            })
            .await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let trace = self.request_trace("prompts/get", "", &context);
        trace
            .run(async move {
                self.require_full_profile("prompts/get")?;
                let budget = ResponseBudget::from_extensions(&context.extensions);
                match catch_panic(prompts::get(&*self.shared.skills, &budget, request)).await {
                    Ok(result) => Ok(result.into()),
                    Err(error) => {
                        self.log(&context.peer, &error).await;
                        Err(error)
                    }
                }
            })
            .await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let trace = self.request_trace("completion/complete", "", &context);
        trace
            .run(async move {
                self.require_full_profile("completion/complete")?;
                catch_panic(completion::complete(&self.shared, request)).await
            })
            .await
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let trace = self.request_trace("tools/list", "", &context);
        trace
            .run(async move {
                let budget = ResponseBudget::from_extensions(&context.extensions);
                let mut page =
                    tools::list(&self.shared, &budget, cursor(request).as_deref()).await?;
                (page.ttl_ms, page.cache_scope) = self.cache_hints(&context);
                Ok(page)
            })
            .await
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let trace = self.request_trace("tools/call", &request.name, &context);
        trace
            .run(async move {
                let budget = ResponseBudget::from_extensions(&context.extensions);
                catch_panic(tools::call(&self.shared, &budget, request)).await.map(Into::into)
            })
            .await
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::get(&self.shared, name)
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let trace = self.request_trace(&request.method, "", &context);
        trace
            .run(async move {
                let method = request.method.as_str();
                if TYPED_METHODS.contains(&method)
                    || (SESSION_METHODS.contains(&method) && !is_stateless(&context))
                {
                    return Err(invalid(format!("invalid parameters for {method}")));
                }
                self.require_full_profile(method)?;
                let hints = self.shared.settings.cache_hints(&context);
                let budget = ResponseBudget::from_extensions(&context.extensions);
                let handled = skills_extension::handle(&self.shared, &budget, request, hints);
                catch_panic(handled).await.map(CustomResult::new)
            })
            .await
    }
}
