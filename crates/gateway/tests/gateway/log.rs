//! The log, page by page.

use std::collections::BTreeSet;

use skills_core::{Layer, Timestamp};
use skills_vault::Act;

use crate::{admin::admin, house::House};

/// Whatever the moments of entries are, a page goes on after the one before it and passes over nothing.
#[tokio::test]
async fn nothing_is_passed_over_where_moments_and_numbers_disagree() {
    let house = House::open();
    let now = skills_vault::now().as_micros();
    let moment = |seconds: i64| Timestamp::from_micros(now + seconds * 1_000_000);
    // Two who wrote at once: the one who looked at the clock first came second.
    for (number, seconds) in [10, -50, 3, 3, -7, 40, -90].into_iter().enumerate() {
        let act = Act { by: "test", at: moment(seconds) };
        house.vault.record(act, "test.act", &format!("people {number}")).unwrap();
        let id = format!("content{number}");
        let write = house.registry.register_skill_in("test", &Layer::Official, &id, "# A".into());
        write.await.unwrap();
    }
    for limit in [1, 2, 3, 5, 100] {
        let (mut seen, mut cursor) = (BTreeSet::new(), String::new());
        loop {
            let (_, page) =
                house.get(&admin(), &format!("/v1/admin/log?limit={limit}{cursor}")).await;
            let rows = page["data"].as_array().unwrap();
            assert!(rows.len() <= limit);
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
