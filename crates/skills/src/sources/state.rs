//! State of a source: what its last import had, in a file of the data directory or in the database that servers share.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};
use skills_core::{Code, Digest, Timestamp};
use skills_store::ImportRecords;
use tokio_util::sync::CancellationToken;

use super::{
    shared_state_store::{LeasedState, SharedStateStore},
    state_file::{self, StateFile},
};
use crate::{Failure, blocking::blocking};

/// State of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SourceState {
    pub(crate) name: String,
    /// Location without credentials.
    pub(crate) from: String,
    pub(crate) tier: String,
    /// Time of the last import in RFC 3339, whether it succeeded or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_attempt: Option<String>,
    /// Time of the last import that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_success: Option<String>,
    /// Commit of the last import that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) commit: Option<String>,
    /// Error of the last import.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Skills that were not imported, with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) skipped: BTreeMap<String, String>,
    /// Imported skills, with the digest of the version.
    #[serde(default)]
    pub(crate) skills: BTreeMap<String, Digest>,
    /// Skills that came from elsewhere and had the content of the source, with its digest. They are never removed, and
    /// are not imported again after they were removed here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) equal: BTreeMap<String, Digest>,
}

impl SourceState {
    /// Returns the word for the state: `ok`, `failed`, or `new` before the first import.
    pub(crate) const fn status(&self) -> &'static str {
        match (&self.error, &self.last_attempt) {
            (Some(_), _) => "failed",
            (None, None) => "new",
            (None, Some(_)) => "ok",
        }
    }
}

/// Place of the states of all sources.
#[derive(Debug, Clone)]
pub(crate) enum SourceStates {
    /// Files of a data directory.
    Files(PathBuf),
    /// Database that servers share.
    Shared(Arc<SharedStateStore>),
}

/// State of a source, locked against other imports of it.
pub(crate) struct LockedState {
    pub(crate) state: SourceState,
    lock: StateLock,
    is_saved: bool,
}

enum StateLock {
    File(StateFile),
    Shared(LeasedState),
}

impl SourceStates {
    /// Returns the place of the states: the database if servers share one, else the data directory.
    pub(crate) fn new(data_dir: PathBuf, shared: Option<Arc<dyn ImportRecords>>) -> Self {
        match shared {
            Some(records) => Self::Shared(Arc::new(SharedStateStore::new(records, data_dir))),
            None => Self::Files(data_dir),
        }
    }

    /// Locks and reads the state of a source.
    ///
    /// # Errors
    /// [`Code::Busy`] while another process or server imports it, and when the state cannot be read or written.
    pub(super) async fn open(&self, name: &str) -> Result<LockedState, Failure> {
        match self {
            Self::Files(data_dir) => {
                let (data_dir, name) = (data_dir.clone(), name.to_owned());
                let (file, state) = blocking(move || StateFile::open(&data_dir, &name)).await??;
                Ok(LockedState { state, lock: StateLock::File(file), is_saved: false })
            }
            Self::Shared(store) => {
                let (leased, state) = store.open(name).await?;
                Ok(LockedState { state, lock: StateLock::Shared(leased), is_saved: false })
            }
        }
    }

    /// Reads the states of all sources that were ever imported, sorted by name.
    ///
    /// # Errors
    /// When the database that has them cannot be reached.
    pub(crate) async fn load_all(&self) -> Result<Vec<SourceState>, Failure> {
        match self {
            Self::Files(data_dir) => {
                let data_dir = data_dir.clone();
                blocking(move || state_file::load_all(&data_dir)).await
            }
            Self::Shared(store) => store.refresh().await,
        }
    }

    /// Returns the states of all sources as this process knows them: those of a database as they were read or saved
    /// last.
    pub(crate) fn latest(&self) -> Vec<SourceState> {
        match self {
            Self::Files(data_dir) => state_file::load_all(data_dir),
            Self::Shared(store) => store.latest(),
        }
    }

    /// Returns the database with the states, if servers share one.
    pub(super) const fn shared(&self) -> Option<&Arc<SharedStateStore>> {
        match self {
            Self::Files(_) => None,
            Self::Shared(store) => Some(store),
        }
    }
}

impl LockedState {
    /// Saves the state. One in a database is unlocked then.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) async fn save(&mut self) -> Result<(), Failure> {
        match &self.lock {
            StateLock::File(file) => file.save(&self.state)?,
            StateLock::Shared(leased) => leased.save(&self.state).await?,
        }
        self.is_saved = true;
        Ok(())
    }

    /// Returns whether the state was saved.
    pub(super) const fn is_saved(&self) -> bool {
        self.is_saved
    }

    /// Returns a token that is cancelled when the lock is lost. A lock of a file never is.
    pub(super) fn loss_token(&self) -> CancellationToken {
        match &self.lock {
            StateLock::File(_) => CancellationToken::new(),
            StateLock::Shared(leased) => leased.loss_token(),
        }
    }
}

/// Returns the error of a source that another process or server imports.
pub(super) fn busy(other: &str, name: &str) -> Failure {
    Failure::new(Code::Busy, format!("another {other} imports the source {name}"))
        .hint("wait until it has finished")
}

/// Returns the time of now in RFC 3339.
pub(crate) fn now() -> String {
    Timestamp::now().to_string()
}
