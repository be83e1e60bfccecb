//! A gateway with everything behind it, and asking it as somebody.

use std::sync::Arc;

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Method, Request, StatusCode, header},
    response::Response,
};
use serde_json::Value;
use skills_core::{Caller, Owner, User};
use skills_gateway::{Executor, Gateway, Parts};
use skills_registry::{Registry, RegistryConfig};
use skills_store::MemoryStore;
use skills_upstream::{Settings, Upstream};
use skills_vault::{Act, MasterKeys, NewKey, RateLimits, TierLimits, Vault, now};
use tempfile::TempDir;
use tokio::sync::watch;
use tower::ServiceExt as _;

const MASTER: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

pub(crate) struct House {
    pub(crate) registry: Arc<Registry>,
    pub(crate) vault: Arc<Vault>,
    gateway: Gateway,
    routes: Router,
    _dir: TempDir,
}

impl House {
    pub(crate) fn open() -> Self {
        Self::calling(Settings { https_only: false, ..Settings::default() })
    }

    /// One whose tools call as these settings say.
    pub(crate) fn calling(settings: Settings) -> Self {
        Self::with(MasterKeys::from_env(Some(MASTER), None).unwrap(), settings)
    }

    /// One that can keep no secrets.
    pub(crate) fn without_master_key() -> Self {
        Self::with(None, Settings::default())
    }

    fn with(master: Option<MasterKeys>, settings: Settings) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let vault = Arc::new(Vault::open(dir.path(), master).unwrap());
        let registry =
            Registry::open(Arc::new(MemoryStore::default()), None, RegistryConfig::default());
        let registry = registry.unwrap();
        let limits = Arc::new(RateLimits::new(TierLimits::default()));
        let upstream = Upstream::new(settings);
        let executor = Arc::new(Executor::new(Arc::clone(&vault), limits, upstream));
        registry.execute_with(executor.clone());
        let (_, opened) = watch::channel(Some(Arc::clone(&registry)));
        let gateway = Gateway::new(Parts { registry: opened, executor });
        let routes = skills_gateway::routes(&gateway);
        Self { registry, vault, gateway, routes, _dir: dir }
    }

    /// Somebody with a key.
    pub(crate) fn user(&self, uid: &str) -> Caller {
        let owner: Owner = uid.parse().unwrap();
        let new = NewKey { owner: &owner, tier: None, label: None, expires_at: None };
        let key = self.vault.create_key(Act { by: "test", at: now() }, &new).unwrap();
        Caller::User(User { owner, key: key.row.hash })
    }

    pub(crate) async fn send(
        &self,
        caller: &Caller,
        mut request: Request<Body>,
    ) -> (StatusCode, Response<()>, Value) {
        request.extensions_mut().insert(caller.clone());
        let mut response = self.routes.clone().oneshot(request).await.unwrap();
        skills_gateway::mark(&self.gateway, caller, response.headers_mut());
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

    /// Any method, with a JSON body unless it is null.
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

    /// The same, for closures that give what they made.
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
