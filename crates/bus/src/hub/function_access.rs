//! Access to private functions, and to functions of this process through subscriptions.

use std::sync::Arc;

use skills_core::Code;

use super::{
    Hub,
    functions::{HUB_PREFIX, Target},
    peer::Peer,
};
use crate::CallError;

/// Returns whether a function may be called, notified or observed on behalf of a worker. A private function may be only
/// for its owner, so that no subscription or observer is a way to call it. `is_owner` compares the worker with the owner.
pub(super) fn may_call(
    target: &Target,
    is_private: bool,
    is_owner: impl FnOnce(&Arc<Peer>) -> bool,
) -> bool {
    match target {
        Target::Worker(owner) if is_private => is_owner(owner),
        _ => true,
    }
}

/// Returns whether a subscription of a worker may call a function: only one of a worker that [`may_call`] allows.
///
/// A function of this process decides by its caller, and a subscription has none: it would call with the rights of this
/// process.
pub(super) fn may_call_for_subscription(
    target: &Target,
    is_private: bool,
    is_owner: impl FnOnce(&Arc<Peer>) -> bool,
) -> bool {
    matches!(target, Target::Worker(_)) && may_call(target, is_private, is_owner)
}

impl Hub {
    /// Refuses a function of this process as the target of a trigger or an observer.
    pub(super) fn check_subscribable(&self, function_id: &str) -> Result<(), CallError> {
        let target = self.inner.functions.lookup(function_id);
        let is_local = matches!(target, Some((Target::Local(_) | Target::Observable(_), _)));
        if is_local || function_id.starts_with(HUB_PREFIX) {
            return Err(local_target(function_id));
        }
        Ok(())
    }
}

/// Creates the error for a subscription that would call a function of this process.
pub(super) fn local_target(function_id: &str) -> CallError {
    let message =
        format!("{function_id} is a function of this hub, which no subscription may call");
    CallError::remote(Code::ReservedFunction, message)
}
