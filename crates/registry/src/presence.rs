//! Functions of workers that are connected to other servers on the same store.
//!
//! A call that finds no worker asks the store which server has one, so that the caller is told where to go. Calls that
//! succeed ask nothing.

use std::{sync::Arc, time::Duration};

use skills_core::{WorkAccount, WorkKind, work::StopFlag};
use skills_store::StoreError;

use crate::{HandlerProblem, Registry, RegistryError};

/// Looking for the server of a function.
const FIND: WorkKind = WorkKind::io("looking for the server of a function");

/// Time that a caller waits for the name of the other server.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);
/// Time after which a server that says nothing is taken for dead.
const LEASE: Duration = Duration::from_secs(10);

impl Registry {
    /// Returns whether other servers can be told of functions.
    #[must_use]
    pub fn has_presence(&self) -> bool {
        self.presence().is_some()
    }

    /// Tells other servers which functions the workers of this one have, for ten seconds. `is_changed` is false if they
    /// are those of the last call. Blocks.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn announce_functions(
        &self,
        server: &str,
        functions: &[String],
        is_changed: bool,
    ) -> Result<(), StoreError> {
        let Some(presence) = self.presence() else { return Ok(()) };
        if functions.is_empty() {
            return if is_changed { presence.withdraw(self.server_id()) } else { Ok(()) };
        }
        if !is_changed && presence.renew(self.server_id(), LEASE)? {
            return Ok(());
        }
        presence.announce(self.server_id(), server, functions, LEASE)
    }

    /// Names the server in the error of a function that is not registered here and is elsewhere.
    pub(crate) async fn locate_missing(&self, error: RegistryError) -> RegistryError {
        let RegistryError::Handler { function_id, problem: HandlerProblem::NotRegistered } = error
        else {
            return error;
        };
        let problem = match self.find_server(&function_id).await {
            Some(server) => HandlerProblem::Elsewhere { server },
            None => HandlerProblem::NotRegistered,
        };
        RegistryError::Handler { function_id, problem }
    }

    async fn find_server(&self, function: &str) -> Option<String> {
        // The database is known to be away.
        if self.publisher().store_contact.is_lost() {
            return None;
        }
        let (presence, own_id) = (self.presence()?, self.server_id());
        let function = function.to_owned();
        let find = move |_: &StopFlag| presence.find(&function, own_id);
        let account = WorkAccount::current();
        let find = account.run(FIND, 0, find);
        match tokio::time::timeout(LOOKUP_TIMEOUT, find).await {
            Ok(Ok(Ok(found))) => found,
            Ok(Ok(Err(error))) => {
                tracing::debug!(%error, "functions of other servers cannot be looked up");
                None
            }
            Ok(Err(_)) | Err(_) => None,
        }
    }

    fn presence(&self) -> Option<Arc<dyn skills_store::Presence>> {
        Arc::clone(self.store()).presence()
    }
}
