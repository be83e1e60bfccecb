//! Eviction of sessions: idle ones, and those that exceed the limits.
//!
//! There are at most [`MAX_SESSIONS`], and [`MAX_PER_CLIENT`] of one client: a credential, or an address without one. A
//! client above its share loses a session of its own; above the total, the client with the most sessions loses one. Sessions
//! without a stream go first, then those that were never used since they were opened, then the least recently used. The
//! client of an evicted session has to initialize again, as the protocol provides for.

use std::{collections::HashMap, time::Duration};

use rmcp::transport::streamable_http_server::session::SessionId;
use skills_core::WorkAccount;

use super::sessions::{Session, SessionMap};

/// Most sessions at once, of all routes.
const MAX_SESSIONS: usize = 2_048;
/// Most sessions of one client.
const MAX_PER_CLIENT: usize = MAX_SESSIONS / 2;
/// Time after which an unused session without a stream is idle.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Sessions that each eviction checks for idleness, so that idle ones go also below the limits.
const IDLE_CHECKS: usize = 2;

/// Removes sessions that are idle or exceed the limits. The newest session stays.
pub(super) fn evict(sessions: &mut SessionMap) -> Vec<(SessionId, Session)> {
    let oldest = sessions.iter().rev().filter(|(_, session)| !session.has_stream());
    let idle: Vec<SessionId> = oldest
        .take(IDLE_CHECKS)
        .filter(|(_, session)| session.last_used.elapsed() > IDLE_TIMEOUT)
        .map(|(id, _)| id.clone())
        .collect();
    let mut evicted: Vec<_> = idle.iter().filter_map(|id| sessions.pop_entry(id)).collect();
    while let Some(client) = client_above_limit(sessions)
        && let Some(id) = eviction_candidate(sessions, &client)
    {
        evicted.extend(sessions.pop_entry(&id));
    }
    evicted
}

/// Returns the client of the newest session if it exceeds its share; above the total limit, the client with the most
/// sessions.
fn client_above_limit(sessions: &SessionMap) -> Option<WorkAccount> {
    let newest = sessions.iter().next()?.1.client.clone();
    let count = sessions.iter().filter(|(_, session)| session.client == newest).count();
    if count > MAX_PER_CLIENT {
        return Some(newest);
    }
    if sessions.len() <= MAX_SESSIONS {
        return None;
    }
    let mut counts = HashMap::<&WorkAccount, usize>::new();
    for (_, session) in sessions {
        *counts.entry(&session.client).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(client, _)| client.clone())
}

/// Returns the session of a client that goes first. The newest session of all is no candidate.
fn eviction_candidate(sessions: &SessionMap, client: &WorkAccount) -> Option<SessionId> {
    let oldest_first = sessions.iter().rev().take(sessions.len().saturating_sub(1));
    oldest_first
        .filter(|(_, session)| session.client == *client)
        // The first of equals.
        .min_by_key(|(_, session)| (session.has_stream(), session.was_used))
        .map(|(id, _)| id.clone())
}

#[cfg(test)]
mod tests {
    use axum::extract::Request;
    use lru::LruCache;
    use skills_core::{MemoryBudget, WorkAccounts};

    use super::*;
    use crate::{McpProfile, http::opening_request::OpeningRequest};

    fn session(has_stream: bool) -> Session {
        let mut session =
            Session::new(OpeningRequest::new(&Request::default()), McpProfile::Full, None);
        session.was_used = true;
        if has_stream {
            session.replace_stream();
        }
        session
    }

    fn evicted(sessions: &mut SessionMap) -> Vec<SessionId> {
        evict(sessions).into_iter().map(|(id, _)| id).collect()
    }

    #[test]
    fn the_limits_are_documented() {
        let page = include_str!("../../../../docs/mcp.md");
        let limits = format!(
            "| sessions | {MAX_SESSIONS} in total on all routes, {MAX_PER_CLIENT} for one client"
        );
        assert!(page.contains(&limits), "docs/mcp.md has no {limits:?}");
    }

    #[test]
    fn the_session_used_longest_ago_without_a_stream_goes_first() {
        let mut sessions = LruCache::unbounded();
        sessions.put("listening".into(), session(true));
        for number in 0..MAX_PER_CLIENT {
            sessions.put(number.to_string().into(), session(false));
        }
        assert_eq!(evicted(&mut sessions), ["0".into()]);
        assert_eq!(sessions.len(), MAX_PER_CLIENT);
    }

    #[test]
    fn when_all_have_streams_the_oldest_goes_and_not_the_new_one() {
        let mut sessions = LruCache::unbounded();
        for number in 0..MAX_PER_CLIENT {
            sessions.put(number.to_string().into(), session(true));
        }
        sessions.put("new".into(), session(false));
        assert_eq!(evicted(&mut sessions), ["0".into()]);
        assert!(sessions.contains("new"));
    }

    #[test]
    fn a_client_at_its_share_loses_its_own_sessions_and_never_those_of_others() {
        let mut sessions = LruCache::unbounded();
        let accounts = WorkAccounts::new(MemoryBudget::default());
        let (one, other) = (accounts.open(), accounts.open());
        let session = |client: &WorkAccount, was_used| {
            let mut session = session(false);
            (session.client, session.was_used) = (client.clone(), was_used);
            session
        };
        sessions.put("other".into(), session(&other, false));
        for number in 0..MAX_PER_CLIENT {
            sessions.put(format!("mine-{number}").into(), session(&one, number != 5));
        }
        sessions.put("new".into(), session(&one, false));
        assert_eq!(evicted(&mut sessions), ["mine-5".into()], "one that was never used goes first");
        sessions.put("newer".into(), session(&one, true));
        assert_eq!(evicted(&mut sessions), ["new".into()]);
        sessions.put("newest".into(), session(&one, true));
        assert_eq!(evicted(&mut sessions), ["mine-0".into()]);
        assert!(sessions.contains("other"));
    }

    #[test]
    fn above_the_total_limit_the_client_with_the_most_sessions_loses_one() {
        let mut sessions = LruCache::unbounded();
        let accounts = WorkAccounts::new(MemoryBudget::default());
        let session = |client: &WorkAccount| {
            let mut session = session(false);
            session.client = client.clone();
            session
        };
        let greedy = accounts.open();
        for number in 0..MAX_SESSIONS {
            let client = if number < MAX_PER_CLIENT { greedy.clone() } else { accounts.open() };
            sessions.put(number.to_string().into(), session(&client));
        }
        sessions.put("new".into(), session(&accounts.open()));
        assert_eq!(evicted(&mut sessions), ["0".into()]);
    }
}
