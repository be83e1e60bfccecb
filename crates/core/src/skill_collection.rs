//! Collections: named lists of skills with a title and a description.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::{
    Digest, Field, RuleError, SkillId,
    limits::{MAX_COLLECTION_BYTES, MAX_COLLECTION_SKILLS},
    version::split_version,
};

/// A named list of skills, without its name. Names follow the rule of skill ids.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillCollection {
    /// Title for people.
    pub title: String,
    /// What the collection is for.
    #[serde(default)]
    pub description: String,
    /// Addresses of the skills, `id` or `id@label`, in the order of the author.
    #[serde(default)]
    pub skills: Vec<String>,
}

impl SkillCollection {
    /// Checks every rule.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn validate(self) -> Result<Self, RuleError> {
        if self.title.trim().is_empty() {
            return Err(RuleError::Empty(Field::Title));
        }
        let len = self.bytes();
        if len > MAX_COLLECTION_BYTES {
            let max = MAX_COLLECTION_BYTES;
            return Err(RuleError::TooLarge { field: Field::Collection, len, max });
        }
        if self.skills.len() > MAX_COLLECTION_SKILLS {
            let (skills, max) = (self.skills.len(), MAX_COLLECTION_SKILLS);
            return Err(RuleError::TooManySkills { skills, max });
        }
        let mut seen = HashSet::new();
        for address in &self.skills {
            let (id, _) = split_version(address)?;
            let id: SkillId = id.parse()?;
            if !seen.insert(id) {
                return Err(RuleError::DuplicateSkill(address.clone()));
            }
        }
        Ok(self)
    }

    /// Returns the digest that identifies this version.
    #[must_use]
    pub fn digest(&self) -> Digest {
        // A struct of strings always serialises; the fallback only keeps the function total.
        Digest::of(&serde_json::to_vec(self).unwrap_or_default())
    }

    /// Returns the bytes of all texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let skills = self.skills.iter().map(String::len).sum::<usize>();
        self.title.len() + self.description.len() + skills
    }

    /// Adds a skill, or replaces the address of one that is there. Returns whether anything changed.
    ///
    /// # Errors
    /// When the address is not `id` or `id@version`.
    pub fn add(&mut self, address: &str) -> Result<bool, RuleError> {
        let (id, _) = split_version(address)?;
        let id: SkillId = id.parse()?;
        match self.skills.iter_mut().find(|known| id_of(known) == id.as_str()) {
            Some(known) if known == address => Ok(false),
            Some(known) => {
                address.clone_into(known);
                Ok(true)
            }
            None => {
                self.skills.push(address.to_owned());
                Ok(true)
            }
        }
    }

    /// Removes a skill by its id. Returns whether it was there.
    pub fn remove(&mut self, id: &str) -> bool {
        let before = self.skills.len();
        let id = id_of(id).to_owned();
        self.skills.retain(|known| id_of(known) != id);
        self.skills.len() != before
    }
}

/// Returns the id of an address.
fn id_of(address: &str) -> &str {
    address.split_once('@').map_or(address, |(id, _)| id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collection(skills: &[&str]) -> SkillCollection {
        let skills = skills.iter().map(|&skill| skill.to_owned()).collect();
        SkillCollection { title: "Office".to_owned(), description: String::new(), skills }
    }

    #[test]
    fn a_collection_has_a_title_and_each_skill_once() {
        assert!(collection(&["pdf", "xlsx@stable", "docx@3"]).validate().is_ok());
        for (broken, words) in [
            (
                SkillCollection { title: " ".to_owned(), ..collection(&[]) },
                "title must be non-empty",
            ),
            (collection(&["pdf", "pdf@stable"]), "twice"),
            (collection(&["../x"]), "id must be"),
            (collection(&["pdf@"]), "version must be"),
            (
                SkillCollection {
                    description: "x".repeat(MAX_COLLECTION_BYTES),
                    ..collection(&[])
                },
                "collection too large",
            ),
        ] {
            let error = broken.validate().expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        }
        let ids: Vec<String> = (0..=MAX_COLLECTION_SKILLS).map(|it| format!("s{it}")).collect();
        let many = SkillCollection { skills: ids, ..collection(&[]) };
        assert!(many.validate().expect_err("too many").to_string().contains("at most"));
    }

    #[test]
    fn skills_are_added_once_and_removed_by_id() {
        let mut office = collection(&["pdf"]);
        assert_eq!(office.add("xlsx"), Ok(true));
        assert_eq!(office.add("pdf"), Ok(false));
        assert_eq!(office.add("pdf@stable"), Ok(true));
        assert_eq!(office.skills, ["pdf@stable", "xlsx"]);
        assert!(office.add("../x").is_err());
        assert!(office.remove("pdf") && !office.remove("pdf"));
        assert_eq!(office.skills, ["xlsx"]);
    }
}
