//! Watches the health of the writer thread: `/readyz` fails while it recovers, and a server whose writer has failed ends,
//! so that its supervisor restarts it.

use skills_core::Code;
use skills_http::{Readiness, ServerProblem};
use skills_registry::WriterHealth;
use tokio::sync::watch;

use crate::Failure;

const RECOVERING: ServerProblem = ServerProblem {
    message: "the writer is recovering from an internal error",
    hint: "wait a moment and send changes again; reads work meanwhile",
};
const STOPPED: ServerProblem = ServerProblem {
    message: "the writer stopped after an internal error",
    hint: "restart the server; all acknowledged writes are stored",
};

/// Updates readiness from the writer's health. Returns when the writer has failed for good.
pub(crate) async fn watch_writer(
    mut health: watch::Receiver<WriterHealth>,
    readiness: &Readiness,
) -> Failure {
    loop {
        match *health.borrow_and_update() {
            WriterHealth::Writing => readiness.set_impaired(None),
            WriterHealth::Recovering => {
                readiness.set_impaired(Some(RECOVERING));
            }
            WriterHealth::Failed => {
                readiness.set_impaired(Some(STOPPED));
                let message = "the writer thread stopped after an internal error; nothing can be stored any more";
                return Failure::new(Code::WriterStopped, message)
                    .hint("restart the server; all acknowledged writes are stored");
            }
        }
        if health.changed().await.is_err() {
            // The registry was dropped, so its writer cannot fail any more.
            return std::future::pending().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failed_writer_ends_the_watch() {
        let (sender, health) = watch::channel(WriterHealth::Recovering);
        let readiness = Readiness::default();
        let watch = watch_writer(health, &readiness);
        tokio::pin!(watch);
        assert!(futures_util::poll!(watch.as_mut()).is_pending());
        sender.send_replace(WriterHealth::Writing);
        assert!(futures_util::poll!(watch.as_mut()).is_pending());
        sender.send_replace(WriterHealth::Failed);
        assert_eq!(watch.await.code, Code::WriterStopped);
    }
}
