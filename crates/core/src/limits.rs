//! Every size the registry enforces on content, in one place.

/// Longest skill id or prompt name, in bytes.
pub const MAX_ID_BYTES: usize = 64;
/// Longest uid of an owner, in bytes.
pub const MAX_OWNER_BYTES: usize = 128;
/// Largest body of a one-document skill, in bytes.
pub const MAX_SKILL_BYTES: usize = 256 * 1024;
/// Largest prompt definition (description, function id and arguments together), in bytes. A listing
/// carries definitions whole, so a few must not be able to make it too large for everyone.
pub const MAX_PROMPT_BYTES: usize = 16 * 1024;
/// Longest function id that may back a section or a prompt, in bytes.
pub const MAX_FUNCTION_ID_BYTES: usize = 512;
/// A title or description derived from a document is cut after this many characters.
pub const MAX_SUMMARY_CHARS: usize = 140;
/// Most files of a bundle, the root document among them. Every host of the skills extension of MCP has to
/// take as many.
pub const MAX_BUNDLE_FILES: usize = 512;
/// Most bytes of a bundle, all files together.
pub const MAX_BUNDLE_BYTES: usize = 16 << 20;
/// Longest path inside a bundle, in bytes.
pub const MAX_PATH_BYTES: usize = 512;
/// Most that is kept in memory of what a document says of itself as an Agent Skill, in bytes. What has more
/// is not offered as one.
pub const MAX_AGENT_SKILL_BYTES: usize = 8 * 1024;
/// Largest manifest of a tool, in bytes.
pub const MAX_MANIFEST_BYTES: usize = 1 << 20;
/// Most that is kept in memory of what a tool's manifest says, in bytes.
pub const MAX_TOOL_BYTES: usize = 128 * 1024;
/// Most secrets of one tool.
pub const MAX_SECRETS_OF_SKILL: usize = 256;
/// Longest key of the key space, in bytes: what key-value stores allow.
pub const MAX_KEY_BYTES: usize = 512;
/// Longest line of an import, in bytes: the largest value that key-value stores allow, with room for escapes.
pub const MAX_KEYSPACE_LINE_BYTES: usize = 32 << 20;
