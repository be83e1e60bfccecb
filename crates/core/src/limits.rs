//! Every size the registry enforces on content, in one place.

/// Longest skill id or prompt name, in bytes.
pub const MAX_ID_BYTES: usize = 64;
/// Longest label of a version, in bytes.
pub const MAX_LABEL_BYTES: usize = 32;
/// Most labels of an entry. Listings and the catalog carry all of them.
pub const MAX_LABELS: usize = 32;
/// Longest version of an author that an address can name, in bytes.
pub const MAX_SELECTOR_BYTES: usize = 64;
/// Fewest digits of a content digest in an address.
pub const MIN_DIGEST_DIGITS: usize = 12;
/// Longest message of a version or reason of a yank, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 1024;
/// Longest uid of an owner, in bytes.
pub const MAX_OWNER_BYTES: usize = 128;
/// Largest body of a one-document skill, in bytes.
pub const MAX_SKILL_BYTES: usize = 256 * 1024;
/// Largest prompt definition (description, function id and arguments together), in bytes. A listing
/// carries definitions whole, so a few must not be able to make it too large for everyone.
pub const MAX_PROMPT_BYTES: usize = 16 * 1024;
/// Most skills of a collection.
pub const MAX_COLLECTION_SKILLS: usize = 500;
/// Largest collection (title, description and addresses together), in bytes.
pub const MAX_COLLECTION_BYTES: usize = 64 << 10;
/// Longest function id that may back a section or a prompt, in bytes.
pub const MAX_FUNCTION_ID_BYTES: usize = 512;
/// Characters after which a title, and a description in the iii contract and the Markdown index, are truncated.
pub const MAX_SUMMARY_CHARS: usize = 140;
/// Longest description of an Agent Skill, in characters. Longer ones are truncated in listings.
pub const MAX_DESCRIPTION_CHARS: usize = 1024;
/// Most files of a bundle, the root document among them.
pub const MAX_BUNDLE_FILES: usize = 2000;
/// Most bytes of a bundle, all files together. In base64 it fits in a message of the bus.
pub const MAX_BUNDLE_BYTES: usize = 32 << 20;
/// Longest path inside a bundle, in bytes.
pub const MAX_PATH_BYTES: usize = 512;
/// Longest name of a file or folder inside a bundle, in bytes: what common file systems hold.
pub const MAX_NAME_BYTES: usize = 255;
/// Most memory of a document's Agent Skill fields, in bytes. A skill with more is not offered as one.
pub const MAX_AGENT_SKILL_BYTES: usize = 8 * 1024;
/// Most bytes of the texts of a provenance.
pub const MAX_PROVENANCE_BYTES: usize = 8 * 1024;
/// Largest manifest of a tool, in bytes.
pub const MAX_MANIFEST_BYTES: usize = 1 << 20;
/// Most memory of a tool's manifest metadata, in bytes.
pub const MAX_TOOL_BYTES: usize = 128 * 1024;
/// Most secrets of one tool.
pub const MAX_SECRETS_OF_SKILL: usize = 256;
/// Longest lifetime of a user key that expires, in seconds: a hundred years of 365 days.
pub const MAX_KEY_SECONDS: u64 = 100 * 365 * 24 * 60 * 60;
/// Longest key of the key space, in bytes: what key-value stores allow.
pub const MAX_KEY_BYTES: usize = 512;
/// Longest line of an import, in bytes: the largest value that key-value stores allow, with room for escapes.
pub const MAX_KEYSPACE_LINE_BYTES: usize = 32 << 20;

/// Limit in bytes, displayed in the largest unit that divides it: `256 KiB (262144 bytes)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteLimit(pub usize);

impl std::fmt::Display for ByteLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(bytes) = *self;
        match bytes {
            0 => write!(f, "0 bytes"),
            _ if bytes % (1 << 20) == 0 => write!(f, "{} MiB ({bytes} bytes)", bytes >> 20),
            _ if bytes % (1 << 10) == 0 => write!(f, "{} KiB ({bytes} bytes)", bytes >> 10),
            _ => write!(f, "{bytes} bytes"),
        }
    }
}
