//! Markdown listings: the index `iii://skills`, and the root document of a live client.

use std::sync::Arc;

use skills_core::{id::INDEX_ID, skill::SKILL_LEAVES};

use super::{Catalog, SkillRow};

/// Title of the index in listings.
pub const INDEX_TITLE: &str = "Skills index";
/// Description of the index in listings.
pub const INDEX_DESCRIPTION: &str = "Every registered skill, one line each, with a link to it.";
/// Name of the index in listings.
pub const INDEX_NAME: &str = INDEX_ID;

impl Catalog {
    /// Returns the Markdown index. It is rendered once for each view.
    pub fn index(&self) -> Arc<str> {
        Arc::clone(self.index.get_or_init(|| render(&self.skills()).into()))
    }

    /// Returns the file name of a live client's root skill.
    ///
    /// # Errors
    /// The list of the client's skills in Markdown, if there is no root skill.
    pub fn client_root(&self, client: &str) -> Result<&'static str, String> {
        let live = &self.data.live;
        let is_root = |leaf: &&str| live.skills.get(&format!("{client}/{leaf}")).is_some();
        SKILL_LEAVES.into_iter().find(is_root).ok_or_else(|| {
            let lines: String = live.skills_of(client).map(|row| row.index_line()).collect();
            match lines.as_str() {
                "" => format!("# {client}\n\nThis client has no skills that can be listed.\n"),
                lines => format!("# {client}\n\n{lines}"),
            }
        })
    }
}

fn render(skills: &[&Arc<SkillRow>]) -> String {
    let mut text = String::from("# Skills\n\n");
    if skills.is_empty() {
        text.push_str("No skills are registered yet.\n");
    }
    text.extend(skills.iter().filter(|skill| !skill.is_live()).map(|skill| skill.index_line()));
    // Ids of live skills begin with that of the client, so the skills of a client follow each other.
    let mut last = None;
    for skill in skills {
        let Some((client, _)) = skill.origin() else { continue };
        if last.replace(client) != Some(client) {
            let gap = if text.ends_with("\n\n") { "" } else { "\n" };
            text.push_str(&format!("{gap}## {client} (live)\n\n"));
        }
        text.push_str(skill.index_line());
    }
    text
}
