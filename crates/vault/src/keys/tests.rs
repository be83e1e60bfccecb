use std::thread;

use super::*;
use crate::vault::testing::{NOW, act, later, owner, vault};

fn new_key(owner: &Owner) -> NewKey<'_> {
    NewKey { owner, tier: None, label: None, expires_at: None }
}

#[test]
fn a_key_is_found_by_its_hash_alone() {
    let (vault, dir) = vault();
    let ann = owner("ann");
    let wanted = NewKey { tier: Some(AccountTier::Pro), label: Some("laptop"), ..new_key(&ann) };
    let created = vault.create_key(act(), &wanted).unwrap();
    let key = created.key.as_str();
    assert!(key.starts_with("us-") && key.len() == 46, "256 bits in base64");
    let found = vault.find(key, NOW).unwrap().unwrap();
    assert_eq!(found, KeyInfo { owner: ann, hash: created.row.hash, tier: AccountTier::Pro });
    assert_eq!(created.row.label.as_deref(), Some("laptop"));
    assert!(!format!("{created:?}").contains(&key[3..]));

    drop(vault.audit(0, 10).unwrap());
    drop(vault);
    let file = std::fs::read(dir.path().join("vault.sqlite")).unwrap();
    let contains = |needle: &[u8]| file.windows(needle.len()).any(|bytes| bytes == needle);
    assert!(contains(b"laptop") && !contains(&key.as_bytes()[3..]));
    assert!(!contains(&key.as_bytes()[key.len() - 8..]), "not even its end is kept");
}

#[test]
fn hashes_are_those_of_other_gateways() {
    for (key, hash) in [
        ("us-test-key-1", "1ac7f2dbf6a3aa2b8c4c0ff95325882101df62151e861cf94f2a8ef01187e1d0"),
        ("us-abc", "15d6354290b017ae135247fb8d7a1c1e133738bca02c02e38fc0c5c1046d2206"),
    ] {
        let (vault, _dir) = vault();
        let ann = owner("ann");
        vault.adopt_key(act(), &hash.parse().unwrap(), &new_key(&ann)).unwrap();
        assert_eq!(vault.find(key, NOW).unwrap().unwrap().owner, ann);
    }
}

#[test]
fn nobody_is_let_in_with_anything_else() {
    let (vault, _dir) = vault();
    let ann = owner("ann");
    let key = vault.create_key(act(), &new_key(&ann)).unwrap().key;
    let longer = format!("{}x", *key);
    for bearer in ["", "us-", "us-made-up", &longer, &key[3..], &"us-x".repeat(1000)] {
        assert_eq!(vault.find(bearer, NOW).unwrap(), None, "{bearer}");
    }
}

#[test]
fn a_key_ends_when_it_was_said_to() {
    let (vault, _dir) = vault();
    let ann = owner("ann");
    let wanted = NewKey { expires_at: Some(later(60)), ..new_key(&ann) };
    let key = vault.create_key(act(), &wanted).unwrap().key;
    assert!(vault.find(&key, later(59)).unwrap().is_some());
    assert_eq!(vault.find(&key, later(60)).unwrap(), None);
    assert_eq!(vault.find(&key, later(61)).unwrap(), None);
}

#[test]
fn another_process_is_noticed_at_once() {
    let (server, dir) = vault();
    let command_line = Vault::open(dir.path(), None).unwrap();
    let ann = owner("ann");
    assert_eq!(server.find("us-abc", NOW).unwrap(), None);
    let created = command_line.create_key(act(), &new_key(&ann)).unwrap();
    let key = created.key.as_str();
    for _ in 0..2 {
        assert_eq!(server.find(key, NOW).unwrap().unwrap().tier, AccountTier::Free);
    }
    let change = ProfileChange { tier: Some(AccountTier::Scale), ..ProfileChange::default() };
    command_line.set_profile(act(), &ann, &change).unwrap();
    assert_eq!(server.find(key, NOW).unwrap().unwrap().tier, AccountTier::Scale);
    command_line.revoke_keys(act(), WhichKeys::Id(&created.row.id())).unwrap();
    assert_eq!(server.find(key, NOW).unwrap(), None);

    // And what the server itself changes, it knows too.
    let own = server.create_key(act(), &new_key(&ann)).unwrap();
    assert!(server.find(&own.key, NOW).unwrap().is_some());
    server.revoke_keys(act(), WhichKeys::Key(&own.key)).unwrap();
    assert_eq!(server.find(&own.key, NOW).unwrap(), None);
}

