use skills_core::Coded as _;
use std::{
    thread,
    time::{Duration, Instant},
};

use super::*;
use crate::vault::testing::{NOW, TestSite, actor, contract, execute_sql, later, owner, vault};

#[test]
fn a_key_is_found_by_its_hash_alone() {
    let (vault, dir) = vault();
    let ann = owner("ann");
    let wanted = NewKey { plan: Some(Plan::Pro), label: Some("laptop"), ..NewKey::for_owner(&ann) };
    let created = vault.create_key(actor(), &wanted).unwrap();
    let key = created.key.as_str();
    assert!(key.starts_with("us-") && key.len() == 46, "256 bits in base64");
    let found = vault.find_key(key, NOW).unwrap().unwrap();
    assert_eq!(found, KeyInfo { owner: ann, hash: created.row.hash, plan: Plan::Pro });
    assert_eq!(created.row.label.as_deref(), Some("laptop"));
    assert!(!format!("{created:?}").contains(&key[3..]));

    drop(vault.audit(0, 10).unwrap());
    drop(vault);
    let file = std::fs::read(dir.path().join("vault.sqlite")).unwrap();
    let contains = |needle: &[u8]| file.windows(needle.len()).any(|bytes| bytes == needle);
    assert!(contains(b"laptop") && !contains(&key.as_bytes()[3..]));
    assert!(!contains(&key.as_bytes()[key.len() - 8..]), "not even its end is stored");
}

contract! {
    hashes_equal_those_of_other_gateways,
    other_bearer_tokens_find_no_key,
    a_key_expires,
    changes_of_another_process_take_effect_while_the_key_is_in_use,
    changes_of_the_same_process_take_effect_at_once,
    keys_are_revoked_one_by_one_or_all_of_an_owner,
    an_ambiguous_id_is_rejected,
    an_adopted_key_neither_changes_owner_nor_returns_after_revocation,
    keys_are_listed_page_by_page,
    an_owner_has_a_maximum_of_keys,
    several_processes_can_create_keys_at_once,
}

fn hashes_equal_those_of_other_gateways(site: &TestSite) {
    for (key, hash) in [
        ("us-test-key-1", "1ac7f2dbf6a3aa2b8c4c0ff95325882101df62151e861cf94f2a8ef01187e1d0"),
        ("us-abc", "15d6354290b017ae135247fb8d7a1c1e133738bca02c02e38fc0c5c1046d2206"),
    ] {
        let vault = site.vault();
        let ann = owner("ann");
        vault.adopt_key(actor(), &hash.parse().unwrap(), &NewKey::for_owner(&ann)).unwrap();
        assert_eq!(vault.find_key(key, NOW).unwrap().unwrap().owner, ann, "{key}");
    }
}

fn other_bearer_tokens_find_no_key(site: &TestSite) {
    let vault = site.vault();
    let ann = owner("ann");
    let key = vault.create_key(actor(), &NewKey::for_owner(&ann)).unwrap().key;
    let longer = format!("{}x", *key);
    for bearer in ["", "us-", "us-made-up", &longer, &key[3..], &"us-x".repeat(1000)] {
        assert_eq!(vault.find_key(bearer, NOW).unwrap(), None, "{bearer}");
    }
}

fn a_key_expires(site: &TestSite) {
    let vault = site.vault();
    let ann = owner("ann");
    let wanted = NewKey { expires_at: Some(later(60)), ..NewKey::for_owner(&ann) };
    let key = vault.create_key(actor(), &wanted).unwrap().key;
    assert!(vault.find_key(&key, later(59)).unwrap().is_some());
    assert_eq!(vault.find_key(&key, later(60)).unwrap(), None);
    assert_eq!(vault.find_key(&key, later(61)).unwrap(), None);
}

/// Waits until a condition holds.
fn wait_until(mut is_met: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_met() {
        assert!(Instant::now() < deadline, "the condition is never met");
        thread::yield_now();
    }
}

fn changes_of_another_process_take_effect_while_the_key_is_in_use(site: &TestSite) {
    let server = site.vault();
    let command_line = site.open(None);
    let ann = owner("ann");
    assert_eq!(server.find_key("us-abc", NOW).unwrap(), None);
    let created = command_line.create_key(actor(), &NewKey::for_owner(&ann)).unwrap();
    let plan = || server.find_key(&created.key, NOW).unwrap().map(|key| key.plan);
    for _ in 0..2 {
        assert_eq!(plan(), Some(Plan::Free), "a new key is valid at once");
    }
    let change = ProfileChange { plan: Some(Plan::Scale), ..ProfileChange::default() };
    command_line.set_profile(actor(), &ann, &change).unwrap();
    wait_until(|| plan() == Some(Plan::Scale));
    command_line.revoke_keys(actor(), KeySelector::Id(&created.row.id())).unwrap();
    wait_until(|| plan().is_none());
}

