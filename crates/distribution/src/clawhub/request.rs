//! The caller's view of the registry, and the skill that a request names.

use std::sync::Arc;

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, request::Parts},
};
use skills_core::{Caller, EntryKind, MemoryBudget, RequestBudget, SkillId, Tier, VersionSelector};
use skills_registry::{
    HistoryRequest, RegistryError, SkillRegistry, SkillRow, available::to_agent_skill,
};

use super::{ClawHubState, error::ClawHubError, owner, skill_versions::SkillVersions};

/// Extractor of a request's caller, view and memory budget.
pub(super) struct ApiRequest {
    pub(super) state: Arc<ClawHubState>,
    pub(super) caller: Caller,
    /// Registry as the caller sees it.
    pub(super) skills: Arc<dyn SkillRegistry>,
    pub(super) headers: HeaderMap,
    budget: Option<RequestBudget>,
}

/// A served skill and its versions.
pub(super) struct FoundSkill {
    pub(super) row: Arc<SkillRow>,
    pub(super) versions: Arc<SkillVersions>,
}

impl FromRequestParts<Arc<ClawHubState>> for ApiRequest {
    type Rejection = ClawHubError;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &Arc<ClawHubState>,
    ) -> Result<Self, ClawHubError> {
        let caller = parts.extensions.get::<Caller>().cloned().unwrap_or_default();
        let skills = state.distribution.view(&caller)?;
        let (headers, budget) = (parts.headers.clone(), parts.extensions.get().cloned());
        Ok(Self { state: Arc::clone(state), caller, skills, headers, budget })
    }
}

impl ApiRequest {
    /// Returns the address of the server.
    pub(super) fn base_url(&self) -> String {
        self.state.distribution.base_url(&self.headers)
    }

    /// Returns the memory budget of the client.
    pub(super) fn share(&self) -> MemoryBudget {
        let budget = &self.state.distribution.settings.budget;
        self.budget.as_ref().map_or_else(|| budget.clone(), RequestBudget::share)
    }

    /// Counts a change against the rate limit of a user.
    pub(super) async fn count_change(&self) -> Result<(), ClawHubError> {
        let limiter = self.state.distribution.settings.limiter.as_ref();
        if let (Some(limiter), Caller::User(_)) = (limiter, &self.caller) {
            limiter.take(&self.caller, skills_core::Timestamp::now()).await?;
        }
        Ok(())
    }

    /// Returns the versions of a listed skill.
    pub(super) async fn versions(
        &self,
        row: &SkillRow,
    ) -> Result<Arc<SkillVersions>, ClawHubError> {
        Ok(self.state.versions.of_row(&*self.skills, self.caller.owner(), row).await?)
    }

    /// Returns the versions of a skill that may have been removed.
    pub(super) async fn all_versions(
        &self,
        tier: Tier,
        id: &Arc<str>,
    ) -> Result<Arc<SkillVersions>, ClawHubError> {
        let (skills, owner) = (&*self.skills, self.caller.owner());
        Ok(self.state.versions.up_to(skills, owner, tier, id, None).await?)
    }

    /// Returns the skill that a slug and a publisher's handle name.
    pub(super) async fn skill(
        &self,
        slug: &str,
        owner: Option<&str>,
    ) -> Result<FoundSkill, ClawHubError> {
        let tier = owner::tier_of(owner, &self.caller)?;
        let id: SkillId = slug.parse().map_err(|_| ClawHubError::SkillNotFound)?;
        let catalog = self.skills.catalog().await?;
        let row = match tier {
            Some(tier) => catalog.skill_in(tier, id.as_str()),
            None => catalog.stored(id.as_str()),
        };
        match row {
            Some(row) if to_agent_skill(row).is_ok() => {
                let versions = self.versions(row).await?;
                Ok(FoundSkill { row: Arc::clone(row), versions })
            }
            Some(_) => Err(ClawHubError::SkillNotFound),
            None if self.removed_tier(tier, &id).await?.is_some() => Err(ClawHubError::Withdrawn),
            None => Err(ClawHubError::SkillNotFound),
        }
    }

    /// Returns the tier of a skill that is no longer served but has versions.
    pub(super) async fn removed_tier(
        &self,
        tier: Option<Tier>,
        id: &SkillId,
    ) -> Result<Option<Tier>, ClawHubError> {
        for tier in tier.map_or_else(|| Tier::ALL.to_vec(), |tier| vec![tier]) {
            if tier == Tier::Private && self.caller.owner().is_none() {
                continue;
            }
            let request = HistoryRequest {
                id: id.to_string(),
                tier: Some(tier),
                limit: Some(1),
                after: None,
            };
            match self.skills.history(EntryKind::Skill, &request).await {
                Ok(page) if !page.data.is_empty() => return Ok(Some(tier)),
                Ok(_) | Err(RegistryError::NotFound { .. } | RegistryError::Unsupported(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Returns the row of a version that a client names by its semantic version or by a tag; the served one if it names
    /// none.
    pub(super) async fn version(
        &self,
        skill: &FoundSkill,
        version: Option<&str>,
        tag: Option<&str>,
    ) -> Result<Arc<SkillRow>, ClawHubError> {
        let FoundSkill { row, versions } = skill;
        let heads = row.heads.as_ref();
        let number = match (version, tag) {
            (Some(version), _) => versions.number(version),
            (None, None | Some("latest")) => return Ok(Arc::clone(row)),
            (None, Some(tag)) => heads.and_then(|heads| {
                heads.labels.iter().find(|(label, _)| label.as_str() == tag).map(|(_, it)| *it)
            }),
        };
        let number = number.ok_or(ClawHubError::VersionNotFound)?;
        if heads.is_none_or(|heads| heads.served == number) {
            return Ok(Arc::clone(row));
        }
        let selector = VersionSelector::Number(number);
        let row = self.skills.skill_version(Some(row.tier), &row.id, &selector).await?;
        match row.version().and_then(|version| version.yanked) {
            Some(reason) => Err(ClawHubError::VersionWithdrawn(reason)),
            None => Ok(row),
        }
    }
}
