//! The configuration file.
//!
//! - `settings`: the table of all settings
//! - `document`: the file as a tree of values with their positions
//! - `sources`: the list of sources
//! - `load`: loads a file into a [`Config`], with errors and warnings

mod document;
mod load;
mod settings;
mod sources;

use std::{path::PathBuf, time::Duration};

use skills_core::{Label, PublicUrl, resolve::Prefix};
use skills_execution::UpstreamAllowance;
use skills_registry::{RegistryConfig, SectionAccess, search::SearchConfig};
use skills_upstream as upstream;
use skills_vault::PlanLimits;

pub use self::{
    load::{ConfigError, Purpose},
    sources::SourceSettings,
};
use crate::{database::Database, search_model};

/// State scopes of an attached worker's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopeSettings {
    /// Scope of skills.
    pub skills: String,
    /// Scope of prompts.
    pub prompts: String,
}

/// Store of an attached worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreChoice {
    /// The engine's state if it has one, else the data directory.
    Auto,
    /// The engine's state.
    State,
    /// The data directory.
    Embedded,
}

/// Rule of the versions that `gc` keeps: those that either limit keeps. Without a limit there is nothing to remove.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetentionSettings {
    /// Number of the newest versions of each entry.
    pub versions: Option<u64>,
    /// Age in days.
    pub days: Option<u64>,
}

/// Rules for the servers that tools call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionSettings {
    /// Origins that are exempt from the rules on https and addresses.
    pub allow_upstream: Vec<UpstreamAllowance>,
    /// Requires https for all other origins.
    pub https_only: bool,
}

impl Default for ExecutionSettings {
    fn default() -> Self {
        Self { allow_upstream: vec![], https_only: true }
    }
}

impl ExecutionSettings {
    /// Returns the settings of the upstream client.
    #[must_use]
    pub fn upstream_settings(&self) -> upstream::Settings {
        let Self { allow_upstream, https_only } = self;
        let for_all = allow_upstream.iter().filter(|it| it.tier.is_none()).map(|it| &it.origin);
        upstream::Settings {
            allow: for_all.cloned().collect(),
            https_only: *https_only,
            ..upstream::Settings::default()
        }
    }
}

/// Settings of the search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchSettings {
    /// Groups of words that mean the same, beside the default ones.
    pub synonyms: Vec<Vec<String>>,
    /// Folder of a static embedding model.
    pub model: Option<PathBuf>,
    /// Keeps queries without a result for thirty days.
    pub log: bool,
}

impl Default for SearchSettings {
    fn default() -> Self {
        Self { synonyms: vec![], model: None, log: true }
    }
}

/// Settings of the configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// File that was loaded, which need not exist if it is the default one.
    pub path: Option<PathBuf>,
    /// State scopes; unused by the embedded store.
    pub scopes: ScopeSettings,
    /// Timeout of section and prompt handlers, in milliseconds.
    pub state_timeout_ms: u64,
    /// Adds `_caller_worker_id` to payloads between workers, as an iii engine does.
    pub inject_caller_id: bool,
    /// Sections that surfaces other than the bus can read.
    pub sections: SectionAccess,
    /// Store of an attached worker.
    pub store: StoreChoice,
    /// Database that holds the registry, instead of the file of the data directory.
    pub database: Option<Database>,
    /// Time for which reads go on while the database cannot be reached; `None` for as long as it takes.
    pub max_stale: Option<Duration>,
    /// Name of this server for others on the same database; `None` for the name of the machine.
    pub server_name: Option<String>,
    /// HTTP address of an attached worker, if it serves HTTP.
    pub http: Option<String>,
    /// Token that HTTP requests must present.
    pub http_token: Option<String>,
    /// Host names to accept in HTTP requests.
    pub allow_host: Vec<String>,
    /// Web origins to accept in HTTP requests.
    pub allow_origin: Vec<String>,
    /// Address by which clients reach the HTTP port.
    pub public_url: Option<PublicUrl>,
    /// Host of `owner/repo`, instead of the default one.
    pub git_host: Option<String>,
    /// Serves the console where HTTP is served.
    pub console: bool,
    /// Optional name prefix tried when a skill or prompt is resolved.
    pub prefix: Prefix,
    /// Uses of a key per minute, by plan.
    pub limits: PlanLimits,
    /// Labels that only administrators may move over HTTP.
    pub protected_labels: Vec<Label>,
    /// Rules for the servers that tools call.
    pub execution: ExecutionSettings,
    /// Rule of the versions that `gc` keeps.
    pub retention: RetentionSettings,
    /// Settings of the search.
    pub search: SearchSettings,
    /// Places that a server imports skills from.
    pub sources: Vec<SourceSettings>,
    /// Settings of the Model Drive Protocol host.
    pub mdp: skills_mdp::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            path: None,
            scopes: ScopeSettings { skills: "skills".to_owned(), prompts: "prompts".to_owned() },
            state_timeout_ms: 10_000,
            inject_caller_id: true,
            sections: SectionAccess::default(),
            store: StoreChoice::Auto,
            database: None,
            max_stale: None,
            server_name: None,
            http: None,
            http_token: None,
            allow_host: vec![],
            allow_origin: vec![],
            public_url: None,
            git_host: None,
            console: true,
            prefix: Prefix::default(),
            limits: PlanLimits::default(),
            protected_labels: vec![],
            execution: ExecutionSettings::default(),
            retention: RetentionSettings::default(),
            search: SearchSettings::default(),
            sources: vec![],
            mdp: skills_mdp::Config::default(),
        }
    }
}

impl Config {
    /// Returns the settings of the registry.
    #[must_use]
    pub fn registry(&self) -> RegistryConfig {
        RegistryConfig {
            handler_timeout: self.handler_timeout(),
            prefix: self.prefix.clone(),
            sections: self.sections,
            search: self.search_config(),
            max_stale: self.max_stale,
            ..RegistryConfig::default()
        }
    }

    /// Returns the settings of the search.
    fn search_config(&self) -> SearchConfig {
        let synonyms = self.search.synonyms.clone();
        let model = self.search.model.clone().map(search_model::loader);
        SearchConfig { synonyms, model, misses: None }
    }

    /// Returns the timeout of section and prompt handlers.
    #[must_use]
    pub const fn handler_timeout(&self) -> Duration {
        Duration::from_millis(self.state_timeout_ms)
    }
}