fn changes_of_the_same_process_take_effect_at_once(site: &TestSite) {
    let vault = site.vault();
    let ann = owner("ann");
    let created = vault.create_key(actor(), &NewKey::for_owner(&ann)).unwrap();
    let plan = || vault.find_key(&created.key, NOW).unwrap().map(|key| key.plan);
    for expected in [Plan::Scale, Plan::Pro, Plan::Free] {
        let change = ProfileChange { plan: Some(expected), ..ProfileChange::default() };
        vault.set_profile(actor(), &ann, &change).unwrap();
        assert_eq!(plan(), Some(expected), "{expected:?}");
    }
    vault.revoke_keys(actor(), KeySelector::Key(&created.key)).unwrap();
    assert_eq!(plan(), None);
}

fn keys_are_revoked_one_by_one_or_all_of_an_owner(site: &TestSite) {
    let vault = site.vault();
    let (ann, bob) = (owner("ann"), owner("bob"));
    let [one, two, three] = [&ann, &ann, &bob].map(|owner| {
        let created = vault.create_key(actor(), &NewKey::for_owner(owner)).unwrap();
        (created.key, created.row)
    });
    let revoke = |selector: KeySelector<'_>| {
        vault.revoke_keys(actor(), selector).map(|Revocation { keys, .. }| keys)
    };
    let by_whole_hash = one.1.hash.to_string().to_uppercase();
    assert_eq!(revoke(KeySelector::Id(&by_whole_hash)).unwrap()[0].number, one.1.number);
    assert_eq!(revoke(KeySelector::Id(&one.1.id())).unwrap(), [], "it was revoked before");
    let rest = revoke(KeySelector::Owner(&ann)).unwrap();
    assert_eq!(rest.iter().map(|row| row.number).collect::<Vec<_>>(), [two.1.number]);
    assert!(vault.find_key(&three.0, NOW).unwrap().is_some());

    for (selector, code) in [
        (KeySelector::Id("1234"), "bad_key_id"),
        (KeySelector::Id("not-hexadecimal"), "bad_key_id"),
        (KeySelector::Id(&"a".repeat(65)), "bad_key_id"),
        (KeySelector::Id("00000000"), "no_such_key"),
        (KeySelector::Key("us-abc"), "no_such_key"),
        (KeySelector::Key("abc"), "not_a_key"),
    ] {
        assert_eq!(revoke(selector).unwrap_err().code().as_str(), code, "{code:?}");
    }
    let actions: Vec<String> =
        vault.audit(0, 100).unwrap().into_iter().map(|entry| entry.action).collect();
    assert_eq!(actions, ["key.create", "key.create", "key.create", "key.revoke", "key.revoke"]);
}

fn an_ambiguous_id_is_rejected(site: &TestSite) {
    let vault = site.vault();
    let ann = owner("ann");
    for end in ["00", "01"] {
        let hash = format!("{}{end}", "ab".repeat(31)).parse().unwrap();
        vault.adopt_key(actor(), &hash, &NewKey::for_owner(&ann)).unwrap();
    }
    let revoke = |id: &str| vault.revoke_keys(actor(), KeySelector::Id(id));
    assert_eq!(revoke("abababab").unwrap_err().code().as_str(), "ambiguous_key");
    assert_eq!(
        revoke(&format!("{}0", "ab".repeat(31))).unwrap_err().code().as_str(),
        "ambiguous_key"
    );
    assert_eq!(revoke(&format!("{}01", "ab".repeat(31))).unwrap().keys.len(), 1);
}

fn an_adopted_key_neither_changes_owner_nor_returns_after_revocation(site: &TestSite) {
    let vault = site.vault();
    let (ann, bob, nil) =
        (owner("ann"), owner("bob"), owner("00000000-0000-0000-0000-000000000000"));
    let hash = Digest::of(b"us-abc");
    let adopt = |owner, expires_at| {
        vault.adopt_key(actor(), &hash, &NewKey { expires_at, ..NewKey::for_owner(owner) })
    };
    assert_eq!(adopt(&nil, None).unwrap_err().code().as_str(), "invalid_input");
    adopt(&ann, None).unwrap();
    assert_eq!(adopt(&bob, None).unwrap_err().code().as_str(), "key_taken");
    assert_eq!(adopt(&ann, Some(later(5))).unwrap().expires_at, Some(later(5)));
    assert_eq!(vault.find_key("us-abc", later(6)).unwrap(), None);
    vault.revoke_keys(actor(), KeySelector::Owner(&ann)).unwrap();
    assert_eq!(adopt(&ann, None).unwrap_err().code().as_str(), "key_revoked");
}

