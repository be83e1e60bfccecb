use skills_core::{Tier, keyspace::KeyspaceLine};

use super::*;
use crate::{
    CalledSkill, KeySelector, Plan, PlanLimits, RateLimits, Vault,
    vault::testing::{MASTER, NOW, TestSite, actor, contract, later, master, owner},
};

const HASH: &str = "1ac7f2dbf6a3aa2b8c4c0ff95325882101df62151e861cf94f2a8ef01187e1d0";
const HELLO: &str = "000102030405060708090a0b.41c43c4c932efc0c18e08262fb642111.7e7dd95a2f";

fn line(text: &str) -> KeyspaceLine {
    KeyspaceLine::parse(1, text).unwrap().unwrap()
}

fn import(vault: &Vault, text: &str) -> KeyspaceImport {
    vault.import(actor(), &[line(text)]).unwrap().remove(0)
}

fn entry(key: &str, value: &str) -> String {
    serde_json::json!({ "key": key, "value": value }).to_string()
}

fn skipped(outcome: &KeyspaceImport, words: &str) {
    match outcome {
        KeyspaceImport::Skipped { reason } => assert!(reason.contains(words), "{reason}"),
        other => panic!("not skipped for {words:?}: {other:?}"),
    }
}

fn clean(outcome: &KeyspaceImport) {
    assert_eq!(*outcome, KeyspaceImport::Imported { notes: vec![] });
}

fn migrated(outcome: &KeyspaceImport, to_be: &str) {
    match outcome {
        KeyspaceImport::Migrated { to, .. } => assert_eq!(to, to_be),
        other => panic!("not migrated: {other:?}"),
    }
}

fn secret(vault: &Vault, skill: &str, name: &str) -> Option<String> {
    let skill = CalledSkill { tier: Tier::Private, id: &skill.parse().unwrap(), origin: None };
    let values = vault.secrets_for_call(&owner("ann"), skill, &[name.to_owned()]);
    values.ok().map(|values| values[name].to_string())
}

contract! {
    keys_are_imported_with_their_expiry,
    deprecated_keys_are_migrated_and_never_override,
    secrets_are_encrypted_again_or_skipped_with_a_reason,
    without_a_master_key_no_plain_text_is_stored,
    rate_counters_of_other_minutes_are_skipped,
    lines_of_the_registry_are_skipped,
    a_failing_line_does_not_affect_others,
    an_export_can_be_imported,
    an_export_spans_pages,
}

