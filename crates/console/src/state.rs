//! State shared by all pages, and the parts of the server that they need.

use std::{ops::Deref, sync::Arc};

use skills_client_setup::ServerCommand;
use skills_core::{Label, PublicUrl};
use skills_execution::{CallerLimiter, ToolExecutor};
use skills_http::{Guard, ServerInfo};
use skills_registry::SkillRegistry;

use crate::{LocalLink, browse::FacetCache, events::Streams, publish::Drafts, session::Sessions};

/// Parts of a server that the console needs.
pub struct ConsoleParts {
    /// The registry.
    pub skills: Arc<dyn SkillRegistry>,
    /// Executor of tools.
    pub tools: Arc<dyn ToolExecutor>,
    /// Access rules of HTTP, which identify a person by a key or the token.
    pub guard: Guard,
    /// Rate limits of keys, and the vault that holds the keys.
    pub limiter: CallerLimiter,
    /// True if an administrator has a key of their own, so that the person at this machine is none.
    pub has_admin_key: bool,
    /// One-time link of the person at this machine; `None` on a server with a token.
    pub link: Option<LocalLink>,
    /// Labels that only administrators move.
    pub protected_labels: Arc<[Label]>,
    /// State of the server.
    pub server: Arc<dyn ServerInfo>,
    /// Command by which an MCP client of this machine uses the registry.
    pub command: ServerCommand,
    /// Address by which clients reach the server; without one, that of each request.
    pub public_url: Option<PublicUrl>,
}

/// Handle of the console's state; cheap to clone.
#[derive(Clone)]
pub struct Console(Arc<ConsoleState>);

/// State behind a [`Console`].
pub struct ConsoleState {
    pub(crate) parts: ConsoleParts,
    pub(crate) sessions: Sessions,
    /// Uploads that wait for their confirmation.
    pub(crate) drafts: Drafts,
    /// Values of the filters of the first page.
    pub(crate) facets: FacetCache,
    /// Open event streams.
    pub(crate) streams: Streams,
}

impl Console {
    /// Creates the console of a server.
    #[must_use]
    pub fn new(parts: ConsoleParts) -> Self {
        let (sessions, drafts, streams) = (Sessions::new(), Drafts::new(), Streams::new());
        let facets = FacetCache::new();
        Self(Arc::new(ConsoleState { parts, sessions, drafts, facets, streams }))
    }
}

impl Deref for Console {
    type Target = ConsoleState;

    fn deref(&self) -> &ConsoleState {
        &self.0
    }
}
