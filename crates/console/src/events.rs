//! Stream of changes as Server-Sent Events: what is different, so that a page can fetch it.

use std::{
    convert::Infallible,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use futures_util::{Stream, StreamExt as _, future, stream};
use serde::Serialize;
use skills_core::{OwnedTable, TableFull, TableLimits};
use skills_registry::ChangeEvent;
use tokio::time::{Instant, interval_at};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    error::ConsoleError,
    session::{Person, SessionEnd},
    visit::Visit,
};

/// Longest stream. Browsers open the next one themselves.
const MAX_DURATION: Duration = Duration::from_secs(15 * 60);
/// Interval of comments that keep a connection open and find those that are gone.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// Limits of open streams. One more of a person ends their oldest: pages have a stream while they are visible.
const STREAMS: TableLimits =
    TableLimits { per_owner: 32, total: 1024, idle: EXPIRY, lifetime: EXPIRY };
/// Time after which an entry of the table is none of an open stream.
const EXPIRY: Duration = MAX_DURATION.saturating_mul(2);
/// Last event of a stream that another one of its person replaced. The script then waits for its person to come back to
/// the page: a browser that opened the stream again at once would end another one.
const REPLACED: &str = "event: replaced\ndata: {}\n\n";

/// Open streams.
pub(crate) struct Streams {
    table: OwnedTable<u64, DropGuard, Person>,
    next_number: AtomicU64,
}

/// Entry of an open stream, which leaves the table when it is dropped.
struct OpenStream {
    table: OwnedTable<u64, DropGuard, Person>,
    number: u64,
    /// Cancelled when another stream replaces this one.
    replaced: CancellationToken,
}

impl Streams {
    pub(crate) fn new() -> Self {
        Self { table: OwnedTable::new(STREAMS), next_number: AtomicU64::new(0) }
    }

    fn open(&self, person: Person) -> Result<OpenStream, TableFull> {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let replaced = CancellationToken::new();
        self.table.insert(person, number, replaced.clone().drop_guard())?;
        Ok(OpenStream { table: self.table.clone(), number, replaced })
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.table.remove(&self.number);
    }
}

/// Streams the changes that the person may see, until their session or key ends.
pub(crate) async fn stream(visit: Visit) -> Result<Response, ConsoleError> {
    let session = visit.console.sessions.end_of(&visit.session);
    let is_open = !visit.is_signed_in() || session.is_some();
    let Some(identity) = visit.identity.as_ref().filter(|_| is_open) else {
        // Tells the browser not to try again; the script then loads the page anew.
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let skills = visit.skills()?;
    let open = visit.console.streams.open(Person::of(identity))?;
    let changes = skills.changes().map(|event| text(&event));
    let events = with_end(with_keep_alive(changes), end_of(session), open);
    let events = events.map(|text| Ok::<_, Infallible>(Bytes::from(text)));
    let first = stream::iter([Ok(Bytes::from_static(b"retry: 1000\n: open\n\n"))]);
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(first.chain(events))).into_response())
}

/// Ends a stream at its end, or when another one replaces it, which is its last event.
fn with_end(
    events: impl Stream<Item = String> + Send,
    end: impl Future<Output = ()> + Send,
    open: OpenStream,
) -> impl Stream<Item = String> + Send {
    let replaced = open.replaced.clone();
    let end = future::select(Box::pin(end), Box::pin(replaced.cancelled_owned()));
    let last = stream::once(async move {
        // The entry lives as long as the stream.
        let is_replaced = open.replaced.is_cancelled();
        is_replaced.then(|| REPLACED.to_owned())
    });
    events.take_until(end).chain(last.filter_map(std::future::ready))
}

/// Completes when a stream has to end.
async fn end_of(session: Option<SessionEnd>) {
    let Some(SessionEnd { ended, remaining }) = session else {
        return tokio::time::sleep(MAX_DURATION).await;
    };
    let time = tokio::time::sleep(MAX_DURATION.min(remaining));
    future::select(Box::pin(time), Box::pin(ended.cancelled())).await;
}

/// Data of an event.
#[derive(Serialize)]
struct ChangeData<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
}

