//! Execution of the tools of one registry.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value};
use skills_core::{
    Caller, Owner, RequestId, SkillId, Tier, User, WorkAccount, WorkKind, work::StopFlag,
};
use skills_manifest::template::SecretRequirements;
use skills_registry::{Registry, RegistryError, SkillRegistry as _, SkillRow};
use skills_upstream::{Secret, UpstreamCall, UpstreamClient, UpstreamOrigin};
use skills_vault::{CalledSkill, MAX_SECRET_BYTES, VaultError, now};

use crate::{
    CallerLimiter, ExecuteError, Manifest, ManifestCache, ReadManifestError, UpstreamAllowance,
    arguments,
};

/// Reading the secrets of a call.
const SECRETS: WorkKind = WorkKind::io("reading the secrets of a call");

/// Call of a tool.
#[derive(Debug)]
pub struct ToolCall<'a> {
    /// The caller, whose view the name is resolved in and whose secrets are used.
    pub caller: &'a Caller,
    /// Name of the tool, resolved like every other name.
    pub name: &'a str,
    /// Arguments, checked against the tool's schema.
    pub arguments: Map<String, Value>,
    /// Id sent to the upstream; a random one if absent.
    pub request_id: Option<String>,
}

/// Executes the tools of one registry.
#[derive(Debug)]
pub struct Executor {
    registry: Arc<Registry>,
    limiter: CallerLimiter,
    manifests: ManifestCache,
    upstream: Arc<UpstreamClient>,
    /// Allowed origins by tier, besides those that every tool may call.
    allowed: [Vec<UpstreamOrigin>; 3],
    default_caller: Caller,
}

impl Executor {
    /// Creates the executor of a registry. Allowances without a tier belong to the settings of `upstream`.
    #[must_use]
    pub fn new(
        registry: Arc<Registry>,
        limiter: CallerLimiter,
        upstream: Arc<UpstreamClient>,
        allowances: &[UpstreamAllowance],
    ) -> Self {
        let allowed = Tier::ALL.map(|tier| {
            let of_tier = allowances.iter().filter(|allowance| allowance.tier == Some(tier));
            of_tier.map(|allowance| allowance.origin.clone()).collect()
        });
        let (manifests, default_caller) = Default::default();
        Self { registry, limiter, manifests, upstream, allowed, default_caller }
    }

    /// Sets the caller that calls of [`Caller::Anonymous`] are made for, such as the user of a local session.
    #[must_use]
    pub fn with_default_caller(self, default_caller: Caller) -> Self {
        Self { default_caller, ..self }
    }

    /// Returns the registry it serves.
    #[must_use]
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Returns the largest response of an upstream in bytes.
    #[must_use]
    pub fn max_response(&self) -> usize {
        self.upstream.max_response()
    }

    /// Returns the manifest of a skill; `None` if it has none.
    ///
    /// # Errors
    /// When the manifest cannot be read or parsed.
    pub async fn manifest(
        &self,
        row: &SkillRow,
    ) -> Result<Option<Arc<Manifest>>, ReadManifestError> {
        let Some(tool) = row.meta.tool.as_deref() else { return Ok(None) };
        self.manifests.get(&self.registry, row, tool).await.map(Some)
    }

    /// Calls a tool and returns its result.
    ///
    /// # Errors
    /// See [`ExecuteError`].
    pub async fn execute(&self, call: ToolCall<'_>) -> Result<Value, ExecuteError> {
        let ToolCall { caller, name, arguments, request_id } = call;
        let caller = if *caller == Caller::Anonymous { &self.default_caller } else { caller };
        let catalog = self.registry.view_for(caller).catalog().await?;
        let row = catalog.readable_skill(None, name)?;
        let manifest = self.manifest(row).await?;
        let manifest = manifest.ok_or_else(|| RegistryError::NotATool(row.id.to_string()))?;
        let arguments = arguments::check(&manifest, &row.id, arguments).await?;
        let secrets = self.secrets(caller, row, &manifest).await?;
        let request_id = request_id.unwrap_or_else(|| RequestId::current_or_next().to_string());
        let prepared = self.upstream.prepare(UpstreamCall {
            implementation: &manifest.spec.implementation,
            params: &arguments,
            secrets: &secrets,
            trace_id: &request_id,
            allowed: &self.allowed[row.tier.index()],
            owner: caller.owner().map_or("", Owner::as_str),
        })?;
        self.limiter.take(caller, now()).await?;
        Ok(self.upstream.send(prepared).await?)
    }

    /// Returns the secrets of a call: all required ones, and the optional ones that the caller has set.
    async fn secrets(
        &self,
        caller: &Caller,
        row: &SkillRow,
        manifest: &Manifest,
    ) -> Result<BTreeMap<String, Secret>, ExecuteError> {
        let SecretRequirements { required, optional } = &manifest.needs;
        let owner = match caller {
            Caller::User(User { owner, .. }) if !required.is_empty() || !optional.is_empty() => {
                owner.clone()
            }
            _ if required.is_empty() => return Ok(BTreeMap::new()),
            _ => return Err(ExecuteError::SecretsNeedKey { secrets: required.clone() }),
        };
        let id: SkillId = row.id.parse().map_err(RegistryError::from)?;
        let (vault, tier) = (Arc::clone(self.limiter.vault()), row.tier);
        let (mut names, optional) = (required.clone(), optional.clone());
        let bytes = (names.len() + optional.len()).saturating_mul(MAX_SECRET_BYTES);
        let origin = manifest.origin.clone();
        let read = move |_: &StopFlag| -> Result<_, VaultError> {
            let skill = CalledSkill { tier, id: &id, origin: origin.as_deref() };
            let missing = vault.missing_secrets(&owner, skill, &optional)?;
            let is_set = |name: &String| missing.iter().all(|secret| secret.name != *name);
            names.extend(optional.into_iter().filter(is_set));
            vault.secrets_for_call(&owner, skill, &names)
        };
        let secrets = WorkAccount::current().run(SECRETS, bytes, read).await;
        let secrets = secrets.map_err(RegistryError::from)??;
        Ok(secrets.into_iter().map(|(name, value)| (name, Secret::new(value.as_str()))).collect())
    }
}
