//! Writes that change labels and versions. They are queued like registrations and take part in the same order.
//!
//! The caller decides whether a client may change an entry of a layer; a private layer is always that of the caller.

use skills_core::{EntryKey, Field, RuleError, version::check_message};
use skills_store::{Effect, Mutation, PublishOptions, VersionMutation};

use crate::{
    LabelRequest, PendingWrite, PublishRequest, Published, PurgeReport, Registry, RegistryError,
    RollbackRequest, VersionState, YankRequest, writer::BatchResult, writing::to_published,
};

impl Registry {
    /// Moves or removes a label. The tier and the id of the request are those of the key.
    pub fn set_label(
        &self,
        actor: &str,
        key: &EntryKey,
        request: &LabelRequest,
    ) -> PendingWrite<VersionState> {
        let LabelRequest { label, version, expected, .. } = request.clone();
        let change = VersionMutation::SetLabel { label, version, expected };
        self.change_version(actor, key, Ok(change), state_of(key))
    }

    /// Registers the content of an older version again, as a new version.
    pub fn rollback(
        &self,
        actor: &str,
        key: &EntryKey,
        request: &RollbackRequest,
    ) -> PendingWrite<Published> {
        let RollbackRequest { to, publish, .. } = request.clone();
        let change =
            check_rollback(key, publish).map(|options| VersionMutation::Rollback { to, options });
        self.change_version(actor, key, change, to_published)
    }

    /// Yanks or purges a version, or undoes a yank.
    pub fn yank(
        &self,
        actor: &str,
        key: &EntryKey,
        request: &YankRequest,
    ) -> PendingWrite<VersionState> {
        self.change_version(actor, key, yank_mutation(request.clone()), state_of(key))
    }

    fn change_version<T: Send + 'static>(
        &self,
        actor: &str,
        key: &EntryKey,
        change: Result<VersionMutation, RuleError>,
        convert: impl FnOnce(BatchResult) -> Result<T, RegistryError> + Send + 'static,
    ) -> PendingWrite<T> {
        let batch = change.map(|change| vec![Mutation::Version { key: key.clone(), change }]);
        self.submit_checked(actor, batch, convert)
    }
}

fn check_rollback(key: &EntryKey, publish: PublishRequest) -> Result<PublishOptions, RuleError> {
    key.layer.check_writable()?;
    publish.check()
}

fn yank_mutation(request: YankRequest) -> Result<VersionMutation, RuleError> {
    let YankRequest { version, reason, undo, purge, .. } = request;
    if undo {
        return if purge {
            Err(RuleError::UndoPurge)
        } else {
            Ok(VersionMutation::Unyank { version })
        };
    }
    if reason.trim().is_empty() {
        return Err(RuleError::Empty(Field::Reason));
    }
    check_message(Field::Reason, &reason)?;
    Ok(if purge {
        VersionMutation::Purge { version, reason }
    } else {
        VersionMutation::Yank { version, reason }
    })
}

/// Returns the converter of a change of labels or yanks.
fn state_of(
    key: &EntryKey,
) -> impl FnOnce(BatchResult) -> Result<VersionState, RegistryError> + Send + 'static {
    let key = key.clone();
    move |result| {
        let (change, purged) = match result?.pop() {
            Some(Effect::Changed(change)) => (change, None),
            Some(Effect::Erased { change, bytes, holders, .. }) => {
                (change, Some(PurgeReport::new(&key, bytes, &holders)))
            }
            Some(Effect::Unchanged { version, served }) => {
                let id = key.id.to_string();
                return Ok(VersionState { id, version, changed: false, served, purged: None });
            }
            _ => return Err(RegistryError::Unexpected("a change of versions")),
        };
        let heads = change.served.and_then(|served| served.heads);
        Ok(VersionState {
            id: key.id.to_string(),
            version: change.action.version(),
            changed: true,
            served: heads.map(|heads| heads.served),
            purged,
        })
    }
}
