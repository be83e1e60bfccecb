//! The registry of skills and prompts: catalog, writes, change feed, reads.
//!
//! - [`Registry`]: reads (`reading`, `reading_live`) and writes (`writing`); [`RegistryView`] is one caller's view of it
//! - [`api`]: the trait that surfaces are written against; `skills-remote` implements it over a bus
//! - [`catalog`]: the immutable snapshot that answers all reads of metadata
//! - `writer`: the thread that commits; `concurrent_writes` on a store behind a network; `publisher`: the catalog and
//!   feeds that it publishes; `recovery` after a panic; `follower`: changes of other servers on a shared store
//! - [`feed`]: change notifications in commit order, in bounded memory; `change_events`: their form for surfaces
//! - [`live`]: entries of live clients, which are listed and read but not stored
//! - [`versions`], [`log_info`], `purge_report`: requests and responses about versions; `version_lookup`, `history`, `version_writing`, `collection`: what
//!   they do; [`skill_log`]: the log for surfaces that derive a history from it; [`diff`]: the difference of two versions
//! - [`available`]: skills as Agent Skills; [`bundles`]: whole bundles; [`search`]: search over names, descriptions and texts
//! - `presence`: functions of workers of other servers on the same store
//! - `workers`: connected workers; [`functions`]: functions that they expose to agents; `sections`: access to functions by URI
//! - `blob_cache`, `negative_cache`, [`SizedLruCache`]: caches
//! - [`state`]: the key-value store of the bus, which shares the write path
//!
//! It knows no protocol. A function is only something to call for the content of a section or a prompt.

pub mod api;
pub mod available;
mod blob_cache;
pub mod bundles;
pub mod catalog;
mod change_events;
mod collection;
mod concurrent_writes;
pub mod diff;
mod error;
pub mod feed;
mod follower;
pub mod functions;
mod history;
mod legacy_summary;
pub mod live;
pub mod log_info;
mod lost_commits;
mod negative_cache;
mod pending_write;
mod presence;
mod publisher;
mod purge_report;
mod reading;
mod reading_live;
mod recovery;
mod registry;
pub mod rejected_rows;
mod request_inbox;
pub mod search;
mod sections;
mod sized_lru_cache;
mod skill_collections;
pub mod skill_log;
mod skill_lookup;
pub mod state;
mod store_contact;
mod version_cache;
mod version_lookup;
mod version_writing;
pub mod versions;
mod view;
mod workers;
mod writer;
mod writing;

pub use api::{
    Document, PromptInfo, ReadVersion, RenderedPrompt, Resource, SkillInfo, SkillRegistry,
    VersionImport, publish_one,
};
pub use catalog::{Catalog, CollectionRow, ExplainedLayer, Explanation, PromptRow, SkillRow};
pub use change_events::{
    ChangeEvent, ChangeEvents, NOTIFY_DEBOUNCE, OwnedChangeEvent, OwnedChangeEvents,
};
pub use error::{HandlerProblem, RegistryError};
pub use feed::{ChangeFeed, FeedItem, FeedSubscription};
pub use functions::ExposedFunction;
pub use log_info::{LogInfo, LogPage, LogRequest};
pub use pending_write::PendingWrite;
pub use purge_report::{FileHolder, PurgeReport};
pub use recovery::WriterHealth;
pub use registry::{Registry, RegistryConfig};
pub use rejected_rows::{RejectedRow, RejectedRows};
pub use sections::SectionAccess;
pub use sized_lru_cache::SizedLruCache;
pub use skill_collections::CollectionInfo;
pub use skill_log::{ServedSkill, SkillChange, SkillLogPage, SkillLogRequest};
/// Types of the store that surfaces see: they do not depend on the store itself.
pub use skills_store::{Action, Change, Refusal, Retention, StateChange, StateEntry, VersionHeads};
pub use state::BusState;
pub use store_contact::StoreHealth;
pub use versions::{
    BundlePublication, CollectRequest, Collected, DiffRequest, HistoryPage, HistoryRequest,
    LabelRequest, PublishRequest, Published, RollbackRequest, VersionInfo, VersionState,
    YankRequest, diff_from,
};
pub use view::RegistryView;
pub use workers::ConnectedWorker;
pub use writing::{ManifestSkill, Tool};
