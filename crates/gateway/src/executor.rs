//! Calling tools: the manifest, the caller's secrets, the limit, and then the guarded client.
//!
//! What is refused before anything is sent does not count as a use of the key; looking up a name is sending.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use async_trait::async_trait;
use serde_json::Value;
use skills_core::{Caller, Digest, Tier, Timestamp, User, template::SecretNeeds};
use skills_registry::{Blame, Execute, ExecuteError, ToolCall};
use skills_upstream::{Call, ExecuteError as UpstreamError, Origin, Secret, Upstream};
use skills_vault::{AccountTier, CalledSkill, Decision, RateLimits, Vault, VaultError, now};
use uuid::Uuid;

use crate::{
    error::GatewayError,
    manifests::{Manifest, Manifests},
};

/// What all who call without a key are counted under: no key has this digest.
const ANONYMOUS: &[u8] = b"anonymous";

/// Calls tools for those who may.
#[derive(Debug)]
pub struct Executor {
    pub(crate) vault: Arc<Vault>,
    pub(crate) limits: Arc<RateLimits>,
    pub(crate) manifests: Manifests,
    upstream: Upstream,
    /// By tier: what its tools may call besides what all may.
    exempt: [Vec<Origin>; 3],
}

impl Executor {
    /// Puts it together.
    #[must_use]
    pub fn new(vault: Arc<Vault>, limits: Arc<RateLimits>, upstream: Upstream) -> Self {
        let (manifests, exempt) = Default::default();
        Self { vault, limits, manifests, upstream, exempt }
    }

    /// Lets the tools of a tier, and no others, call an origin whatever its address is.
    #[must_use]
    pub fn exempting(mut self, tier: Tier, origin: Origin) -> Self {
        self.exempt[tier as usize].push(origin);
        self
    }

    /// The secrets that a call gets: all it cannot do without, and those of the others that are there.
    async fn secrets(
        &self,
        call: &ToolCall,
        manifest: &Manifest,
    ) -> Result<BTreeMap<String, Secret>, ExecuteError> {
        let SecretNeeds { required, optional } = &manifest.needs;
        let owner = match &call.caller {
            Caller::User(User { owner, .. }) if !required.is_empty() || !optional.is_empty() => {
                owner.clone()
            }
            _ if required.is_empty() => return Ok(BTreeMap::new()),
            _ => return Err(key_needed(required)),
        };
        let (vault, tier, id) = (Arc::clone(&self.vault), call.tier, call.id.clone());
        let (mut wanted, optional) = (required.clone(), optional.clone());
        let origin = manifest.origin.clone();
        let read = move || -> Result<_, VaultError> {
            let skill = CalledSkill { tier, id: &id, origin: origin.as_deref() };
            let lacks = vault.lacking_secrets(&owner, skill, &optional)?;
            let is_there = |name: &String| lacks.iter().all(|lack| lack.name != *name);
            wanted.extend(optional.into_iter().filter(is_there));
            vault.secrets_for_call(&owner, skill, &wanted)
        };
        let read = tokio::task::spawn_blocking(read).await;
        let secrets = read.map_err(|_| internal("the vault failed"))?.map_err(of_vault)?;
        Ok(secrets.into_iter().map(|(name, value)| (name, Secret::new(value.as_str()))).collect())
    }

    /// What is left of a caller's minute; nothing is known of who has a key that is none by now.
    pub(crate) fn left(&self, caller: &Caller, now: Timestamp) -> Option<Decision> {
        let (hash, tier) = match caller {
            Caller::User(user) => {
                let found = || self.vault.find_hash(&user.key, now).ok().flatten();
                let tier = self.vault.tier_seen(&user.key);
                (user.key, tier.or_else(|| found().map(|key| key.tier))?)
            }
            Caller::Anonymous | Caller::Admin(_) => everybody(),
        };
        Some(self.limits.peek(&hash, tier, now))
    }

    /// Counts a use, if there may be one more.
    pub(crate) fn take(&self, caller: &Caller, now: Timestamp) -> Result<(), Box<ExecuteError>> {
        let (hash, tier) = match caller {
            Caller::User(user) => {
                let key = self.vault.find_hash(&user.key, now).map_err(of_vault)?;
                let key = key.ok_or_else(|| {
                    let words =
                        "the key is unknown: it was never issued, or it is revoked or expired";
                    error(Blame::Caller, "unknown_key", words)
                })?;
                (key.hash, key.tier)
            }
            Caller::Anonymous | Caller::Admin(_) => everybody(),
        };
        let decision = self.limits.take(&hash, tier, now);
        match decision.retry_after {
            None => Ok(()),
            Some(retry_after) => {
                let limit = decision.limit;
                let words = format!("Rate limit exceeded. Your tier limit is {limit} RPM.");
                Err(error(Blame::Limit { limit, retry_after }, "rate_limited", words).into())
            }
        }
    }
}

