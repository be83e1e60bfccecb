//! Input and output of `skills::register-many`.

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error as _, SeqAccess, Visitor},
};
use serde_json::Value;
use skills_core::Provenance;

use super::{FileContent, PublishedVersion, TierInput};

/// Most skills of one call. A message could have millions of empty ones, which take more memory than their text.
pub const MAX_SKILLS: usize = 20_000;

/// Input of `skills::register-many`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RegisterManyInput {
    /// Skills, at most 20 000.
    #[serde(deserialize_with = "at_most")]
    pub skills: Vec<SkillToRegister>,
    /// Tier to write to, by default official. The private tier is that of the key's user.
    #[serde(default)]
    pub tier: Option<TierInput>,
    /// Key of the calling user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

/// Skill of `skills::register-many`, with the fields of `skills::register`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SkillToRegister {
    /// Skill id.
    pub id: String,
    /// Markdown body.
    pub skill: String,
    /// Additional files by path: text, or an object with the bytes in base64.
    #[serde(default)]
    pub files: BTreeMap<String, FileContent>,
    /// Paths of the executable files.
    #[serde(default)]
    pub executable: Option<Vec<String>>,
    /// Place that the content came from.
    #[serde(default)]
    #[schemars(with = "Option<Value>")]
    pub source: Option<Box<Provenance>>,
    /// Message of the version.
    #[serde(default)]
    pub message: Option<String>,
    /// Number that the newest version must have; 0 if the entry must not exist.
    #[serde(default)]
    pub expected_version: Option<u64>,
    /// Label that is moved to the version.
    #[serde(default)]
    pub label: Option<String>,
}

/// Output of `skills::register-many`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RegisterManyOutput {
    /// Results in the order of the skills.
    #[schemars(with = "Vec<Value>")]
    pub results: Vec<ManyResult>,
}

/// Result of one skill.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum ManyResult {
    /// The skill is stored.
    Registered {
        /// Skill id.
        id: String,
        /// Version.
        #[serde(flatten)]
        version: PublishedVersion,
        /// Time in RFC 3339.
        registered_at: String,
    },
    /// The skill is not stored.
    Refused {
        /// Skill id.
        id: String,
        /// Error code.
        code: String,
        /// Error message.
        message: String,
        /// `{"outcome": "unknown"}` if it may be stored all the same.
        #[serde(skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
    },
}

/// Reads a list of skills, and refuses it as soon as it is too long.
fn at_most<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SkillToRegister>, D::Error> {
    struct Skills;
    impl<'de> Visitor<'de> for Skills {
        type Value = Vec<SkillToRegister>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of skills")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut skills = Vec::new();
            while let Some(skill) = list.next_element()? {
                if skills.len() == MAX_SKILLS {
                    return Err(A::Error::custom(format!("more than {MAX_SKILLS} skills")));
                }
                skills.push(skill);
            }
            Ok(skills)
        }
    }
    deserializer.deserialize_seq(Skills)
}
