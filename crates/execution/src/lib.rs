//! Execution of stored tools: skills that have a manifest.
//!
//! A call passes these steps in order: resolve the name in the caller's view, read the manifest, check the arguments,
//! fetch the caller's secrets, prepare the request, count the call against the rate limit, send. A call that fails
//! before the last two steps does not count.
//!
//! Surfaces call tools through [`ToolExecutor`], because a registry behind a bus executes its own tools: [`Executor`]
//! serves the registry of this process and [`Mirror`](skills_remote::Mirror) forwards to `skills::execute`.
//! An [`Executor`] is constructed with the registry it serves, so no surface can offer tools before it exists;
//! [`PendingExecutor`] is the handle for listeners that start while the registry is still being opened.
//!
//! - [`Executor`]: the steps above
//! - [`ManifestCache`]: parsed manifests with their compiled schemas
//! - `arguments`: validation of arguments
//! - [`CallerLimiter`]: rate limit of a caller
//! - [`UpstreamAllowance`]: origins outside the public internet that tools may call
//! - [`ExecuteError`]: every way in which a call can fail
//!
//! This crate knows no protocol: surfaces map [`ExecuteError`] to their own errors.

mod arguments;
mod caller_limiter;
mod error;
mod executor;
mod manifest_cache;
mod tool_executor;
mod upstream_allowance;

pub use caller_limiter::CallerLimiter;
pub use error::{ExecuteError, ReadManifestError};
pub use executor::{Executor, ToolCall};
pub use manifest_cache::{Manifest, ManifestCache};
pub use tool_executor::{NoExecutor, PendingExecutor, ToolExecutor};
pub use upstream_allowance::{ParseAllowanceError, UpstreamAllowance};