#[async_trait]
impl Execute for Executor {
    async fn execute(&self, call: ToolCall) -> Result<Value, Box<ExecuteError>> {
        let manifest = match self.manifests.known(call.digest, &call.id) {
            Some(known) => known,
            None => {
                let read = self.manifests.read(call.digest, &call.id, call.source.clone());
                read.await.map_err(|failed| match failed {
                    GatewayError::Manifest(refused) => {
                        error(Blame::Call, "invalid_implementation", refused.to_string())
                    }
                    other => internal(&other.to_string()),
                })?
            }
        };
        let secrets = self.secrets(&call, &manifest).await?;
        let request_id = call.request_id.unwrap_or_else(|| Uuid::new_v4().to_string());
        let prepared = self.upstream.prepare(Call {
            implementation: &manifest.spec.implementation,
            params: &call.arguments,
            secrets: &secrets,
            trace_id: &request_id,
            also: &self.exempt[call.tier as usize],
        });
        let prepared = prepared.map_err(of_upstream)?;
        self.take(&call.caller, now())?;
        Ok(self.upstream.send(prepared).await.map_err(of_upstream)?)
    }
}

/// What those who have no key share.
fn everybody() -> (Digest, AccountTier) {
    static SHARED: LazyLock<Digest> = LazyLock::new(|| Digest::of(ANONYMOUS));
    (*SHARED, AccountTier::Free)
}

fn error(blame: Blame, code: &'static str, message: impl Into<String>) -> ExecuteError {
    ExecuteError { blame, code: code.into(), message: message.into(), hint: None, details: None }
}

fn internal(message: &str) -> ExecuteError {
    error(Blame::Server, "internal", message)
}

fn key_needed(required: &[String]) -> ExecuteError {
    let words = format!("the tool needs secrets, and no key tells whose: {}", required.join(", "));
    let hint = Some("give a key of the user, which begins with us-".into());
    ExecuteError { hint, ..error(Blame::Caller, "key_needed", words) }
}

fn of_vault(failed: VaultError) -> ExecuteError {
    let blame = match &failed {
        VaultError::MissingSecrets(_) | VaultError::TooManyNeeded(_) => Blame::Call,
        VaultError::NoMasterKey | VaultError::Busy { .. } | VaultError::Full => Blame::Settings,
        _ => Blame::Server,
    };
    let details = match &failed {
        VaultError::MissingSecrets(lacks) => serde_json::to_value(lacks).ok(),
        _ => None,
    };
    let hint = match &failed {
        VaultError::MissingSecrets(_) => Some(
            "set them with PUT /v1/secrets/NAME; a skill of the market has to be granted each, and again when it \
                 calls another server",
        ),
        other => other.hint(),
    };
    ExecuteError {
        hint: hint.map(Into::into),
        details,
        ..error(blame, failed.code(), failed.to_string())
    }
}

fn of_upstream(failed: UpstreamError) -> ExecuteError {
    let blame = match &failed {
        UpstreamError::InvalidImplementation { .. }
        | UpstreamError::MissingSecrets(_)
        | UpstreamError::MissingParameters(_)
        | UpstreamError::InvalidParameters { .. }
        | UpstreamError::InvalidHeader { .. } => Blame::Call,
        UpstreamError::RequestTooLarge { .. } => Blame::Size,
        UpstreamError::NotHttps { .. } | UpstreamError::RefusedAddress { .. } => Blame::Forbidden,
        UpstreamError::TimedOut { .. } => Blame::Timeout,
        UpstreamError::Connect { .. }
        | UpstreamError::Tls { .. }
        | UpstreamError::BadRedirect { .. }
        | UpstreamError::Broken { .. }
        | UpstreamError::TooLarge { .. }
        | UpstreamError::UpstreamStatus { .. }
        | UpstreamError::Unreadable { .. } => Blame::Upstream,
    };
    // Said of what is at the other end, so that nobody takes it for this end.
    let code = match blame {
        Blame::Upstream | Blame::Timeout => {
            let code = failed.code();
            format!("upstream_{}", code.strip_prefix("upstream_").unwrap_or(code)).into()
        }
        _ => failed.code().into(),
    };
    ExecuteError { code, ..error(blame, "", failed.to_string()) }
}
