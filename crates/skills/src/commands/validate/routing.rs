//! Routing of skills on disk: how a search would find them among each other.

use std::path::PathBuf;

use skills_agent_skills::skill_meta;
use skills_bundles::DocumentFile;
use skills_registry::search::{RoutingFinding, SearchDocument, SynonymTable, routing};

use super::validate_files::read;

/// Finding with the document that it is about.
pub(super) struct PlacedFinding {
    pub(super) path: PathBuf,
    pub(super) finding: RoutingFinding,
}

/// Returns the findings about documents that are read together. Unreadable ones are left out, and reported elsewhere.
pub(super) fn diagnose(documents: &[DocumentFile]) -> Vec<PlacedFinding> {
    let mut paths = Vec::new();
    let mut skills: Vec<SearchDocument> = Vec::new();
    for document in documents {
        let Ok(bytes) = read(&document.document) else { continue };
        let text = String::from_utf8_lossy(&bytes);
        let Ok(meta) = skill_meta(&text) else { continue };
        let name = meta.agent.as_ref().map(|agent| agent.name.clone());
        let id = document.directory.clone().or(name).unwrap_or_default();
        skills.push(SearchDocument::from_skill(id.as_str().into(), &meta, &text));
        paths.push((id, document.document.clone()));
    }
    let findings = routing::diagnose(&skills, &SynonymTable::with_groups([]));
    let placed = findings.into_iter().map(|finding| {
        let path = paths.iter().find(|(id, _)| *id == finding.id);
        PlacedFinding { path: path.map(|(_, path)| path.clone()).unwrap_or_default(), finding }
    });
    placed.collect()
}
