//! Accounts of callers.

use std::{
    hash::{Hash, Hasher},
    sync::{Arc, LazyLock},
};

use tokio::{runtime::Handle, sync::Semaphore};

use super::{StopFlag, WorkError, WorkKind, WorkPermit, WorkPool};
use crate::budget::MemoryBudget;

/// Compute permits of a process for each processor. More than one, since work also waits for memory.
const COMPUTE_PER_CORE: usize = 2;
/// Fewest compute permits of a process, so that several callers make progress on a small machine.
const MIN_COMPUTE: usize = 8;
/// I/O permits of a process. Tokio starts at most 512 blocking threads.
const IO: usize = 192;

/// Lookup permits of a process; a client has an eighth. Nothing ends a lookup whose server does not answer.
const LOOKUPS: usize = 64;

/// Returns what one client may have of a total: three eighths. One person may be two clients, with and without a key; two
/// shares leave a quarter to others.
#[must_use]
pub const fn client_share(total: usize) -> usize {
    total / 8 * 3 + (total % 8 * 3).div_ceil(8)
}

tokio::task_local! {
    /// Account of the request that the current task handles.
    static CURRENT: WorkAccount;
}

/// Permits of one pool.
type Permits = Arc<Semaphore>;

/// Permits of all pools.
#[derive(Debug, Clone)]
pub(super) struct PoolPermits {
    compute: Permits,
    io: Permits,
    lookup: Permits,
}

impl PoolPermits {
    fn new(compute: usize, io: usize, lookup: usize) -> Self {
        let permits = |count| Arc::new(Semaphore::new(count));
        Self { compute: permits(compute), io: permits(io), lookup: permits(lookup) }
    }

    fn unlimited() -> Self {
        let all = Semaphore::MAX_PERMITS;
        Self::new(all, all, all)
    }

    pub(super) const fn of(&self, pool: WorkPool) -> &Permits {
        match pool {
            WorkPool::Compute => &self.compute,
            WorkPool::Io => &self.io,
            WorkPool::Lookup => &self.lookup,
        }
    }
}

/// Accounts of one process, which share its memory budget and its threads. Clones are handles to the same accounts.
#[derive(Debug, Clone)]
pub struct WorkAccounts {
    memory: MemoryBudget,
    /// Memory of what callers hold beyond a request: half of the budget, so that requests always have the other half.
    held: MemoryBudget,
    permits: PoolPermits,
    compute: usize,
}

impl WorkAccounts {
    /// Creates the accounts of a process with a memory budget.
    #[must_use]
    pub fn new(memory: MemoryBudget) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with_compute_permits(memory, (cores * COMPUTE_PER_CORE).max(MIN_COMPUTE))
    }

    pub(super) fn with_compute_permits(memory: MemoryBudget, compute: usize) -> Self {
        let held = memory.share_for_all_sizes(memory.capacity() / 2);
        Self { memory, held, permits: PoolPermits::new(compute, IO, LOOKUPS), compute }
    }

    /// Opens the account of one client, with its share of memory and threads.
    #[must_use]
    pub fn open(&self) -> WorkAccount {
        WorkAccount(Arc::new(Account {
            memory: self.memory.share(client_share(self.memory.capacity())),
            held: self.held.share_for_all_sizes(client_share(self.held.capacity())),
            own: PoolPermits::new(client_share(self.compute), client_share(IO), LOOKUPS / 8),
            all: self.permits.clone(),
        }))
    }

    /// Returns the memory budget of the process.
    #[must_use]
    pub const fn memory(&self) -> &MemoryBudget {
        &self.memory
    }
}

/// Account of one client: its shares of memory and of blocking threads. Clones are handles to the same account.
#[derive(Debug, Clone)]
pub struct WorkAccount(Arc<Account>);

#[derive(Debug)]
struct Account {
    memory: MemoryBudget,
    held: MemoryBudget,
    /// Permits of this client.
    own: PoolPermits,
    /// Permits of all clients.
    all: PoolPermits,
}

/// An account equals itself alone.
impl PartialEq for WorkAccount {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for WorkAccount {}

impl Hash for WorkAccount {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl WorkAccount {
    /// Returns the account of the request that the current task handles; outside of requests that of
    /// the [process](Self::process). Tasks that a handler spawns are outside: pass them the account.
    #[must_use]
    pub fn current() -> Self {
        CURRENT.try_with(Self::clone).unwrap_or_else(|_| Self::process())
    }

    /// Returns the account of a process without clients, such as a command, and of the server's own jobs. Its memory is not
    /// limited.
    #[must_use]
    pub fn process() -> Self {
        static PROCESS: LazyLock<WorkAccount> =
            LazyLock::new(|| WorkAccount::with_memory(MemoryBudget::new(usize::MAX)));
        PROCESS.clone()
    }

    /// Opens the account of the only client of a process, which may use all of a memory budget.
    #[must_use]
    pub fn with_memory(memory: MemoryBudget) -> Self {
        let WorkAccounts { memory, held, permits, .. } = WorkAccounts::new(memory);
        Self(Arc::new(Account { memory, held, own: PoolPermits::unlimited(), all: permits }))
    }

    /// Runs a future on this account: [`current`](Self::current) returns it meanwhile.
    pub fn scope<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        CURRENT.scope(self.clone(), future)
    }

    /// Returns the client's share of memory for requests in progress.
    #[must_use]
    pub fn memory(&self) -> &MemoryBudget {
        &self.0.memory
    }

    /// Returns the client's share of memory for what outlives a request, such as uploads that wait for a confirmation.
    #[must_use]
    pub fn held_memory(&self) -> &MemoryBudget {
        &self.0.held
    }

    /// Waits for a permit for work, and reserves memory for it.
    ///
    /// # Errors
    /// When the memory is not free, or no thread becomes free within [`WorkKind::TIME_LIMIT`].
    pub async fn permit(&self, kind: WorkKind, bytes: usize) -> Result<WorkPermit, WorkError> {
        let account = &*self.0;
        WorkPermit::acquire(kind, account.memory.try_reserve(bytes)?, &account.own, &account.all)
            .await
    }

    /// Returns a permit if one is free now. Work that has a permit may use more threads in this way, since it does not wait
    /// for them.
    ///
    /// # Errors
    /// When the memory or the threads are in use.
    pub fn try_permit(&self, kind: WorkKind, bytes: usize) -> Result<WorkPermit, WorkError> {
        let account = &*self.0;
        let reservation = account.memory.try_reserve(bytes)?;
        WorkPermit::try_acquire(kind, reservation, &account.own, &account.all)
    }

    /// Drives a future on the blocking thread of work, on this account: reads that it waits for are work of the same
    /// caller. They must not be of the [pool](WorkKind::pool) of the work that drives it.
    ///
    /// # Panics
    /// On a thread that belongs to no runtime, or that drives tasks.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        Handle::current().block_on(self.scope(future))
    }

    /// Runs work on a blocking thread as soon as the account has a permit for it. The permit is released when the work has
    /// ended. If the returned future is dropped, the flag of the work is raised.
    ///
    /// # Errors
    /// When there is no permit, or the work panics.
    pub async fn run<T: Send + 'static>(
        &self,
        kind: WorkKind,
        bytes: usize,
        work: impl FnOnce(&StopFlag) -> T + Send + 'static,
    ) -> Result<T, WorkError> {
        self.permit(kind, bytes).await?.run(work).await
    }
}