fn keys_are_listed_page_by_page(site: &TestSite) {
    let vault = site.vault();
    let (ann, bob) = (owner("ann"), owner("bob"));
    for owner in [&ann, &bob, &ann, &bob, &ann] {
        vault.create_key(actor(), &NewKey::for_owner(owner)).unwrap();
    }
    assert_eq!(vault.keys(None, 0, 100).unwrap().len(), 5);
    let first = vault.keys(Some(&ann), 0, 2).unwrap();
    let rest = vault.keys(Some(&ann), first[1].number, 2).unwrap();
    assert_eq!((first.len(), rest.len()), (2, 1));
    assert!(first.iter().chain(&rest).all(|row| row.owner == ann && row.is_active(NOW)));
    assert!(matches!(
        vault.create_key(actor(), &NewKey { label: Some("a\nb"), ..NewKey::for_owner(&ann) }),
        Err(VaultError::BadLabel)
    ));
}

fn an_owner_has_a_maximum_of_keys(site: &TestSite) {
    let vault = site.vault();
    let ann = owner("ann");
    vault
        .backend
        .write(|tables| {
            for number in 0..MAX_KEYS {
                let hash = Digest::of(&number.to_le_bytes());
                insert(tables, actor(), "key.adopt", &hash, &NewKey::for_owner(&ann))?;
            }
            Ok(())
        })
        .unwrap();
    let one_more = || vault.create_key(actor(), &NewKey::for_owner(&ann));
    assert_eq!(one_more().unwrap_err().code().as_str(), "too_many");
    vault
        .revoke_keys(actor(), KeySelector::Id(&key_id(&Digest::of(&0_usize.to_le_bytes()))))
        .unwrap();
    assert!(one_more().is_ok());
}

fn several_processes_can_create_keys_at_once(site: &TestSite) {
    let vault = site.vault();
    thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || {
                let vault = site.open(None);
                let owner = owner(&format!("u{number}"));
                for _ in 0..10 {
                    let key = vault.create_key(actor(), &NewKey::for_owner(&owner)).unwrap().key;
                    assert_eq!(vault.find_key(&key, NOW).unwrap().unwrap().owner, owner);
                }
            });
        }
    });
    assert_eq!(vault.keys(None, 0, 100).unwrap().len(), 40);
}

#[test]
fn a_key_is_revoked_at_once_while_the_file_cannot_be_written() {
    let (vault, dir) = vault();
    let ann = owner("ann");
    let new = NewKey::for_owner(&ann);
    let (one, other) =
        (vault.create_key(actor(), &new).unwrap(), vault.create_key(actor(), &new).unwrap());
    let is_found = |vault: &Vault, key: &str| vault.find_key(key, later(1)).unwrap().is_some();
    vault.backend.set_read_only(true);
    let revoked = vault.revoke_keys(actor(), KeySelector::Id(&one.row.id())).unwrap();
    assert_eq!(revoked.keys.len(), 1);
    assert!(revoked.storage_error.is_some(), "the error is reported");
    assert!(!is_found(&vault, &one.key) && is_found(&vault, &other.key));
    assert!(vault.keys(None, 0, 10).unwrap()[0].revoked_at.is_some());
    let again = vault.revoke_keys(actor(), KeySelector::Owner(&ann)).unwrap();
    assert_eq!(again.keys.len(), 1, "the other one");
    assert!(!vault.store_revocations());
    let unknown = vault.revoke_keys(actor(), KeySelector::Id("00000000"));
    assert!(unknown.is_err(), "an unknown key cannot be revoked in memory either");

    vault.backend.set_read_only(false);
    assert!(vault.store_revocations());
    assert!(vault.pending_revocations.lock().is_empty());
    let restarted = Vault::open(dir.path(), None).unwrap();
    assert!(!is_found(&restarted, &one.key) && !is_found(&restarted, &other.key));
    let log = restarted.audit(0, 100).unwrap();
    assert_eq!(log.iter().filter(|row| row.action == "key.revoke").count(), 2);
}

#[test]
fn a_pending_revocation_outlives_errors_other_than_a_failed_write() {
    let (vault, dir) = vault();
    let ann = owner("ann");
    let (one, gone) = (
        vault.create_key(actor(), &NewKey::for_owner(&ann)).unwrap(),
        vault.create_key(actor(), &NewKey::for_owner(&ann)).unwrap(),
    );
    vault.backend.set_read_only(true);
    vault.revoke_keys(actor(), KeySelector::Owner(&ann)).unwrap();
    vault.backend.set_read_only(false);
    let change = |sql: &str, number: u64| {
        execute_sql(dir.path(), &format!("{sql} WHERE number = {number}")).unwrap();
    };
    // An invalid owner: the row is reported as damaged.
    change("UPDATE key SET owner = ''", one.row.number);
    change("DELETE FROM key", gone.row.number);
    assert!(!vault.store_revocations());
    let is_pending = |key: &KeyRow| vault.pending_revocations.lock().contains_key(&key.hash);
    assert!(is_pending(&one.row), "it is still revoked in this process");
    assert!(!is_pending(&gone.row), "a key that is gone needs no revocation");

    change("UPDATE key SET owner = 'ann'", one.row.number);
    assert!(vault.find_key(&one.key, later(1)).unwrap().is_none());
    assert!(vault.store_revocations());
    assert!(vault.pending_revocations.lock().is_empty());
}
