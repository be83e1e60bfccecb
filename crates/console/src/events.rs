//! Stream of changes as Server-Sent Events: what is different, so that a page can fetch it.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use futures_util::{Stream, StreamExt as _, future, stream};
use serde::Serialize;
use skills_registry::ChangeEvent;
use tokio::time::{Instant, interval_at};

use crate::{error::ConsoleError, session::SessionEnd, visit::Visit};

/// Most open streams of all browsers.
pub(crate) const MAX_STREAMS: usize = 512;
/// Longest stream. Browsers open the next one themselves.
const MAX_DURATION: Duration = Duration::from_secs(15 * 60);
/// Interval of comments that keep a connection open and find those that are gone.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// Streams the changes that the person may see, until their session or key ends.
pub(crate) async fn stream(visit: Visit) -> Result<Response, ConsoleError> {
    let session = visit.console.sessions.end_of(&visit.session);
    let is_open = visit.identity.as_ref().is_some_and(|it| !it.is_signed_in() || session.is_some());
    if !is_open {
        // Tells the browser not to try again; the script then loads the page anew.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let skills = visit.skills()?;
    let Ok(permit) = visit.console.streams.clone().try_acquire_owned() else {
        return Ok((StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "10")]).into_response());
    };
    let changes = skills.changes().map(|event| text(&event));
    let end = Box::pin(end_of(session));
    let events = with_keep_alive(changes).take_until(end).map(move |text| {
        // The permit lives as long as the stream.
        let _ = &permit;
        Ok::<_, Infallible>(Bytes::from(text))
    });
    let first = stream::iter([Ok(Bytes::from_static(b"retry: 1000\n: open\n\n"))]);
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(first.chain(events))).into_response())
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

    #[tokio::test(start_paused = true)]
    async fn the_stream_is_kept_alive_and_ends_with_the_changes() {
        let changes = stream::iter(["one".to_owned()]);
        let events: Vec<_> = with_keep_alive(changes).collect().await;
        assert_eq!(events, ["one"]);
        let mut idle = Box::pin(with_keep_alive(stream::pending()));
        assert_eq!(idle.next().await.as_deref(), Some(": alive\n\n"));
    }
}
