//! References: the same skills from memory, by axum alone and by rmcp alone, as processes of this program selected
//! by a variable.

use std::{collections::HashMap, env, io::Write as _, process::ExitCode, sync::Arc};

use axum::{Router, extract::Path, routing::get, serve::ListenerExt as _};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CacheScope, ListResourcesResult, PaginatedRequestParams, ReadResourceRequestParams,
        ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ServerCapabilities,
        ServerConfig,
    },
    service::RequestContext,
    transport::{
        stdio,
        streamable_http_server::{
            StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
        },
    },
};
use tokio::{net::TcpListener, runtime::Runtime};

use crate::{PAGE, content};

/// Environment variable with the kind of reference and its number of skills.
pub(crate) const ROLE: &str = "BENCH_ROLE";
pub(crate) const SKILLS: &str = "BENCH_ROLE_SKILLS";

/// Runs as a reference if the variable says so.
pub(crate) fn run_if_selected() -> Option<ExitCode> {
    let role = env::var(ROLE).ok()?;
    let skills = env::var(SKILLS).unwrap().parse().unwrap();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        match role.as_str() {
            "axum" => serve(axum(skills)).await,
            "rmcp" => serve(rmcp_http(skills)).await,
            "rmcp-stdio" => {
                let service = Skills::numbered(skills).serve(stdio()).await.unwrap();
                service.waiting().await.unwrap();
            }
            other => panic!("{ROLE}={other}"),
        }
    });
    Some(ExitCode::SUCCESS)
}

async fn serve(router: Router) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    std::io::stdout().flush().unwrap();
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
    axum::serve(listener, router).await.unwrap();
}

fn axum(skills: usize) -> Router {
    let bodies: Arc<HashMap<String, axum::body::Bytes>> = Arc::new(
        (0..skills).map(|number| (content::id(number), content::body(number).into())).collect(),
    );
    Router::new().route(
        "/{id}",
        get(move |Path(id): Path<String>| {
            let body = bodies.get(&id).cloned();
            async move { body.ok_or(axum::http::StatusCode::NOT_FOUND) }
        }),
    )
}

fn rmcp_http(skills: usize) -> Router {
    let handler = Skills::numbered(skills);
    let mut config = StreamableHttpServerConfig::default();
    config.legacy_session_mode = false;
    config.json_response = true;
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(handler.clone()), sessions, config);
    Router::new().nest_service("/mcp", service)
}

#[derive(Clone)]
struct Skills {
    bodies: Arc<HashMap<String, String>>,
    resources: Arc<Vec<Resource>>,
}

impl Skills {
    fn numbered(skills: usize) -> Self {
        let bodies: HashMap<_, _> =
            (0..skills).map(|number| (content::uri(number), content::body(number))).collect();
        let resources = (0..skills)
            .map(|number| {
                Resource::new(content::uri(number), content::id(number))
                    .with_title(content::id(number))
                    .with_description(content::description(number))
                    .with_mime_type("text/markdown")
                    .with_size(content::BYTES as u64)
            })
            .collect();
        Self { bodies: Arc::new(bodies), resources: Arc::new(resources) }
    }
}

impl ServerHandler for Skills {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_resources().build())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let page = self.resources.iter().take(PAGE).cloned().collect();
        Ok(ListResourcesResult::with_all_items(page))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let Some(body) = self.bodies.get(&request.uri) else {
            return Err(ErrorData::invalid_params("not found", None));
        };
        let contents =
            ResourceContents::text(body.clone(), request.uri).with_mime_type("text/markdown");
        let result = ReadResourceResult::new(vec![contents])
            .with_ttl_ms(0)
            .with_cache_scope(CacheScope::Public);
        Ok(result.into())
    }
}
