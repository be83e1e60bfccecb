//! State of the routes, and the repository that a request is for.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use skills_core::{Caller, MemoryBudget, PublicUrl, SkillId, Tier};
use skills_registry::SkillRegistry;

use crate::{
    archive::ArchiveDigests,
    error::DistributionError,
    history::History,
    repositories::Repositories,
    view::{Selection, View},
};

/// Settings of the routes.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Process-wide memory budget for untrusted clients.
    pub budget: MemoryBudget,
    /// Address by which clients reach the server; without one, that of each request.
    pub public_url: Option<PublicUrl>,
    /// True if the listener asks for a credential, so that no response may be cached for others.
    pub is_private: bool,
}

pub(crate) struct DistributionState {
    pub(crate) skills: Arc<dyn SkillRegistry>,
    pub(crate) repositories: Arc<Repositories>,
    pub(crate) digests: ArchiveDigests,
    pub(crate) settings: Settings,
}

/// Repository of a request.
pub(crate) struct Repository {
    /// Registry as the owner of the repository sees it.
    pub(crate) skills: Arc<dyn SkillRegistry>,
    pub(crate) history: Arc<History>,
}

impl DistributionState {
    pub(crate) fn new(skills: Arc<dyn SkillRegistry>, settings: Settings) -> Self {
        let (repositories, digests) = (Arc::default(), ArchiveDigests::default());
        Self { skills, repositories, digests, settings }
    }

    /// Returns the repository at a path, such as `skill/pdf.git`.
    pub(crate) async fn repository(
        &self,
        path: &str,
        caller: &Caller,
    ) -> Result<Repository, DistributionError> {
        let name = path.strip_suffix(".git").ok_or(DistributionError::NotFound)?;
        let (selection, is_own) = match name {
            "all" => (Selection::All, false),
            "mine" => (Selection::All, true),
            "private" => (Selection::Tier(Tier::Private), true),
            name => match name.strip_prefix("skill/") {
                Some(id) => {
                    let id: SkillId = id.parse().map_err(|_| DistributionError::NotFound)?;
                    (Selection::Skill(id.to_shared()), false)
                }
                None => {
                    let tier = name.parse().map_err(|()| DistributionError::NotFound)?;
                    (Selection::Tier(tier), false)
                }
            },
        };
        if is_own && caller.owner().is_none() {
            return Err(DistributionError::KeyNeeded);
        }
        // Public repositories are the same for everyone.
        let is_public = !is_own && selection.skill().is_none();
        let owner = caller.owner().filter(|_| !is_public).cloned();
        let repository = self.open(View { owner, selection }, caller).await?;
        if repository.history.is_empty() && repository.history.view.selection.skill().is_some() {
            return Err(DistributionError::NotFound);
        }
        Ok(repository)
    }

    /// Opens the repository of a view. The caller has to be the owner of the view, if it has one.
    pub(crate) async fn open(
        &self,
        view: View,
        caller: &Caller,
    ) -> Result<Repository, DistributionError> {
        let skills = match view.owner {
            Some(_) => Arc::clone(&self.skills).view(caller)?,
            None => Arc::clone(&self.skills),
        };
        let history = self.repositories.history(&skills, view).await?;
        Ok(Repository { skills, history })
    }

    /// Returns the address of the server: as configured, or else as the request names it, which the access guard has
    /// checked.
    pub(crate) fn base_url(&self, headers: &HeaderMap) -> String {
        match &self.settings.public_url {
            Some(url) => url.to_string(),
            None => {
                let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
                format!("http://{}", host.unwrap_or("localhost"))
            }
        }
    }
}
