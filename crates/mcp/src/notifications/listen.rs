//! Streams of listen requests: the share of each client in them, and those that have not started yet.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use rmcp::model::SubscriptionFilter;
use skills_core::{
    OverBudget, OwnedTable, RequestBudget, Reservation, TableFull, TableLimits, WorkAccount,
};
use tokio_util::sync::CancellationToken;

use super::{Lists, Subscriber};
use crate::{
    server::{McpProfile, Shared},
    subscriptions,
};

/// Limits of streams. They last as long as their connections.
const LIMITS: TableLimits =
    TableLimits { per_owner: 512, total: 4096, idle: Duration::MAX, lifetime: Duration::MAX };
/// Memory of a stream besides that of its request and of its subscriptions: its tasks and queues.
const STREAM_BYTES: usize = 32 << 10;

/// Refusal of a stream: other clients have all that the server has room for, or the client's memory is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListenRefused;

impl From<OverBudget> for ListenRefused {
    fn from(_: OverBudget) -> Self {
        Self
    }
}

impl From<TableFull> for ListenRefused {
    fn from(_: TableFull) -> Self {
        Self
    }
}

/// Open streams of listen requests. A client at its share loses its oldest one.
#[derive(Debug)]
pub(crate) struct ListenStreams {
    table: OwnedTable<u64, OpenStream, WorkAccount>,
    next: AtomicU64,
}

#[derive(Debug)]
struct OpenStream {
    end: CancellationToken,
    _reservation: Reservation,
}

impl Default for ListenStreams {
    fn default() -> Self {
        let end = |_, stream: OpenStream| stream.end.cancel();
        Self { table: OwnedTable::with_eviction(LIMITS, |_| 0, end), next: AtomicU64::new(0) }
    }
}

impl ListenStreams {
    /// Opens a stream of a client. It counts against the memory that the client may hold beyond requests, also for what
    /// is left of the request, such as the filter.
    fn open(
        self: &Arc<Self>,
        account: &WorkAccount,
        request: Option<&RequestBudget>,
        subscriptions: usize,
    ) -> Result<StreamGuard, ListenRefused> {
        let request_bytes = request.map_or(0, RequestBudget::bytes);
        let bytes = STREAM_BYTES + subscriptions + request_bytes;
        let reservation = self.table.reserve(account, account.held_memory(), bytes)?;
        let (number, end) = (self.next.fetch_add(1, Ordering::Relaxed), CancellationToken::new());
        let stream = OpenStream { end: end.clone(), _reservation: reservation };
        self.table.insert(account.clone(), number, stream)?;
        if let Some(request) = request {
            request.resize(0)?;
        }
        Ok(StreamGuard { streams: Arc::clone(self), number, end })
    }
}

/// Entry of a stream in the table, until it is dropped.
struct StreamGuard {
    streams: Arc<ListenStreams>,
    number: u64,
    end: CancellationToken,
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.streams.table.remove(&self.number);
    }
}

/// Stream of a listen request: what it is notified of, and its entry in the table.
pub(crate) struct ListenStream {
    filter: SubscriptionFilter,
    pub(crate) subscriber: Subscriber,
    guard: StreamGuard,
}

impl ListenStream {
    /// Opens the stream of a request with a filter that was accepted.
    pub(crate) fn open(
        shared: &Shared,
        filter: SubscriptionFilter,
        account: &WorkAccount,
        request: Option<&RequestBudget>,
    ) -> Result<Self, ListenRefused> {
        let wanted = match shared.settings.profile {
            McpProfile::Full | McpProfile::Skills => filter.clone(),
            // Its four tools never change.
            McpProfile::Mdp => SubscriptionFilter::default(),
        };
        let uris = wanted.resource_subscriptions.as_deref().unwrap_or_default();
        let subscriptions = uris.iter().map(|uri| subscriptions::cost(uri)).sum();
        let guard = shared.listen_streams.open(account, request, subscriptions)?;
        let (owner, lists) = (shared.caller.owner().cloned(), Lists::from(&wanted));
        let uris = uris.iter().map(String::as_str).collect();
        let subscriber = shared.dispatcher.subscribe(owner, lists, uris);
        Ok(Self { filter, subscriber, guard })
    }

