//! User at the other end of a request's connection, looked up at most once for a connection.
//!
//! A lookup reads the whole table of sockets, which takes milliseconds. One reading answers all connections that wait,
//! and pauses follow it, so that a client with many connections cannot keep a processor busy with them.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use axum::http::Extensions;
use parking_lot::Mutex;
use skills_core::work::run_own;
use tokio::{sync::oneshot, time::sleep};

use crate::{
    ConnectionAddresses, connection_limiter::WeakConnectionSlot, socket_owner::owners_of_peers,
};

/// Pause after a reading, as a multiple of its duration: lookups take at most a quarter of one processor.
const PAUSE: u32 = 3;

/// Lookups of users for the connections of one server; clones share the queue.
#[derive(Debug, Clone, Default)]
pub struct PeerUsers(Arc<Lookups>);

impl PeerUsers {
    /// Returns the id of the user whose process holds the other end of a request's connection; `None` if it is unknown,
    /// as for another machine, or on a system that does not tell it.
    pub async fn find(&self, extensions: &Extensions) -> Option<u32> {
        let addresses = *extensions.get::<ConnectionAddresses>()?;
        if addresses.is_owner {
            return Some(rustix::process::geteuid().as_raw());
        }
        // Held until the answer: without the connection its addresses may be those of another one.
        let slot = extensions.get::<WeakConnectionSlot>()?.upgrade()?;
        let connection = (addresses.local?, addresses.peer);
        // Only a known user is remembered: a socket may be accepted a moment later.
        let known = slot.peer_user();
        known
            .get_or_try_init(async || self.0.look_up(connection).await.ok_or(()))
            .await
            .ok()
            .copied()
    }
}

/// Addresses of this process and of the peer.
type Addresses = (SocketAddr, SocketAddr);

/// Lookups that wait for the next reading of the table.
#[derive(Debug, Default)]
struct Lookups(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<(Addresses, oneshot::Sender<Option<u32>>)>,
    /// Set while a task reads the table.
    is_running: bool,
}

impl Lookups {
    async fn look_up(self: &Arc<Self>, connection: Addresses) -> Option<u32> {
        let (answer, answered) = oneshot::channel();
        let is_running = {
            let mut queue = self.0.lock();
            queue.waiting.push((connection, answer));
            std::mem::replace(&mut queue.is_running, true)
        };
        if !is_running {
            tokio::spawn(Arc::clone(self).run());
        }
        answered.await.ok().flatten()
    }

    /// Reads the table until no lookup waits.
    async fn run(self: Arc<Self>) {
        loop {
            let mut waiting = {
                let mut queue = self.0.lock();
                queue.is_running = !queue.waiting.is_empty();
                std::mem::take(&mut queue.waiting)
            };
            if waiting.is_empty() {
                return;
            }
            waiting.retain(|(_, answer)| !answer.is_closed());
            let connections: Vec<_> = waiting.iter().map(|(addresses, _)| *addresses).collect();
            let start = Instant::now();
            let look_up = move || owners_of_peers(&connections);
            let users = run_own("users of connections", look_up).await;
            let users = users.unwrap_or_default().into_iter().chain(std::iter::repeat(None));
            for ((_, answer), user) in waiting.into_iter().zip(users) {
                let _ = answer.send(user);
            }
            sleep(start.elapsed() * PAUSE).await;
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn lookups_that_wait_are_answered_together() {
        let own = Some(rustix::process::geteuid().as_raw());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let lookups = Arc::new(Lookups::default());
        let (mut held, mut asked) = (vec![], vec![]);
        for _ in 0..20 {
            let client = TcpStream::connect(address).await.unwrap();
            let (server, peer) = listener.accept().await.unwrap();
            asked.push((server.local_addr().unwrap(), peer));
            held.push((client, server));
        }
        let (one, other) = (lookups.look_up(asked[0]), lookups.look_up((address, address)));
        assert_eq!(tokio::join!(one, other), (own, None));
        let all = asked.iter().map(|addresses| lookups.look_up(*addresses));
        let users = futures_util::future::join_all(all).await;
        assert!(users.iter().all(|user| *user == own), "{users:?}");
        drop(held);
    }
}
