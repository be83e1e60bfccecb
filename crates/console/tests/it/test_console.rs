//! [`TestConsole`]: a server with the console alone, with a registry in memory and a vault.

use std::sync::{Arc, Mutex};

use axum::Router;
use skills_client_setup::ServerCommand;
use skills_console::{Console, ConsoleParts, LocalLink, routes};
use skills_core::{
    Layer, Owner, PromptDefinition, Provenance, SourceKind, SurfaceStats, Timestamp, ToolMeta,
    caller::KEY_PREFIX,
};
use skills_execution::{CallerLimiter, NoExecutor};
use skills_http::{
    Access, App, Connection, Guard, Readiness, ServerInfo, ServerProblem, ServerStatus, serve,
};
use skills_registry::{Registry, RegistryConfig, Tool};
use skills_store::MemoryStore;
use skills_vault::{
    Actor, AdminSecrets, KeySelector, MasterKeys, NewKey, PlanLimits, RateLimits, Vault,
    VaultKeyDirectory, now,
};
use tempfile::TempDir;
use tokio::{net::TcpListener, runtime::Runtime};
use tokio_util::sync::CancellationToken;

use crate::browser::Browser;

pub(crate) const ADMIN_KEY: &str = "an-administrators-secret-0123456789";
pub(crate) const TOKEN: &str = "the-token-of-the-server";
const MASTER: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// Credentials that a server asks for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Credentials {
    pub(crate) token: bool,
    pub(crate) admin_key: bool,
}

pub(crate) struct TestConsole {
    pub(crate) address: String,
    pub(crate) registry: Arc<Registry>,
    pub(crate) vault: Arc<Vault>,
    /// Path of the one-time link that was not used yet.
    link: Arc<Mutex<String>>,
    runtime: Runtime,
    shutdown: CancellationToken,
    _dir: TempDir,
}

const PROBLEM: ServerProblem =
    ServerProblem { message: "writes are not possible", hint: "free some disk" };

struct FixedServer;

impl ServerInfo for FixedServer {
    fn status(&self) -> ServerStatus {
        ServerStatus {
            version: "9.9.9",
            started_at: Timestamp::from_micros(0),
            data_dir: "/data/<b>".to_owned(),
            store_bytes: Some(2048),
            memory_bytes: Some(1 << 20),
            problems: vec![PROBLEM],
        }
    }

    fn problem(&self) -> Option<ServerProblem> {
        Some(PROBLEM)
    }

    fn requests(&self) -> Vec<SurfaceStats> {
        vec![SurfaceStats { surface: "mcp", requests: vec![0, 7], errors: vec![0, 2] }]
    }

    fn connections(&self) -> Vec<Connection> {
        let client = "<script>client</script>".to_owned();
        let since = Timestamp::from_micros(0);
        vec![Connection { surface: "mcp", client, since, is_listening: true }]
    }
}

impl TestConsole {
    /// Starts a console without credentials: the person at this machine is an administrator.
    pub(crate) fn open() -> Self {
        Self::with(Credentials::default())
    }

    pub(crate) fn with(credentials: Credentials) -> Self {
        Self::with_access(credentials, Access::default())
    }