fn keys_are_imported_with_their_expiry(site: &TestSite) {
    let vault = site.vault();
    let key = format!("auth:hash:{HASH}");
    clean(&import(&vault, &format!(r#"{{"key":"{key}","value":"ann","ttl":60}}"#)));
    assert!(vault.find_key("us-test-key-1", later(59)).unwrap().is_some());
    assert_eq!(vault.find_key("us-test-key-1", later(60)).unwrap(), None);
    let seconds = NOW.as_micros() / 1_000_000;
    let at = |moment| format!(r#"{{"key":"{key}","value":"ann","expiration":{moment}}}"#);
    clean(&import(&vault, &at(seconds + 120)));
    assert!(vault.find_key("us-test-key-1", later(119)).unwrap().is_some());
    skipped(&import(&vault, &at(seconds - 1)), "expired");
    skipped(&import(&vault, &entry(&key, "bob")), "another user");
    skipped(&import(&vault, &entry(&key, "a b")), "space");
    skipped(&import(&vault, &entry(&key, "00000000-0000-0000-0000-000000000000")), "nil UUID");
    vault.revoke_keys(actor(), KeySelector::Owner(&owner("ann"))).unwrap();
    skipped(&import(&vault, &entry(&key, "ann")), "revoked");
    assert_eq!(vault.find_key("us-test-key-1", NOW).unwrap(), None);
}

fn deprecated_keys_are_migrated_and_never_override(site: &TestSite) {
    let vault = site.vault();
    let ann = owner("ann");
    let auth = format!("auth:hash:{HASH}");
    let outcome = import(&vault, &entry(&format!("user:uid:{HASH}"), "ann"));
    migrated(&outcome, &auth);
    skipped(&import(&vault, &entry(&format!("user:uid:{HASH}"), "bob")), "exists already");
    let thirty_days = 30 * 24 * 60 * 60;
    assert!(vault.find_key("us-test-key-1", later(thirty_days - 1)).unwrap().is_some());
    assert_eq!(vault.find_key("us-test-key-1", later(thirty_days)).unwrap(), None);

    migrated(&import(&vault, &entry("credits:ann", "12.5")), "profile:ann");
    migrated(&import(&vault, &entry("tier:ann", "PRO")), "profile:ann");
    skipped(&import(&vault, &entry("user:credits:ann", "99")), "already set");
    skipped(&import(&vault, &entry(&format!("user:credits:{HASH}"), "99")), "already set");
    skipped(&import(&vault, &entry("credits:bob", "many")), "not a number");
    skipped(&import(&vault, &entry("credits:bob", "NaN")), "finite");
    let stranger = format!("user:credits:{}", HASH.replace('1', "2"));
    skipped(&import(&vault, &entry(&stranger, "5")), "unknown key");
    let profile = vault.profile(&ann).unwrap().unwrap();
    assert_eq!((profile.credits, profile.plan), (12.5, Plan::Pro));

    // A profile overrides them, whichever comes first.
    clean(&import(&vault, r#"{"key":"user:profile:ann","value":{"credits":3,"tier":"SCALE"}}"#));
    skipped(&import(&vault, &entry("tier:ann", "FREE")), "already set");
    let profile = vault.profile(&ann).unwrap().unwrap();
    assert_eq!((profile.credits, profile.plan), (3.0, Plan::Scale));

    let KeyspaceImport::Migrated { notes, .. } = import(&vault, &entry("tier:eve", "GOLD")) else {
        panic!("not migrated");
    };
    assert!(notes[0].contains("GOLD"), "{notes:?}");
    skipped(&import(&vault, &entry("profile:ann", "not JSON")), "not a JSON object");
}

fn secrets_are_encrypted_again_or_skipped_with_a_reason(site: &TestSite) {
    let vault = site.vault();
    let object = serde_json::json!({
        "LEGACY": HELLO,
        "PLAIN": "a.jwt.shape",
        "CUT": HELLO.replace("41c43c4c932efc0c18e08262fb642111", "41c43c4c"),
        "WRONG": HELLO.replace("7e7d", "7e7e"),
        "no name": "x",
        "NUMBER": 7,
        "EMPTY": "",
    });
    let text = serde_json::json!({ "key": "user:secrets:ann", "value": object }).to_string();
    let KeyspaceImport::Imported { notes } = import(&vault, &text) else { panic!("not imported") };
    for words in [
        "LEGACY had the legacy format",
        "PLAIN was not encrypted",
        "CUT is skipped: the envelope is truncated",
        "WRONG is skipped",
        "\"no name\" is skipped",
        "NUMBER is skipped: the value is not a string",
        "EMPTY is skipped: the value is empty",
    ] {
        assert!(notes.iter().any(|note| note.starts_with(words)), "{words}: {notes:?}");
    }
    assert_eq!(notes.len(), 7);
    assert!(!format!("{notes:?}").contains("jwt"));
    assert_eq!(secret(&vault, "echo", "LEGACY").as_deref(), Some("hello"));
    assert_eq!(secret(&vault, "echo", "PLAIN").as_deref(), Some("a.jwt.shape"));
    assert_eq!(vault.rotate_secrets(actor()).unwrap().current, 2, "both have the current format");

    let list = format!(r#"[{{"key":"LISTED","value":"{HELLO}"}}]"#);
    let outcome = import(&vault, &entry("skill:secrets:ann:echo", &list));
    assert!(matches!(outcome, KeyspaceImport::Imported { .. }));
    assert_eq!(secret(&vault, "echo", "LISTED").as_deref(), Some("hello"));
    assert_eq!(secret(&vault, "other", "LISTED"), None);
    skipped(&import(&vault, &entry("skill:secrets:ann", "7")), "neither an object");
    skipped(&import(&vault, &entry("skill:secrets:ann", "{}")), "no secrets");
    skipped(&import(&vault, &entry("skill:secrets:ann", r#"[{"key":"A"}]"#)), "neither");
}

fn without_a_master_key_no_plain_text_is_stored(site: &TestSite) {
    let _ = site.vault();
    let vault = site.open(None);
    let text = serde_json::json!({ "LEGACY": HELLO, "PLAIN": "x" }).to_string();
    let KeyspaceImport::Imported { notes } = import(&vault, &entry("skill:secrets:ann", &text))
    else {
        panic!("not imported");
    };
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert_eq!(vault.secrets(&owner("ann")).unwrap().len(), 1);
    drop(vault);
    let vault = site.open(Some(master(MASTER, None)));
    assert_eq!(secret(&vault, "echo", "LEGACY").as_deref(), Some("hello"));
    assert_eq!(vault.rotate_secrets(actor()).unwrap().rotated, 1);
}

fn rate_counters_of_other_minutes_are_skipped(site: &TestSite) {
    let vault = site.vault();
    let minute = NOW.as_micros() / 60_000_000;
    let count = |minute: i64, used: &str| {
        import(&vault, &entry(&format!("ratelimit:{HASH}:{minute}"), used))
    };
    skipped(&count(minute - 1, "3"), "over");
    skipped(&count(minute + 2, "3"), "far");
    skipped(&count(minute, "many"), "not a number");
    clean(&count(minute, "3"));
    let limits = RateLimits::new(PlanLimits::default());
    limits.resume(&vault.windows(NOW).unwrap(), NOW);
    let hash = HASH.parse().unwrap();
    assert_eq!(limits.take_locally(&hash, Plan::Free, NOW).remaining, 26);
}

fn lines_of_the_registry_are_skipped(site: &TestSite) {
    let vault = site.vault();
    for key in ["skill:official:a", "mcp_registry:tools_cache", "mcp_broadcast:tools_changed"] {
        skipped(&import(&vault, &entry(key, "{}")), "not part of the vault");
    }
}

fn a_failing_line_does_not_affect_others(site: &TestSite) {
    let vault = site.vault();
    let full: serde_json::Map<_, _> =
        (0..1001).map(|number| (format!("N{number}"), HELLO.into())).collect();
    let lines = [
        line(&entry("tier:ann", "PRO")),
        line(&serde_json::json!({ "key": "skill:secrets:ann", "value": full }).to_string()),
        line(&entry("tier:bob", "PRO")),
    ];
    let outcomes = vault.import(actor(), &lines).unwrap();
    skipped(&outcomes[1], "the maximum");
    assert!(vault.profile(&owner("bob")).unwrap().is_some());
    assert_eq!(vault.secrets(&owner("ann")).unwrap(), []);
}

fn an_export_can_be_imported(site: &TestSite) {
    let vault = site.vault();
    let minute = NOW.as_micros() / 60_000_000;
    for text in [
        &format!(r#"{{"key":"auth:hash:{HASH}","value":"ann","expiration":1800000000}}"#),
        &entry(&format!("auth:hash:{}", HASH.replace('1', "2")), "bob"),
        &entry("tier:ann", "PRO"),
        &entry("skill:secrets:ann", r#"{"A":"one","B":"two"}"#),
        &entry("skill:secrets:ann:echo", r#"{"A":"three"}"#),
        &entry("skill:secrets:bob", r#"{"A":"four"}"#),
        &entry(&format!("ratelimit:{HASH}:{minute}"), "3"),
    ] {
        assert!(!matches!(import(&vault, text), KeyspaceImport::Skipped { .. }), "{text}");
    }
    vault.revoke_keys(actor(), KeySelector::Owner(&owner("bob"))).unwrap();
    let export = |vault: &Vault| -> Vec<String> {
        vault.export(NOW).map(|line| line.unwrap().to_string()).collect()
    };
    let lines = export(&vault);
    let keys: Vec<String> = lines.iter().map(|text| line(text).key.to_string()).collect();
    assert_eq!(
        keys,
        [
            &format!("auth:hash:{HASH}"),
            "profile:ann",
            "skill:secrets:ann",
            "skill:secrets:ann:echo",
            "skill:secrets:bob",
            &format!("ratelimit:{HASH}:{minute}"),
        ]
    );
    assert!(!lines.concat().contains("three"), "secrets stay encrypted");

    let elsewhere = TestSite::sqlite();
    let other = elsewhere.vault();
    let parsed: Vec<KeyspaceLine> = lines.iter().map(|text| line(text)).collect();
    other.import(actor(), &parsed).unwrap().iter().for_each(clean);
    assert_eq!(export(&other), lines);
    assert_eq!(secret(&other, "echo", "A").as_deref(), Some("three"));
    assert_eq!(secret(&other, "echo", "B").as_deref(), Some("two"));
}

fn an_export_spans_pages(site: &TestSite) {
    let vault = site.vault();
    let lines: Vec<KeyspaceLine> = (0..1200)
        .flat_map(|number| {
            let hash = skills_core::Digest::of(&[number as u8, (number >> 8) as u8]);
            [
                line(&entry(&format!("auth:hash:{hash}"), &format!("u{number}"))),
                line(&entry(&format!("tier:u{number}"), "FREE")),
                line(&entry(
                    &format!("skill:secrets:u{}", number % 9),
                    &format!(r#"{{"N{number}":"x"}}"#),
                )),
            ]
        })
        .collect();
    vault.import(actor(), &lines).unwrap();
    let exported: Vec<KeyspaceLine> = vault.export(NOW).map(Result::unwrap).collect();
    let count = |prefix: &str| {
        exported.iter().filter(|line| line.key.to_string().starts_with(prefix)).count()
    };
    assert_eq!((count("auth:"), count("profile:"), count("skill:secrets:")), (1200, 1200, 9));
}
