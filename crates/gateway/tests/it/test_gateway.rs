//! [`TestGateway`]: the routes in process, with registry, vault and executor.

use std::sync::Arc;

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Method, Request, StatusCode, header},
    response::Response,
};
use serde_json::Value;
use skills_core::{Caller, Owner, User};
use skills_execution::{CallerLimiter, Executor, PendingExecutor};
use skills_gateway::{Gateway, GatewayParts};
use skills_registry::{Registry, RegistryConfig};
use skills_store::{MemoryStore, Store};
use skills_upstream::{Settings, UpstreamClient};
use skills_vault::{Actor, MasterKeys, NewKey, PlanLimits, RateLimits, Vault, now};
use tempfile::TempDir;
use tower::ServiceExt as _;

const MASTER: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

fn master() -> Option<MasterKeys> {
    MasterKeys::from_env(Some(MASTER), None).unwrap()
}

pub(crate) struct TestGateway {
    pub(crate) registry: Arc<Registry>,
    pub(crate) vault: Arc<Vault>,
    gateway: Gateway,
    routes: Router,
    _dir: TempDir,
}

impl TestGateway {
    pub(crate) fn open() -> Self {
        Self::calling(Settings { https_only: false, ..Settings::default() })
    }

    /// Opens a gateway with settings for outgoing calls.
    pub(crate) fn calling(settings: Settings) -> Self {
        Self::with(master(), settings, Arc::new(MemoryStore::default()))
    }

    /// Opens a gateway on a store.
    pub(crate) fn on(store: Arc<dyn Store>) -> Self {
        Self::with(master(), Settings::default(), store)
    }

    /// Opens a gateway without a master key, which cannot store secrets.
    pub(crate) fn without_master_key() -> Self {
        Self::with(None, Settings::default(), Arc::new(MemoryStore::default()))
    }

    fn with(master: Option<MasterKeys>, settings: Settings, store: Arc<dyn Store>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let vault = Arc::new(Vault::open(dir.path(), master).unwrap());
        let registry = Registry::open(store, None, RegistryConfig::default()).unwrap();
        let limits = Arc::new(RateLimits::new(PlanLimits::default()));
        let upstream = Arc::new(UpstreamClient::new(settings));
        let limiter = CallerLimiter::new(Arc::clone(&vault), limits);
        let executor = Executor::new(Arc::clone(&registry), limiter.clone(), upstream, &[]);
        let executor = PendingExecutor::ready(Arc::new(executor));
        let protected_labels = ["reviewed".parse().unwrap()].into();
        let parts =
            GatewayParts { executor, limiter, server: None, is_private: false, protected_labels };
        let gateway = Gateway::new(parts);
        let routes =
            skills_gateway::routes(&gateway).merge(skills_gateway::public_routes(&gateway));
        Self { registry, vault, gateway, routes, _dir: dir }
    }

    /// Creates a key of a user and returns the caller.
    pub(crate) fn user(&self, uid: &str) -> Caller {
        let owner: Owner = uid.parse().unwrap();
        let new = NewKey::for_owner(&owner);
        let key = self.vault.create_key(Actor { name: "test", at: now() }, &new).unwrap();
        Caller::User(User { owner, key: key.row.hash })
    }

    pub(crate) async fn send(
        &self,
        caller: &Caller,
        mut request: Request<Body>,
    ) -> (StatusCode, Response<()>, Value) {
        request.extensions_mut().insert(caller.clone());
        let mut response = self.routes.clone().oneshot(request).await.unwrap();
        skills_gateway::add_rate_limit_headers(&self.gateway, caller, response.headers_mut());
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        let json = match body.is_empty() {
            true => Value::Null,
            false => {
                assert_eq!(parts.headers[header::CONTENT_TYPE], "application/json");
                serde_json::from_slice(&body).unwrap()
            }
        };
        (parts.status, Response::from_parts(parts, ()), json)
    }

    pub(crate) async fn get(&self, caller: &Caller, uri: &str) -> (StatusCode, Value) {
        let request = Request::builder().method(Method::GET).uri(uri).body(Body::empty()).unwrap();
        let (status, _, json) = self.send(caller, request).await;
        (status, json)
    }

    /// Sends a request with a JSON body unless it is null.
    pub(crate) async fn ask(
        &self,
        caller: &Caller,
        method: &str,
        uri: &str,
        body: &Value,
    ) -> (StatusCode, Value) {
        let request = Request::builder().method(method).uri(uri);
        let request = match body {
            Value::Null => request.body(Body::empty()),
            body => request
                .header(header::CONTENT_TYPE, "application/json")
                .body(Body::from(body.to_string())),
        };
        let (status, _, json) = self.send(caller, request.unwrap()).await;
        (status, json)
    }

    /// Sends a request from owned arguments, for use in closures.
    pub(crate) async fn ask_owned(
        &self,
        caller: Caller,
        method: &str,
        uri: &str,
        body: Value,
    ) -> (StatusCode, Value) {
        self.ask(&caller, method, uri, &body).await
    }
}