    /// Starts a console with hosts and origins.
    pub(crate) fn with_access(credentials: Credentials, access: Access) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        let master = MasterKeys::from_env(Some(MASTER), None).unwrap();
        let vault = Arc::new(Vault::open(dir.path(), master).unwrap());
        let admin_key = credentials.admin_key.then_some(ADMIN_KEY);
        let (admins, _) = AdminSecrets::from_env(admin_key, None).unwrap();
        let keys = Arc::new(VaultKeyDirectory::new(Arc::clone(&vault), admins));
        let config = RegistryConfig { keys: Some(keys.clone()), ..RegistryConfig::default() };
        let registry = Registry::open(Arc::new(MemoryStore::default()), None, config).unwrap();
        let token = credentials.token.then(|| TOKEN.to_owned());
        let guard = Guard::new(Access { token, keys, ..access }).unwrap();
        let limits = Arc::new(RateLimits::new(PlanLimits::default()));
        let present = Arc::new(Mutex::new(String::new()));
        let published = Arc::clone(&present);
        let link = LocalLink::new(move |path| *published.lock().unwrap() = path.to_owned());
        let link = (!credentials.token).then(|| link.unwrap());
        let (program, arguments) = ("skills".to_owned(), vec!["mcp".to_owned()]);
        let console = Console::new(ConsoleParts {
            skills: registry.clone(),
            tools: Arc::new(NoExecutor),
            guard: guard.clone(),
            limiter: CallerLimiter::new(Arc::clone(&vault), limits),
            has_admin_key: credentials.admin_key,
            link,
            protected_labels: ["reviewed".parse().unwrap()].into(),
            server: Arc::new(FixedServer),
            command: ServerCommand { program, arguments },
            public_url: None,
        });
        let routes = routes(&console);
        let mut app = App::new(Router::new(), guard, Readiness::default());
        app.route_groups = routes.groups;
        app.front_page = Some(routes.front_page);
        app.error_formats = vec![routes.error_format];
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shutdown = CancellationToken::new();
        runtime.spawn(serve(listener, app, shutdown.clone()));
        Self { address, registry, vault, link: present, runtime, shutdown, _dir: dir }
    }

    /// Returns the path of the one-time link that was not used yet.
    pub(crate) fn link(&self) -> String {
        self.link.lock().unwrap().clone()
    }

    /// Returns a browser without cookies.
    pub(crate) fn browser(&self) -> Browser {
        Browser::new(&self.address)
    }

    /// Returns a browser that signed in.
    pub(crate) fn signed_in(&self, credential: &str) -> Browser {
        let mut browser = self.browser();
        browser.get("/ui/sign-in");
        let answer = browser.submit("/ui/sign-in", &[("credential", credential)]);
        assert_eq!(answer.status, 303, "{}", String::from_utf8_lossy(&answer.body));
        browser
    }

    pub(crate) fn register(&self, id: &str, document: &str) {
        self.register_in(&Layer::Official, id, document);
    }

    pub(crate) fn register_in(&self, layer: &Layer, id: &str, document: &str) {
        let bundle = skills_agent_skills::Bundle::new(document.to_owned(), vec![]).unwrap();
        self.register_bundle(layer, id, bundle);
    }

    /// Registers a skill of a folder on a disk.
    pub(crate) fn register_from(&self, folder: &str, id: &str, document: &str) {
        let bundle = skills_agent_skills::Bundle::new(document.to_owned(), vec![]).unwrap();
        let source = Provenance::new(SourceKind::Path, folder);
        let bundle = bundle.with_provenance(Some(Box::new(source)));
        self.register_bundle(&Layer::Official, id, bundle);
    }

    pub(crate) fn register_bundle(
        &self,
        layer: &Layer,
        id: &str,
        bundle: skills_agent_skills::Bundle<bytes::Bytes>,
    ) {
        let write = self.registry.register_bundle("test", layer, id, bundle);
        self.runtime.block_on(write).unwrap();
    }

    /// Registers a tool with the metadata of a manifest.
    pub(crate) fn register_tool(&self, id: &str, meta: ToolMeta) {
        let tool = Tool { body: "# Tool".to_owned(), source: "{}".to_owned(), meta };
        let write = self.registry.register_tool("test", &Layer::Official, id, tool);
        self.runtime.block_on(write).unwrap();
    }

    pub(crate) fn register_prompt(&self, name: &str, definition: PromptDefinition) {
        let write = self.registry.register_prompt("test", &Layer::Official, name, definition);
        self.runtime.block_on(write).unwrap();
    }

    /// Reads a stored document; `None` if there is none.
    pub(crate) fn read(&self, uri: &str) -> Option<String> {
        let skills: Arc<dyn skills_registry::SkillRegistry> = self.registry.clone();
        let read = self.runtime.block_on(skills.read(uri));
        read.ok().map(skills_registry::Resource::into_text)
    }

    /// Creates a key of a user.
    pub(crate) fn key(&self, uid: &str) -> String {
        let owner: Owner = uid.parse().unwrap();
        let new = NewKey::for_owner(&owner);
        let created = self.vault.create_key(Actor { name: "test", at: now() }, &new).unwrap();
        assert!(created.key.starts_with(KEY_PREFIX));
        created.key.to_string()
    }

    pub(crate) fn revoke(&self, key: &str) {
        let actor = Actor { name: "test", at: now() };
        self.vault.revoke_keys(actor, KeySelector::Key(key)).unwrap();
    }
}

impl Drop for TestConsole {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}
