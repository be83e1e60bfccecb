//! State of the routes, and the repository that a request is for.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use skills_core::{
    Caller, Label, MemoryBudget, Owner, PublicUrl, SkillCollection, SkillId, Tier, text::one_line,
    version::split_version,
};
use skills_execution::CallerLimiter;
use skills_registry::{CollectionInfo, RegistryError, SkillRegistry};

use crate::{
    archive::ArchiveDigests,
    error::DistributionError,
    history::History,
    listing::Listings,
    marketplace::Marketplaces,
    repositories::Repositories,
    timeline::Timelines,
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
    /// Rate limits of keys; `None` for no limits.
    pub limiter: Option<CallerLimiter>,
    /// Labels that only administrators move.
    pub protected_labels: Arc<[Label]>,
}

pub(crate) struct DistributionState {
    pub(crate) skills: Arc<dyn SkillRegistry>,
    pub(crate) repositories: Arc<Repositories>,
    pub(crate) digests: ArchiveDigests,
    pub(crate) timelines: Timelines,
    pub(crate) listings: Listings,
    pub(crate) marketplaces: Marketplaces,
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
        Self {
            skills,
            repositories: Arc::default(),
            digests: ArchiveDigests::default(),
            timelines: Timelines::default(),
            listings: Listings::default(),
            marketplaces: Marketplaces::default(),
            settings,
        }
    }

    /// Returns the registry as a caller sees it.
    pub(crate) fn view(&self, caller: &Caller) -> Result<Arc<dyn SkillRegistry>, RegistryError> {
        match caller {
            Caller::Anonymous => Ok(Arc::clone(&self.skills)),
            caller => Arc::clone(&self.skills).view(caller),
        }
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
            name => match name.split_once('/') {
                Some(("skill", id)) => {
                    let id: SkillId = id.parse().map_err(|_| DistributionError::NotFound)?;
                    (Selection::Skill(id.to_shared()), false)
                }
                Some(("collection", name)) => (self.collection(name, caller).await?, false),
                _ => {
                    let tier = name.parse().map_err(|()| DistributionError::NotFound)?;
                    (Selection::Tier(tier), false)
                }
            },
        };
        if is_own && caller.owner().is_none() {
            return Err(DistributionError::KeyNeeded);
        }
        // Public repositories are the same for everyone.
        let is_public = !is_own && selection.is_public();
        let owner = caller.owner().filter(|_| !is_public).cloned();
        let repository = self.open(View { owner, selection }, caller).await?;
        if repository.history.is_empty() && repository.history.view.selection.skill().is_some() {
            return Err(DistributionError::NotFound);
        }
        Ok(repository)
    }

    /// Returns the skills of a collection that a caller sees.
    async fn collection(
        &self,
        name: &str,
        caller: &Caller,
    ) -> Result<Selection, DistributionError> {
        let catalog = self.view(caller)?.catalog().await?;
        match catalog.collection_info(name) {
            Ok(info) => Ok(self.collection_selection(info)),
            // Git sends a key only after it was asked for one.
            Err(RegistryError::NotFound { .. }) if *caller == Caller::Anonymous => {
                Err(DistributionError::KeyNeeded)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the selection of a collection.
    pub(crate) fn collection_selection(&self, info: CollectionInfo) -> Selection {
        let CollectionInfo { name, collection, .. } = info;
        let SkillCollection { title, description, skills } = collection;
        let skills = skills.iter().filter_map(|address| {
            let (id, version) = split_version(address).ok()?;
            Some((Arc::from(&*id), version))
        });
        let description = if description.trim().is_empty() { title } else { description };
        Selection::List {
            name: name.into(),
            description: one_line(&description).into(),
            mcp_url: self.mcp_url().map(Into::into),
            skills: skills.collect(),
        }
    }

    /// Returns the address of the MCP endpoint, if plugins may name it: they take https, or an address of their own
    /// machine.
    fn mcp_url(&self) -> Option<String> {
        let url = self.settings.public_url.as_ref()?;
        let host = url.as_str().strip_prefix("http://").unwrap_or_default();
        let is_local = ["127.0.0.1", "localhost", "[::1]"].iter().any(|local| {
            host.strip_prefix(local)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/']))
        });
        (url.is_https() || is_local).then(|| format!("{url}/mcp"))
    }

    /// Returns the registry as the owner of a view sees it, who has to be the caller.
    pub(crate) fn registry_of(
        &self,
        owner: Option<&Owner>,
        caller: &Caller,
    ) -> Result<Arc<dyn SkillRegistry>, RegistryError> {
        match owner {
            Some(_) => Arc::clone(&self.skills).view(caller),
            None => Ok(Arc::clone(&self.skills)),
        }
    }

    /// Opens the repository of a view. The caller has to be the owner of the view, if it has one.
    pub(crate) async fn open(
        &self,
        view: View,
        caller: &Caller,
    ) -> Result<Repository, DistributionError> {
        let skills = self.registry_of(view.owner.as_ref(), caller)?;
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
