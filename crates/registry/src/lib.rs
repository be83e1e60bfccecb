//! The registry: the only door to skills and prompts.
//!
//! - [`Registry`]: reading, resolving and rendering (`reading`; `reading_live` for what is not stored), and
//!   `writing`; a [`View`] is it as one caller sees it
//! - [`catalog`]: the immutable snapshot all reads are answered from, in views of callers
//! - `writer`: the one thread that commits, swaps the catalog and announces
//! - [`feed`]: announcements in commit order, for any number of subscribers, in bounded memory
//! - `changed`: the same for surfaces, which only need to know that something is different
//! - [`available`]: which skills can be offered as Agent Skills
//! - [`bundles`]: reading whole bundles
//! - [`search`]: finding skills by words
//! - [`live`]: what live clients have, which is listed and read but not stored
//! - `execute`: calling tools; `arguments` checks what they are called with
//! - `functions`: which functions of workers are offered to agents
//! - `blobs`: bodies, through a bounded cache; [`Kept`] is any such cache
//! - [`state`]: the bus's key-value store, which shares the write path
//! - [`state_store`]: a store in the state of an iii engine
//! - [`api`]: the trait surfaces are written against; [`remote`] implements it over a bus
//!
//! It does not know any protocol. It knows functions only as something that can be called to get the
//! content of a section or the messages of a prompt.

pub mod api;
mod arguments;
pub mod available;
mod blobs;
pub mod bundles;
pub mod catalog;
mod changed;
mod error;
mod execute;
pub mod feed;
mod functions;
mod kept;
pub mod live;
mod local;
mod looked;
mod reading;
mod reading_live;
mod registry;
pub mod remote;
pub mod search;
pub mod state;
pub mod state_store;
mod writer;
mod writing;

pub use api::{Document, PromptInfo, RenderedPrompt, Resource, SkillInfo, Skills};
pub use catalog::{Catalog, Explanation, Place, PromptRow, SkillRow};
pub use changed::{Changed, Changes};
pub use error::{HandlerProblem, RegistryError};
pub use execute::{Blame, Execute, ExecuteError, ToolCall};
pub use feed::{ChangeFeed, Delivery, Subscription};
pub use functions::ExposedFunction;
pub use kept::Kept;
pub use local::View;
pub use registry::{Registry, RegistryConfig};
pub use remote::{Mirror, RemoteRegistry};
pub use state::BusState;
pub use state_store::StateStore;
pub use writing::Tool;
