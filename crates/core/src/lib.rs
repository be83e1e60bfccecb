//! The rules of the registry and the types that carry them.
//!
//! - [`id`]: skill ids and prompt names
//! - [`layer`]: tiers, owners and the keys of entries
//! - [`caller`]: who asks
//! - [`resolve`]: which layers a caller looks in, and under which names
//! - [`keyspace`]: the logical keys that are imported and exported
//! - [`uri`]: the three shapes of an `iii://` URI
//! - [`bundle`]: skills of several files
//! - [`tool`]: what is kept of a manifest
//! - [`skill`], [`prompt`]: what an entry holds, and what makes one acceptable
//! - [`markdown`]: title, description and frontmatter of a document
//! - [`frontmatter`]: its fields, and the names of Agent Skills
//! - [`agent_skill`]: what an Agent Skill says about itself, typed
//! - [`validate`]: what the specification of Agent Skills thinks of a bundle
//! - [`function`]: which functions may back a section or a prompt
//! - [`output`]: how the output of such a function becomes content or messages
//! - [`manifest`]: tools, as their authors describe them in two formats
//! - [`schema`]: whether arguments fit what a tool says of them
//! - [`token`]: secrets that are compared
//! - [`digest`], [`etag`], [`time`]: content addresses, the tags made of them, and timestamps
//! - [`template`]: text with placeholders, and the secrets that a manifest needs
//!
//! Everything here is a pure function of its input: no I/O, no clock, no protocol.

pub mod agent_skill;
pub mod bundle;
pub mod caller;
pub mod digest;
mod error;
pub mod etag;
pub mod frontmatter;
pub mod function;
pub mod id;
pub mod keyspace;
pub mod layer;
pub mod limits;
pub mod manifest;
pub mod markdown;
pub mod output;
mod pointer;
pub mod prompt;
pub mod resolve;
pub mod schema;
pub mod skill;
pub mod template;
pub mod time;
pub mod token;
pub mod tool;
pub mod uri;
pub mod validate;

pub use agent_skill::AgentSkill;
pub use bundle::{Bundle, BundlePath};
pub use caller::{Caller, Identify, Identity, User};
pub use digest::Digest;
pub use error::{Field, RuleError};
pub use function::HandlerId;
pub use id::{PromptName, SkillId};
pub use layer::{EntryKey, Kind, Layer, Owner, Tier};
pub use output::{Content, OutputError, PromptMessages};
pub use prompt::{PromptArgument, PromptDefinition};
pub use skill::{FileMeta, SkillMeta};
pub use time::Timestamp;
pub use token::Token;
pub use tool::ToolMeta;
pub use uri::ResourceUri;
