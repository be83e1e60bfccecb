//! Search of an attached worker, whose skills are in the state of an engine.

use serde_json::json;

use super::{result_ids, search};
use crate::support::{
    attached::AttachedWorker,
    engine::{TestEngine, delete, record, set},
    register,
    wait::eventually,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_writes_and_external_changes_are_found() {
    let engine = TestEngine::start().await;
    let _attached = AttachedWorker::start(&engine).await;
    let worker = engine.worker().await;
    register(&worker, "own", "# Own\n\nText.\n\nBurns kerosene.\n").await;
    assert_eq!(result_ids(&search(&worker, "kerosene").await), ["own"]);
    set(&worker, "skills", "other", &record("other", "# Other\n\nText.\n\nMilks a yak.\n")).await;
    eventually("the external entry is found", async || {
        result_ids(&search(&worker, "yak").await) == ["other"]
    })
    .await;
    set(&worker, "skills", "other", &record("other", "# Other\n\nText.\n\nRides a camel.\n")).await;
    eventually("the new text is found", async || {
        result_ids(&search(&worker, "camel").await) == ["other"]
    })
    .await;
    assert_eq!(search(&worker, "yak").await["results"], json!([]));
    delete(&worker, "skills", "other").await;
    eventually("the removed entry is not found", async || {
        result_ids(&search(&worker, "camel").await).is_empty()
    })
    .await;
}
