//! Tools: finding the one that a name leads to, checking what it is called with, and having it called.
//!
//! How a tool is called is not known here: whoever can do that implements [`Execute`].

use std::{borrow::Cow, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Map, Value};
use skills_core::{Caller, Digest, SkillId, Tier};

use crate::{Registry, RegistryError};

/// A call of a tool that was resolved, and whose arguments fit.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// Who calls.
    pub caller: Caller,
    /// Where the tool is stored.
    pub tier: Tier,
    /// Under which id.
    pub id: SkillId,
    /// The text of its manifest.
    pub source: Bytes,
    /// The digest of that text.
    pub digest: Digest,
    /// What it is called with.
    pub arguments: Map<String, Value>,
    /// What the call is known by, to the caller and to whoever is called.
    pub request_id: Option<String>,
}

/// Calls tools.
#[async_trait]
pub trait Execute: Send + Sync {
    /// Calls one and returns its result.
    ///
    /// # Errors
    /// Each way in which a call can fail.
    async fn execute(&self, call: ToolCall) -> Result<Value, Box<ExecuteError>>;
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ExecuteError {
    /// Whose turn it is.
    pub blame: Blame,
    /// A stable code for machines.
    pub code: Cow<'static, str>,
    /// What happened.
    pub message: String,
    /// What can be done about it.
    pub hint: Option<Cow<'static, str>>,
    /// All of it, where it is several things.
    pub details: Option<Value>,
}

/// What has to be different for a call to succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The caller has to present a key.
    Caller,
    /// The call, the manifest or the caller's secrets.
    Call,
    /// The call is too large.
    Size,
    /// The tool may not call what it wants to call.
    Forbidden,
    /// The caller has to wait so many seconds.
    Limit {
        /// How many calls there may be in a minute.
        limit: u32,
        /// How long to wait.
        retry_after: u64,
    },
    /// Whoever was called.
    Upstream,
    /// Whoever was called, in time.
    Timeout,
    /// This server's settings.
    Settings,
    /// This server.
    Server,
}

impl Registry {
    /// Lets tools be called. Whoever comes first stays.
    pub fn execute_with(&self, executor: Arc<dyn Execute>) {
        if self.executor().set(executor).is_err() {
            tracing::warn!("tools are called by whoever was there first");
        }
    }

    /// Calls the tool that a name leads to for a caller.
    ///
    /// # Errors
    /// When the caller sees no such tool, the arguments do not fit it, or the call fails.
    pub async fn call_tool_as(
        &self,
        caller: &Caller,
        name: &str,
        arguments: Map<String, Value>,
        request_id: Option<String>,
    ) -> Result<Value, RegistryError> {
        let executor = self.executor().get().ok_or(RegistryError::NoExecutor)?;
        let catalog = self.catalog_of(caller);
        let row = catalog.readable_skill(None, name)?;
        let tool = row.meta.tool.as_ref();
        let tool = tool.ok_or_else(|| RegistryError::NotATool(row.id.to_string()))?;
        let id: SkillId = row.id.parse()?;
        let arguments = self.arguments().checked(&id, tool, arguments).await?;
        let source = self.tool_source(row).await?;
        let (tier, digest, caller) = (row.tier, tool.source.digest, caller.clone());
        let call = ToolCall { caller, tier, id, source, digest, arguments, request_id };
        Ok(executor.execute(call).await?)
    }
}
