//! Pages of the audit log.

use std::collections::BTreeSet;

use skills_core::{Layer, Timestamp};
use skills_vault::Actor;

use crate::{admin::admin, test_gateway::TestGateway};

/// Paging follows entry numbers, so that it skips nothing whatever the timestamps are.
#[tokio::test]
async fn paging_skips_nothing_when_timestamps_and_numbers_disagree() {
    let gateway = TestGateway::open();
    let now = skills_vault::now().as_micros();
    let moment = |seconds: i64| Timestamp::from_micros(now + seconds * 1_000_000);
    // Concurrent writers may take their timestamps in another order than their numbers.
    for (number, seconds) in [10, -50, 3, 3, -7, 40, -90].into_iter().enumerate() {
        let actor = Actor { name: "test", at: moment(seconds) };
        gateway.vault.record(actor, "test.act", &format!("people {number}")).unwrap();
        let id = format!("content{number}");
        let write = gateway.registry.register_skill("test", &Layer::Official, &id, "# A".into());
        write.await.unwrap();
    }
    for limit in [1, 2, 3, 5, 100] {
        let (mut seen, mut cursor) = (BTreeSet::new(), String::new());
        loop {
            let (_, page) =
                gateway.get(&admin(), &format!("/v1/admin/log?limit={limit}{cursor}")).await;
            let rows = page["data"].as_array().unwrap();
            assert!(rows.len() <= limit, "{limit:?}");
            if rows.is_empty() {
                break;
            }
            for row in rows {
                let subject = row["subject"].as_str().unwrap().to_owned();
                assert!(seen.insert(subject.clone()), "{limit}: {subject} twice");
            }
            cursor = format!("&cursor={}", page["next_cursor"].as_str().unwrap());
        }
        assert_eq!(seen.len(), 14, "{limit}: {seen:?}");
    }
}
