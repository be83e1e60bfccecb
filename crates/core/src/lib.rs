//! Domain types and rules of the registry.
//!
//! | module | contents |
//! |---|---|
//! | [`id`], [`layer`] | skill ids, prompt names, tiers, owners, layers, keys of entries |
//! | [`caller`], [`token`] | callers, the key directory, constant-time comparison |
//! | [`code`] | stable error codes |
//! | [`resolve`] | the rule of resolution |
//! | [`uri`], [`bundle_path`], [`origin`], [`git_location`] | URIs, paths inside bundles, web origins, repositories |
//! | [`version`] | version numbers, labels, addresses `id@version` |
//! | [`skill`], [`agent_skill`], [`tool`], [`prompt`], [`skill_collection`] | metadata of entries as plain data |
//! | [`summary`] | texts of listings |
//! | [`handler_id`], [`output`] | functions behind sections and prompts, normalisation of their output |
//! | [`keyspace`] | keys and lines of import and export |
//! | [`content`], [`etag`] | HTTP policy for content, entity tags |
//! | [`budget`], [`json_size`], [`limits`], [`log_limiter`] | memory budget, size estimates, limits, log rate limiter |
//! | [`work`], [`OwnedTable`] | accounts of callers: threads, time and memory of work; tables of what callers hold |
//! | [`StoreOutage`] | age of what is in memory while a shared store cannot be reached |
//! | [`text`] | truncation of texts |
//! | [`debounce`] | one event for events close to each other |
//! | [`request_trace`] | request ids, request spans, access lines |
//! | [`request_stats`] | counters of requests by surface and minute |
//! | [`digest`], [`timestamp`] | content addresses, timestamps and the clock |
//!
//! No I/O, no protocol, no YAML, Markdown or JSON Schema. Only [`Timestamp::now`], [`debounce`],
//! [`request_trace`], [`request_stats`], [`work`] and the timer of [`OwnedTable`] are impure.

pub mod agent_skill;
pub mod budget;
pub mod bundle_path;
pub mod caller;
pub mod code;
pub mod content;
pub mod debounce;
pub mod digest;
mod error;
pub mod etag;
pub mod git_location;
pub mod handler_id;
pub mod id;
pub mod json_size;
pub mod keyspace;
pub mod layer;
pub mod limits;
pub mod log_limiter;
pub mod origin;
pub mod output;
mod owned_table;
pub mod prompt;
pub mod provenance;
pub mod public_url;
pub mod request_stats;
pub mod request_trace;
pub mod resolve;
pub mod skill;
pub mod skill_collection;
mod store_outage;
pub mod text;
pub mod timestamp;
pub mod token;
pub mod tool;
pub mod uri;
pub mod version;
mod version_error;
pub mod work;

pub use agent_skill::AgentSkill;
pub use budget::{MemoryBudget, OverBudget, RequestBudget, Reservation, SharedReservation};
pub use bundle_path::BundlePath;
pub use caller::{Caller, KeyDirectory, KeyEnd, KeyLookup, User};
pub use code::{Code, Coded, UNKNOWN_OUTCOME, outcome_details};
pub use debounce::Debounce;
pub use digest::Digest;
pub use error::{Field, RuleError};
pub use git_location::GitProtocol;
pub use handler_id::HandlerId;
pub use id::{PromptName, SkillId};
pub use layer::{EntryKey, EntryKind, Layer, Owner, Tier};
pub use log_limiter::LogLimiter;
pub use output::{OutputError, PromptMessages, SectionContent};
pub use owned_table::{OwnedTable, TableFull, TableLimits};
pub use prompt::{PromptArgument, PromptDefinition};
pub use provenance::{Provenance, SourceKind};
pub use public_url::{PublicUrl, PublicUrlError};
pub use request_stats::{RequestStats, SurfaceCounter, SurfaceStats};
pub use request_trace::{CallerKind, RequestId, TracedRequest};
pub use skill::{FileMeta, SkillMeta};
pub use skill_collection::SkillCollection;
pub use store_outage::{RefusedWrite, StoreOutage, WriteRefusal};
pub use timestamp::Timestamp;
pub use token::Token;
pub use tool::ToolMeta;
pub use uri::ResourceUri;
pub use version::{DigestPrefix, Label, VersionSelector};
pub use version_error::{AvailableVersions, VersionError};
pub use work::{RunningWork, WorkAccount, WorkAccounts, WorkError, WorkKind};
