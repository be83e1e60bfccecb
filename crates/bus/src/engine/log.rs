//! What the SDK logs.

use tracing::{Level, Metadata};

/// Whether an event comes from the SDK and says nothing that this crate does not say better.
///
/// Every failed attempt to connect is a warning there, every two seconds, and so is that trigger
/// types are deprecated. What remains: a function that another worker has already, a trigger that
/// was refused, and other errors.
#[must_use]
pub fn is_noise(event: &Metadata<'_>) -> bool {
    // Telemetry: it has the same engine to reach, and says so too.
    if event.target().starts_with("iii_helpers") {
        return *event.level() <= Level::WARN;
    }
    if !event.target().starts_with("iii_sdk") {
        return false;
    }
    match *event.level() {
        // Also said by the monitor.
        Level::ERROR => event.fields().len() == 2 && event.fields().field("error").is_some(),
        Level::WARN => event.fields().field("owner_worker_id").is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, PoisonError};

    use tracing::{Event, Subscriber, span};

    use super::*;

    /// Notes what is not noise.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<usize>>);

    impl Subscriber for Kept {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }
        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn event(&self, event: &Event<'_>) {
            if !is_noise(event.metadata()) {
                *self.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            }
        }
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    #[test]
    fn what_nobody_else_says_is_kept() {
        let kept = Kept::default();
        tracing::subscriber::with_default(kept.clone(), || {
            tracing::warn!(target: "iii_sdk::iii", error = "refused", "failed to connect; retrying");
            tracing::warn!(target: "iii_sdk::iii", "register_trigger is deprecated");
            tracing::error!(target: "iii_sdk::iii", error = "x", "not reconnecting");
            tracing::error!(target: "iii_helpers::observability", "Failed to connect");
            assert_eq!(*kept.0.lock().unwrap_or_else(PoisonError::into_inner), 0);
            tracing::warn!(target: "iii_sdk::iii", code = "c", owner_worker_id = "w", "rejected");
            tracing::error!(target: "iii_sdk::iii", trigger_id = "t", code = "c", "refused");
            tracing::warn!(target: "skills_bus::engine", "ours");
        });
        assert_eq!(*kept.0.lock().unwrap_or_else(PoisonError::into_inner), 3);
    }
}