#[test]
fn keys_are_revoked_one_by_one_or_all_of_an_owner() {
    let (vault, _dir) = vault();
    let (ann, bob) = (owner("ann"), owner("bob"));
    let [one, two, three] = [&ann, &ann, &bob].map(|owner| {
        let created = vault.create_key(act(), &new_key(owner)).unwrap();
        (created.key, created.row)
    });
    let revoke = |which: WhichKeys<'_>| vault.revoke_keys(act(), which);
    let by_whole_hash = one.1.hash.to_string().to_uppercase();
    assert_eq!(revoke(WhichKeys::Id(&by_whole_hash)).unwrap()[0].number, one.1.number);
    assert_eq!(revoke(WhichKeys::Id(&one.1.id())).unwrap(), [], "it was revoked before");
    let rest = revoke(WhichKeys::Of(&ann)).unwrap();
    assert_eq!(rest.iter().map(|row| row.number).collect::<Vec<_>>(), [two.1.number]);
    assert!(vault.find(&three.0, NOW).unwrap().is_some());

    for (which, code) in [
        (WhichKeys::Id("1234"), "bad_key_id"),
        (WhichKeys::Id("not-hexadecimal"), "bad_key_id"),
        (WhichKeys::Id(&"a".repeat(65)), "bad_key_id"),
        (WhichKeys::Id("00000000"), "no_such_key"),
        (WhichKeys::Key("us-abc"), "no_such_key"),
        (WhichKeys::Key("abc"), "not_a_key"),
    ] {
        assert_eq!(revoke(which).unwrap_err().code(), code);
    }
    let actions: Vec<String> =
        vault.audit(0, 100).unwrap().into_iter().map(|entry| entry.action).collect();
    assert_eq!(actions, ["key.create", "key.create", "key.create", "key.revoke", "key.revoke"]);
}

#[test]
fn an_id_that_several_keys_have_is_not_guessed_at() {
    let (vault, _dir) = vault();
    let ann = owner("ann");
    for end in ["00", "01"] {
        let hash = format!("{}{end}", "ab".repeat(31)).parse().unwrap();
        vault.adopt_key(act(), &hash, &new_key(&ann)).unwrap();
    }
    let revoke = |id: &str| vault.revoke_keys(act(), WhichKeys::Id(id));
    assert_eq!(revoke("abababab").unwrap_err().code(), "ambiguous_key");
    assert_eq!(revoke(&format!("{}0", "ab".repeat(31))).unwrap_err().code(), "ambiguous_key");
    assert_eq!(revoke(&format!("{}01", "ab".repeat(31))).unwrap().len(), 1);
}

#[test]
fn a_key_from_elsewhere_does_not_come_back_nor_change_hands() {
    let (vault, _dir) = vault();
    let (ann, bob, nobody) =
        (owner("ann"), owner("bob"), owner("00000000-0000-0000-0000-000000000000"));
    let hash = Digest::of(b"us-abc");
    let adopt =
        |owner, expires_at| vault.adopt_key(act(), &hash, &NewKey { expires_at, ..new_key(owner) });
    assert_eq!(adopt(&nobody, None).unwrap_err().code(), "invalid_input");
    adopt(&ann, None).unwrap();
    assert_eq!(adopt(&bob, None).unwrap_err().code(), "key_taken");
    assert_eq!(adopt(&ann, Some(later(5))).unwrap().expires_at, Some(later(5)));
    assert_eq!(vault.find("us-abc", later(6)).unwrap(), None);
    vault.revoke_keys(act(), WhichKeys::Of(&ann)).unwrap();
    assert_eq!(adopt(&ann, None).unwrap_err().code(), "key_revoked");
}

#[test]
fn lists_are_read_page_by_page() {
    let (vault, _dir) = vault();
    let (ann, bob) = (owner("ann"), owner("bob"));
    for owner in [&ann, &bob, &ann, &bob, &ann] {
        vault.create_key(act(), &new_key(owner)).unwrap();
    }
    assert_eq!(vault.keys(None, 0, 100).unwrap().len(), 5);
    let first = vault.keys(Some(&ann), 0, 2).unwrap();
    let rest = vault.keys(Some(&ann), first[1].number, 2).unwrap();
    assert_eq!((first.len(), rest.len()), (2, 1));
    assert!(first.iter().chain(&rest).all(|row| row.owner == ann && row.is_live(NOW)));
    assert!(matches!(
        vault.create_key(act(), &NewKey { label: Some("a\nb"), ..new_key(&ann) }),
        Err(VaultError::BadLabel)
    ));
}

#[test]
fn an_owner_does_not_have_more_keys_than_allowed() {
    let (vault, _dir) = vault();
    let ann = owner("ann");
    vault
        .file
        .write(|transaction| {
            for number in 0..MAX_KEYS {
                let hash = Digest::of(&number.to_le_bytes());
                insert(transaction, act(), "key.adopt", &hash, &new_key(&ann))?;
            }
            Ok(())
        })
        .unwrap();
    let one_more = || vault.create_key(act(), &new_key(&ann));
    assert_eq!(one_more().unwrap_err().code(), "too_many");
    vault.revoke_keys(act(), WhichKeys::Id(&key_id(&Digest::of(&0_usize.to_le_bytes())))).unwrap();
    assert!(one_more().is_ok());
}

#[test]
fn several_processes_may_change_it_at_once() {
    let (vault, dir) = vault();
    thread::scope(|scope| {
        for number in 0..4 {
            let dir = dir.path();
            scope.spawn(move || {
                let vault = Vault::open(dir, None).unwrap();
                let owner = owner(&format!("u{number}"));
                for _ in 0..10 {
                    let key = vault.create_key(act(), &new_key(&owner)).unwrap().key;
                    assert_eq!(vault.find(&key, NOW).unwrap().unwrap().owner, owner);
                }
            });
        }
    });
    assert_eq!(vault.keys(None, 0, 100).unwrap().len(), 40);
}
