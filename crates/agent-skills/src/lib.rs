//! Agent Skills as documents: frontmatter, Markdown, bundles and the rules of the specification.
//!
//! - [`markdown`]: title, description and frontmatter of a document
//! - [`frontmatter`]: its YAML fields, and the names of Agent Skills
//! - [`agent_skill`]: reading an [`AgentSkill`](skills_core::AgentSkill), and writing one as a document
//! - [`skill_meta`](skill_meta()): metadata of a skill, derived from its root document
//! - [`bundle`]: skills of several files
//! - [`validate`]: findings of the Agent Skills specification about a bundle
//!
//! Everything here is a pure function of its input: no I/O, no clock, no protocol.

pub mod agent_skill;
pub mod bundle;
pub mod frontmatter;
pub mod markdown;
mod skill_meta;
pub mod validate;

pub use agent_skill::{AgentDocument, AgentSkillError, agent_skill_from_fields, read_agent_skill};
pub use bundle::Bundle;
pub use skill_meta::skill_meta;
