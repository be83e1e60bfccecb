//! Records of imports: one server at a time has the lease of a record, and only it may replace the text.

use std::time::Duration;

use skills_store::{ImportRecords, LeasedRecord, MemoryImportRecords, ServerId};

use crate::postgres::TestDatabase;

const LONG: Duration = Duration::from_secs(60);

fn check(records: &dyn ImportRecords) {
    let (one, two) = (ServerId::new(), ServerId::new());
    let leased = |text: Option<&str>| Some(LeasedRecord { text: text.map(str::to_owned) });
    assert_eq!(records.list().unwrap(), [] as [&str; 0]);

    // Only one has it, until it saves.
    assert_eq!(records.lease("b", one, LONG).unwrap(), leased(None));
    assert_eq!(records.lease("b", one, LONG).unwrap(), leased(None));
    assert_eq!(records.lease("b", two, LONG).unwrap(), None);
    assert_eq!(records.text("b").unwrap(), None, "leased, but never saved");
    assert_eq!(records.text("absent").unwrap(), None);
    assert_eq!(records.lease("a", two, LONG).unwrap(), leased(None));
    assert!(!records.save("b", two, "stolen").unwrap());
    assert!(records.save("b", one, "first \u{1f600} 'x'").unwrap());
    assert!(!records.save("b", one, "again").unwrap(), "the lease ended");
    assert_eq!(records.lease("b", two, LONG).unwrap(), leased(Some("first \u{1f600} 'x'")));
    assert_eq!(records.text("b").unwrap().as_deref(), Some("first \u{1f600} 'x'"), "also leased");
    assert!(records.renew("b", two, LONG).unwrap());
    assert!(!records.renew("b", one, LONG).unwrap());
    assert!(!records.renew("c", one, LONG).unwrap());

    // A lease that is over goes to the next, and its holder saves nothing.
    assert!(records.renew("b", two, Duration::ZERO).unwrap());
    assert_eq!(records.lease("b", one, LONG).unwrap(), leased(Some("first \u{1f600} 'x'")));
    assert!(!records.save("b", two, "late").unwrap());
    assert!(records.save("b", one, "second").unwrap());
    assert!(records.save("a", two, "other").unwrap());
    assert_eq!(records.list().unwrap(), ["other", "second"]);
}

#[test]
fn records_in_memory_are_replaced_by_one_server_at_a_time() {
    check(&MemoryImportRecords::default());
}

#[test]
fn records_in_postgres_are_replaced_by_one_server_at_a_time() {
    let Some(database) = TestDatabase::new() else { return };
    check(&database.open());
}
