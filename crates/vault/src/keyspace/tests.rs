use skills_core::{Tier, keyspace::Line};

use super::*;
use crate::{
    AccountTier, CalledSkill, RateLimits, TierLimits, Vault, WhichKeys,
    vault::testing::{MASTER, NOW, act, later, master, owner, vault},
};

const HASH: &str = "1ac7f2dbf6a3aa2b8c4c0ff95325882101df62151e861cf94f2a8ef01187e1d0";
const HELLO: &str = "000102030405060708090a0b.41c43c4c932efc0c18e08262fb642111.7e7dd95a2f";

fn line(text: &str) -> Line {
    Line::read(1, text).unwrap().unwrap()
}

fn import(vault: &Vault, text: &str) -> Outcome {
    vault.import(act(), &[line(text)]).unwrap().remove(0)
}

fn entry(key: &str, value: &str) -> String {
    serde_json::json!({ "key": key, "value": value }).to_string()
}

fn skipped(outcome: &Outcome, words: &str) {
    match outcome {
        Outcome::Skipped { reason } => assert!(reason.contains(words), "{reason}"),
        other => panic!("not skipped for {words:?}: {other:?}"),
    }
}

fn clean(outcome: &Outcome) {
    assert_eq!(*outcome, Outcome::Imported { notes: vec![] });
}

fn migrated(outcome: &Outcome, to_be: &str) {
    match outcome {
        Outcome::Migrated { to, .. } => assert_eq!(to, to_be),
        other => panic!("not migrated: {other:?}"),
    }
}

fn secret(vault: &Vault, skill: &str, name: &str) -> Option<String> {
    let skill = CalledSkill { tier: Tier::Private, id: &skill.parse().unwrap(), origin: None };
    let values = vault.secrets_for_call(&owner("ann"), skill, &[name.to_owned()]);
    values.ok().map(|values| values[name].to_string())
}