    /// Waits until the stream has to end, because its client has opened too many others.
    pub(crate) async fn evicted(&self) {
        self.guard.end.cancelled().await;
    }
}

/// Most listen requests of one client between acknowledgement and start.
const MAX_PENDING: usize = 16;

/// Streams of listen requests that are acknowledged and not started yet, so that no change in between is lost.
#[derive(Default)]
pub(crate) struct PendingListens(Mutex<VecDeque<ListenStream>>);

impl PendingListens {
    pub(crate) fn push(&self, stream: ListenStream) {
        let mut streams = self.0.lock();
        // The oldest belongs to a request that failed.
        if streams.len() >= MAX_PENDING {
            streams.pop_front();
        }
        streams.push_back(stream);
    }

    /// Takes a stream with a filter.
    pub(crate) fn take(&self, filter: &SubscriptionFilter) -> Option<ListenStream> {
        let mut streams = self.0.lock();
        let at = streams.iter().position(|stream| stream.filter == *filter)?;
        streams.remove(at)
    }
}

#[cfg(test)]
mod tests {
    use skills_core::{MemoryBudget, WorkAccounts};

    use super::*;

    fn open(streams: &Arc<ListenStreams>, account: &WorkAccount) -> StreamGuard {
        streams.open(account, None, 0).unwrap_or_else(|refused| panic!("{refused:?}"))
    }

    #[test]
    fn the_limits_are_documented() {
        let page = include_str!("../../../../docs/mcp.md");
        let TableLimits { per_owner, total, .. } = LIMITS;
        let limits = format!(
            "| `subscriptions/listen` streams | {total} in total, {per_owner} for one client |"
        );
        assert!(page.contains(&limits), "docs/mcp.md has no {limits:?}");
    }

    #[tokio::test]
    async fn a_client_over_its_share_of_streams_loses_its_oldest_one() {
        let (streams, budget) = (Arc::<ListenStreams>::default(), MemoryBudget::default());
        let accounts = WorkAccounts::new(budget.clone());
        let (one, other) = (accounts.open(), accounts.open());
        let of_other = open(&streams, &other);
        let opened: Vec<_> = (0..=LIMITS.per_owner).map(|_| open(&streams, &one)).collect();
        let ended: Vec<_> = opened.iter().map(|guard| guard.end.is_cancelled()).collect();
        assert!(ended[0] && !ended[1..].contains(&true));
        assert!(!of_other.end.is_cancelled());
        assert_eq!(budget.reserved(), (LIMITS.per_owner + 1) * STREAM_BYTES);
        drop((opened, of_other));
        assert_eq!((streams.table.len(), budget.reserved()), (0, 0));
    }

    #[tokio::test]
    async fn the_memory_of_a_request_that_listens_is_not_that_of_requests() {
        let streams = Arc::<ListenStreams>::default();
        let account = WorkAccounts::new(MemoryBudget::default()).open();
        let request = |bytes| {
            let reservation = account.memory().try_reserve(bytes).unwrap();
            RequestBudget::new(account.clone(), reservation)
        };
        let large = account.held_memory().capacity() / 3;
        let (first, second, third) = (request(large), request(large), request(large));
        let first_stream = streams.open(&account, Some(&first), 0).ok().unwrap();
        let _second_stream = streams.open(&account, Some(&second), 0).ok().unwrap();
        assert!(account.held_memory().reserved() >= 2 * large);
        assert_eq!(account.memory().reserved(), large, "that of the third request");
        let _third_stream = streams.open(&account, Some(&third), 0).ok().unwrap();
        assert!(first_stream.end.is_cancelled(), "the client's oldest makes room");
        let excessive = account.held_memory().capacity();
        assert!(matches!(streams.open(&account, None, excessive), Err(ListenRefused)));
        assert_eq!(streams.table.len(), 2, "nothing ends in vain");
    }
}