/// Formats an event.
fn text(event: &ChangeEvent) -> String {
    let (kind, id) = match event {
        ChangeEvent::Skill(id) => ("skill", Some(&**id)),
        ChangeEvent::Prompt(name) => ("prompt", Some(&**name)),
        ChangeEvent::SkillVersions(id) | ChangeEvent::SkillVersion { id, .. } => {
            ("skill-versions", Some(&**id))
        }
        ChangeEvent::PromptVersions(name) => ("prompt-versions", Some(&**name)),
        ChangeEvent::Collection(name) => ("collection", Some(&**name)),
        ChangeEvent::Tools => ("tools", None),
        ChangeEvent::Functions => ("functions", None),
        ChangeEvent::Everything => ("everything", None),
    };
    // JSON has no line ends, which would end the event.
    let data = serde_json::to_string(&ChangeData { kind, id }).unwrap_or_default();
    format!("event: change\ndata: {data}\n\n")
}

/// Adds comments while nothing happens, and ends with the changes.
fn with_keep_alive(
    changes: impl Stream<Item = String> + Send,
) -> impl Stream<Item = String> + Send {
    let ticks = interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
    let comments = stream::unfold(ticks, |mut ticks| async move {
        ticks.tick().await;
        Some((Some(": alive\n\n".to_owned()), ticks))
    });
    let changes = changes.map(Some).chain(stream::iter([None]));
    stream::select(Box::pin(changes), Box::pin(comments))
        .take_while(|item| std::future::ready(item.is_some()))
        .filter_map(std::future::ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_of_json() {
        let event = text(&ChangeEvent::Skill("a/b\n\ndata: x".into()));
        assert_eq!(
            event,
            "event: change\ndata: {\"kind\":\"skill\",\"id\":\"a/b\\n\\ndata: x\"}\n\n"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_with_its_session() {
        let ended = tokio_util::sync::CancellationToken::new();
        let short = Duration::from_secs(1);
        let session = |remaining| Some(SessionEnd { ended: ended.clone(), remaining });
        for (session, after) in [
            (None, MAX_DURATION),
            (session(short), short),
            (session(MAX_DURATION * 9), MAX_DURATION),
        ] {
            let start = Instant::now();
            end_of(session).await;
            assert_eq!(start.elapsed().as_secs(), after.as_secs());
        }
        ended.cancel();
        let start = Instant::now();
        end_of(session(short)).await;
        assert!(start.elapsed().is_zero());
    }

    #[test]
    fn the_documentation_has_the_limits() {
        let TableLimits { per_owner, total, .. } = STREAMS;
        let row = format!("| streams of changes | {per_owner} of a person, {total} in all |");
        assert!(crate::DOCUMENTATION.contains(&row), "{row}");
    }

    #[tokio::test(start_paused = true)]
    async fn streams_of_one_person_end_only_their_own_oldest() {
        let streams = Streams::new();
        let person = |name: &str| Person::User(name.parse().unwrap());
        let open = |name: &str| {
            let open = streams.open(person(name)).unwrap();
            Box::pin(with_end(stream::pending(), end_of(None), open))
        };
        let mut of_bob = open("bob");
        let mut of_ann: Vec<_> = (0..STREAMS.total).map(|_| open("ann")).collect();
        let ended = of_ann.len() - STREAMS.per_owner;
        for stream in &mut of_ann[..ended] {
            let events: Vec<_> = stream.collect().await;
            assert_eq!(events, [REPLACED]);
        }
        assert_eq!(streams.table.len(), STREAMS.per_owner + 1);
        let next = future::select(of_ann[ended].next(), of_bob.next());
        assert!(tokio::time::timeout(KEEP_ALIVE, next).await.is_err(), "both are open");
        drop((of_ann, of_bob));
        assert!(streams.table.is_empty(), "a closed stream leaves the table");
    }

    #[tokio::test(start_paused = true)]
    async fn the_stream_is_kept_alive_and_ends_with_the_changes() {
        let changes = stream::iter(["one".to_owned()]);
        let events: Vec<_> = with_keep_alive(changes).collect().await;
        assert_eq!(events, ["one"]);
        let mut idle = Box::pin(with_keep_alive(stream::pending()));
        assert_eq!(idle.next().await.as_deref(), Some(": alive\n\n"));
    }
}
