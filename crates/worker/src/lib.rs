//! The iii contract: skills and prompts as functions and triggers on a bus.
//!
//! - [`contract`]: inputs, outputs and their JSON Schemas
//! - `functions`: the eleven functions of the contract
//! - `extensions`, `versions`, `register_many`: additional functions; `capabilities` lists them
//! - `listing_cache`: listings as JSON text, cached for each version of the catalog
//! - `on_change`: the trigger types, and the observable functions of the same ids
//! - [`mdp`]: the `mdp::*` functions, for a registry that hosts live clients
//! - [`state`]: the `state::*` functions, for a bus without a state worker
//! - `authenticator`: keys of callers, and access to the registry
//! - `register`: typed functions on a bus
//! - `error`: mapping from registry errors to bus errors
//!
//! The crate does not know whether the bus is the embedded hub or an engine.

mod authenticator;
mod capabilities;
mod collections;
pub mod contract;
mod error;
mod extensions;
mod functions;
mod listing_cache;
pub mod mdp;
mod on_change;
mod register;
mod register_many;
pub mod state;
mod versions;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use skills_bus::Bus;
use skills_core::{KeyDirectory, LogLimiter, limits::MAX_DESCRIPTION_CHARS};
use skills_execution::ToolExecutor;
use skills_registry::{Catalog, CollectRequest, Registry, RegistryError};

pub use self::on_change::{PROMPTS_ON_CHANGE, REFRESH_OP, SKILLS_ON_CHANGE};
use self::{
    authenticator::Authenticator, contract::HasKey, listing_cache::ListingCache,
    register::Registrar,
};

/// Most warnings about truncated descriptions in a minute.
const TRUNCATION_LINES: u32 = 10;

/// Objects that the functions of the contract share.
struct Context {
    registry: Arc<Registry>,
    listings: ListingCache,
    keys: Authenticator,
    tools: Arc<dyn ToolExecutor>,
    /// Limits the warnings about descriptions that are shown truncated.
    truncations: LogLimiter,
    /// Versions that `skills::gc` keeps if a call does not say.
    retention: CollectRequest,
}

impl Context {
    /// Logs that the description of a registered skill is shown truncated.
    fn log_truncated_description(&self, id: &str, characters: usize) {
        if let Some(suppressed) = self.truncations.check(Instant::now()) {
            let max = MAX_DESCRIPTION_CHARS;
            tracing::warn!(
                id,
                characters,
                max,
                suppressed,
                "description too long; shown truncated"
            );
        }
    }

    /// Returns the catalog in the view of a call's caller.
    fn catalog(&self, input: &impl HasKey) -> Result<Arc<Catalog>, RegistryError> {
        Ok(self.registry.catalog_for(&self.keys.caller(input)?))
    }
}

/// Registers the eleven functions, the extensions, and the two trigger types on a bus. `tools` executes the calls of
/// `skills::execute`; `keys` resolves the keys of callers; `retention` is the rule of `skills::gc` for calls without one.
pub fn serve(
    bus: &Arc<dyn Bus>,
    registry: &Arc<Registry>,
    tools: &Arc<dyn ToolExecutor>,
    keys: &Arc<dyn KeyDirectory>,
    retention: CollectRequest,
) {
    let context = Context {
        registry: Arc::clone(registry),
        listings: ListingCache::new(Arc::clone(registry)),
        keys: Authenticator::new(keys, registry),
        tools: Arc::clone(tools),
        truncations: LogLimiter::new(TRUNCATION_LINES, Duration::from_secs(60)),
        retention,
    };
    let functions = Registrar { bus: &**bus, context: Arc::new(context) };
    functions::register(&functions);
    extensions::register(&functions);
    register_many::register(&functions);
    versions::register(&functions);
    collections::register(&functions);
    capabilities::register(&functions);
    on_change::register(bus, registry);
}