#[test]
fn keys_come_with_the_end_of_their_life() {
    let (vault, _dir) = vault();
    let key = format!("auth:hash:{HASH}");
    clean(&import(&vault, &format!(r#"{{"key":"{key}","value":"ann","ttl":60}}"#)));
    assert!(vault.find("us-test-key-1", later(59)).unwrap().is_some());
    assert_eq!(vault.find("us-test-key-1", later(60)).unwrap(), None);
    let seconds = NOW.as_micros() / 1_000_000;
    let at = |moment| format!(r#"{{"key":"{key}","value":"ann","expiration":{moment}}}"#);
    clean(&import(&vault, &at(seconds + 120)));
    assert!(vault.find("us-test-key-1", later(119)).unwrap().is_some());
    skipped(&import(&vault, &at(seconds - 1)), "expired");
    skipped(&import(&vault, &entry(&key, "bob")), "somebody else");
    skipped(&import(&vault, &entry(&key, "a b")), "space");
    skipped(&import(&vault, &entry(&key, "00000000-0000-0000-0000-000000000000")), "nil UUID");
    vault.revoke_keys(act(), WhichKeys::Of(&owner("ann"))).unwrap();
    skipped(&import(&vault, &entry(&key, "ann")), "revoked");
    assert_eq!(vault.find("us-test-key-1", NOW).unwrap(), None);
}

#[test]
fn deprecated_keys_are_migrated_once_and_never_win() {
    let (vault, _dir) = vault();
    let ann = owner("ann");
    let auth = format!("auth:hash:{HASH}");
    let outcome = import(&vault, &entry(&format!("user:uid:{HASH}"), "ann"));
    migrated(&outcome, &auth);
    skipped(&import(&vault, &entry(&format!("user:uid:{HASH}"), "bob")), "known already");
    let thirty_days = 30 * 24 * 60 * 60;
    assert!(vault.find("us-test-key-1", later(thirty_days - 1)).unwrap().is_some());
    assert_eq!(vault.find("us-test-key-1", later(thirty_days)).unwrap(), None);

    migrated(&import(&vault, &entry("credits:ann", "12.5")), "profile:ann");
    migrated(&import(&vault, &entry("tier:ann", "PRO")), "profile:ann");
    skipped(&import(&vault, &entry("user:credits:ann", "99")), "says it already");
    skipped(&import(&vault, &entry(&format!("user:credits:{HASH}"), "99")), "says it already");
    skipped(&import(&vault, &entry("credits:bob", "many")), "not a number");
    skipped(&import(&vault, &entry("credits:bob", "NaN")), "finite");
    let stranger = format!("user:credits:{}", HASH.replace('1', "2"));
    skipped(&import(&vault, &entry(&stranger, "5")), "not known");
    let profile = vault.profile(&ann).unwrap().unwrap();
    assert_eq!((profile.credits, profile.tier), (12.5, AccountTier::Pro));

    // A profile wins, whichever comes first.
    clean(&import(&vault, r#"{"key":"user:profile:ann","value":{"credits":3,"tier":"SCALE"}}"#));
    skipped(&import(&vault, &entry("tier:ann", "FREE")), "says it already");
    let profile = vault.profile(&ann).unwrap().unwrap();
    assert_eq!((profile.credits, profile.tier), (3.0, AccountTier::Scale));

    let Outcome::Migrated { notes, .. } = import(&vault, &entry("tier:eve", "GOLD")) else {
        panic!("not migrated");
    };
    assert!(notes[0].contains("GOLD"), "{notes:?}");
    skipped(&import(&vault, &entry("profile:ann", "not JSON")), "not a JSON object");
}

#[test]
fn secrets_are_sealed_anew_or_left_out_with_the_reason() {
    let (vault, _dir) = vault();
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
    let Outcome::Imported { notes } = import(&vault, &text) else { panic!("not imported") };
    for words in [
        "LEGACY was of the older form",
        "PLAIN was not encrypted",
        "CUT is left out: it is cut off",
        "WRONG is left out",
        "\"no name\" is left out",
        "NUMBER is left out: its value is not a text",
        "EMPTY is left out: the value is empty",
    ] {
        assert!(notes.iter().any(|note| note.starts_with(words)), "{words}: {notes:?}");
    }
    assert_eq!(notes.len(), 7);
    assert!(!format!("{notes:?}").contains("jwt"));
    assert_eq!(secret(&vault, "echo", "LEGACY").as_deref(), Some("hello"));
    assert_eq!(secret(&vault, "echo", "PLAIN").as_deref(), Some("a.jwt.shape"));
    assert_eq!(vault.rotate_secrets(act()).unwrap().current, 2, "both are of today's form");

    let list = format!(r#"[{{"key":"LISTED","value":"{HELLO}"}}]"#);
    let outcome = import(&vault, &entry("skill:secrets:ann:echo", &list));
    assert!(matches!(outcome, Outcome::Imported { .. }));
    assert_eq!(secret(&vault, "echo", "LISTED").as_deref(), Some("hello"));
    assert_eq!(secret(&vault, "other", "LISTED"), None);
    skipped(&import(&vault, &entry("skill:secrets:ann", "7")), "neither an object");
    skipped(&import(&vault, &entry("skill:secrets:ann", "{}")), "no secrets");
    skipped(&import(&vault, &entry("skill:secrets:ann", r#"[{"key":"A"}]"#)), "neither");
}

#[test]
fn without_a_master_key_nothing_is_kept_in_the_clear() {
    let (_, dir) = vault();
    let vault = Vault::open(dir.path(), None).unwrap();
    let text = serde_json::json!({ "LEGACY": HELLO, "PLAIN": "x" }).to_string();
    let Outcome::Imported { notes } = import(&vault, &entry("skill:secrets:ann", &text)) else {
        panic!("not imported");
    };
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert_eq!(vault.secrets(&owner("ann")).unwrap().len(), 1);
    drop(vault);
    let vault = Vault::open(dir.path(), Some(master(MASTER, None))).unwrap();
    assert_eq!(secret(&vault, "echo", "LEGACY").as_deref(), Some("hello"));
    assert_eq!(vault.rotate_secrets(act()).unwrap().rotated, 1);
}

#[test]
fn counts_are_of_this_minute_or_of_none() {
    let (vault, _dir) = vault();
    let minute = NOW.as_micros() / 60_000_000;
    let count = |minute: i64, used: &str| {
        import(&vault, &entry(&format!("ratelimit:{HASH}:{minute}"), used))
    };
    skipped(&count(minute - 1, "3"), "over");
    skipped(&count(minute + 2, "3"), "far");
    skipped(&count(minute, "many"), "not a number");
    clean(&count(minute, "3"));
    let limits = RateLimits::new(TierLimits::default());
    limits.resume(&vault.windows(NOW).unwrap(), NOW);
    let hash = HASH.parse().unwrap();
    assert_eq!(limits.take(&hash, AccountTier::Free, NOW).remaining, 26);
}

#[test]
fn what_belongs_elsewhere_is_said_to() {
    let (vault, _dir) = vault();
    for key in ["skill:official:a", "mcp_registry:tools_cache", "mcp_broadcast:tools_changed"] {
        skipped(&import(&vault, &entry(key, "{}")), "not kept in the vault");
    }
}

#[test]
fn a_line_that_fails_takes_no_other_with_it() {
    let (vault, _dir) = vault();
    let full: serde_json::Map<_, _> =
        (0..1001).map(|number| (format!("N{number}"), HELLO.into())).collect();
    let lines = [
        line(&entry("tier:ann", "PRO")),
        line(&serde_json::json!({ "key": "skill:secrets:ann", "value": full }).to_string()),
        line(&entry("tier:bob", "PRO")),
    ];
    let outcomes = vault.import(act(), &lines).unwrap();
    skipped(&outcomes[1], "most allowed");
    assert!(vault.profile(&owner("bob")).unwrap().is_some());
    assert_eq!(vault.secrets(&owner("ann")).unwrap(), []);
}

#[test]
fn what_is_exported_can_be_imported() {
    let (vault, _dir) = vault();
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
        assert!(!matches!(import(&vault, text), Outcome::Skipped { .. }), "{text}");
    }
    vault.revoke_keys(act(), WhichKeys::Of(&owner("bob"))).unwrap();
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
    assert!(!lines.concat().contains("three"), "secrets stay sealed");

    let (other, _dir) = self::vault();
    let parsed: Vec<Line> = lines.iter().map(|text| line(text)).collect();
    other.import(act(), &parsed).unwrap().iter().for_each(clean);
    assert_eq!(export(&other), lines);
    assert_eq!(secret(&other, "echo", "A").as_deref(), Some("three"));
    assert_eq!(secret(&other, "echo", "B").as_deref(), Some("two"));
}

#[test]
fn pages_do_not_show_in_an_export() {
    let (vault, _dir) = vault();
    let lines: Vec<Line> = (0..1200)
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
    vault.import(act(), &lines).unwrap();
    let exported: Vec<Line> = vault.export(NOW).map(Result::unwrap).collect();
    let count = |prefix: &str| {
        exported.iter().filter(|line| line.key.to_string().starts_with(prefix)).count()
    };
    assert_eq!((count("auth:"), count("profile:"), count("skill:secrets:")), (1200, 1200, 9));
}
