//! Stored shape of records: `{id, skill, registered_at}` and
//! `{name, description, arguments, function_id, registered_at}`, compatible with the original iii skills worker.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skills_core::{
    Digest, EntryKey, EntryKind, PromptArgument, PromptDefinition, PromptName, SkillId, Timestamp,
};
use skills_store::EntryContent;

/// Record of an entry, without its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) id: String,
    pub(crate) content: Arc<EntryContent>,
    pub(crate) registered_at: Timestamp,
}

/// Value of a record in the state.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum StoredValue<'a> {
    Skill(StoredSkill<'a>),
    Prompt(StoredPrompt),
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredSkill<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    skill: Cow<'a, str>,
    #[serde(default)]
    registered_at: String,
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredPrompt {
    name: String,
    description: String,
    #[serde(default)]
    arguments: Vec<PromptArgument>,
    function_id: String,
    #[serde(default)]
    registered_at: String,
}

/// Parts of a stored skill that determine its record.
///
/// Reading them costs far less than decoding the record, whose document is parsed.
#[derive(Debug)]
pub(crate) struct SkillIdentity {
    id: String,
    digest: Digest,
    registered_at: Timestamp,
}

impl SkillIdentity {
    /// Reads a stored value; `None` if it is not that of a skill.
    pub(crate) fn read(value: &str) -> Option<Self> {
        let stored: StoredSkill<'_> = serde_json::from_str(value).ok()?;
        Some(Self {
            id: stored.id.into_owned(),
            digest: Digest::of(stored.skill.as_bytes()),
            registered_at: parse_timestamp(&stored.registered_at),
        })
    }

    /// Returns whether a record is that of the value.
    pub(super) fn is_of(&self, record: &Record) -> bool {
        let Self { id, digest, registered_at } = self;
        matches!(&*record.content, EntryContent::Skill(_))
            && *id == record.id
            && *registered_at == record.registered_at
            && *digest == record.content.digest()
    }
}

impl Record {
    /// Creates a record. It has no provenance: the stored shape has no field for it, and a record must equal the decoded
    /// one for its own event to be recognised.
    pub(crate) fn new(key: &EntryKey, mut content: EntryContent, registered_at: Timestamp) -> Self {
        if let EntryContent::Skill(meta) = &mut content {
            meta.provenance = None;
        }
        Self { id: key.id.to_string(), content: Arc::new(content), registered_at }
    }

    /// Decodes a stored value. The key, if given, must be the record's own id.
    ///
    /// # Errors
    /// The reason why the value is not a valid record.
    pub(crate) fn decode(kind: EntryKind, key: Option<&str>, value: &str) -> Result<Self, String> {
        let (id, content, registered_at) = match kind {
            EntryKind::Skill => {
                let stored: StoredSkill<'_> = parse(value)?;
                stored.id.parse::<SkillId>().map_err(|error| error.to_string())?;
                let meta = skills_agent_skills::skill_meta(&stored.skill)
                    .map_err(|error| error.to_string())?;
                (stored.id.into_owned(), EntryContent::Skill(meta), stored.registered_at)
            }
            EntryKind::Prompt => {
                let StoredPrompt { name, description, arguments, function_id, registered_at } =
                    parse(value)?;
                name.parse::<PromptName>().map_err(|error| error.to_string())?;
                let definition = PromptDefinition { description, arguments, function_id };
                let checked = definition.validate().map_err(|error| error.to_string())?;
                (name, EntryContent::Prompt(checked), registered_at)
            }
            EntryKind::Collection => return Err("the state has no collections".to_owned()),
        };
        if key.is_some_and(|key| key != id) {
            return Err(format!("its id is {id:?}, not its key"));
        }
        let registered_at = parse_timestamp(&registered_at);
        Ok(Self { id, content: Arc::new(content), registered_at })
    }

    /// Returns the value to store.
    ///
    /// # Errors
    /// When the state cannot hold such an entry.
    pub(super) fn encode<'a>(&'a self, body: Option<&'a [u8]>) -> Result<StoredValue<'a>, &'a str> {
        let registered_at = self.registered_at.to_string();
        match &*self.content {
            EntryContent::Skill(_) => {
                let skill = String::from_utf8_lossy(body.unwrap_or_default());
                let id = Cow::Borrowed(&*self.id);
                Ok(StoredValue::Skill(StoredSkill { id, skill, registered_at }))
            }
            EntryContent::Prompt(prompt) => {
                let PromptDefinition { description, arguments, function_id } = prompt.clone();
                let name = self.id.clone();
                Ok(StoredValue::Prompt(StoredPrompt {
                    name,
                    description,
                    arguments,
                    function_id,
                    registered_at,
                }))
            }
            EntryContent::Collection(_) => Err("the state has no collections"),
            EntryContent::Corrupt { reason, .. } => Err(reason),
        }
    }
}

/// Extracts the body of a stored skill.
pub(super) fn extract_body(value: &str) -> Option<Bytes> {
    serde_json::from_str::<StoredSkill<'_>>(value)
        .ok()
        .map(|stored| stored.skill.into_owned().into())
}

/// Parses the timestamp of a record. One without a valid timestamp counts as the oldest, so that the next registration is
/// later.
fn parse_timestamp(text: &str) -> Timestamp {
    text.parse().unwrap_or(Timestamp::from_micros(0))
}

fn parse<'a, T: Deserialize<'a>>(value: &'a str) -> Result<T, String> {
    serde_json::from_str(value).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skills_core::{Provenance, SourceKind};

    use super::*;

    fn skill(value: &serde_json::Value) -> Result<Record, String> {
        Record::decode(EntryKind::Skill, Some("a"), &value.to_string())
    }

    #[test]
    fn records_of_the_original_worker_are_decoded() {
        let record = skill(&json!({
            "id": "a", "skill": "# A\n\nText", "registered_at": "2026-05-04T12:00:00.123456789+00:00",
            "extra": [1],
        }))
        .unwrap();
        assert_eq!(record.registered_at.to_string(), "2026-05-04T12:00:00.123456Z");
        let prompt = json!({"name": "p", "description": "d", "function_id": "a::b"});
        let record = Record::decode(EntryKind::Prompt, None, &prompt.to_string()).unwrap();
        assert_eq!(record.id, "p");
    }

    #[test]
    fn an_encoded_record_decodes_to_itself() {
        let body = Bytes::from_static("# A\r\n\u{1F600}\0".as_bytes());
        let mut meta =
            skills_agent_skills::skill_meta(std::str::from_utf8(&body).unwrap()).unwrap();
        meta.provenance = Some(Box::new(Provenance::new(SourceKind::Worker, "w")));
        let key = EntryKey {
            kind: EntryKind::Skill,
            layer: skills_core::Layer::Official,
            id: "a".into(),
        };
        let record = Record::new(&key, EntryContent::Skill(meta), Timestamp::from_micros(5));
        let value = serde_json::to_string(&record.encode(Some(&body)).ok()).unwrap();
        let identity = SkillIdentity::read(&value).unwrap();
        assert!(identity.is_of(&record));
        assert!(
            !identity.is_of(&Record { registered_at: Timestamp::from_micros(6), ..record.clone() })
        );
        assert!(!identity.is_of(&Record { id: "b".to_owned(), ..record.clone() }));
        let other = skill(
            &json!({"id": "a", "skill": "# B", "registered_at": "1970-01-01T00:00:00.000005Z"}),
        );
        assert!(!identity.is_of(&other.unwrap()));
        assert_eq!(Record::decode(EntryKind::Skill, Some("a"), &value), Ok(record));
        assert_eq!(extract_body(&value), Some(body));
        let fields: serde_json::Value = serde_json::from_str(&value).unwrap();
        let names: std::collections::BTreeSet<_> =
            fields.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, ["id", "registered_at", "skill"].into());
    }

    #[test]
    fn invalid_records_are_rejected_with_a_reason() {
        for (value, words) in [
            (json!("text"), "invalid type"),
            (json!(7), "invalid type"),
            (json!({"id": "a"}), "missing field"),
            (json!({"id": "a", "skill": ""}), "non-empty"),
            (json!({"id": "A", "skill": "x"}), "lowercase"),
            (json!({"id": "b", "skill": "x"}), "its id is \"b\""),
        ] {
            let reason = skill(&value).expect_err(words);
            assert!(reason.contains(words), "{reason}");
        }
    }
}
