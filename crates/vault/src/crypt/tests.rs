use proptest::prelude::*;

use super::*;
use crate::vault::testing::{MASTER, master};

const OTHER: &str = "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100";
const HERE: SecretBinding<'_> = SecretBinding { owner: "ann", skill: "", name: "TOKEN" };

fn open(keys: &MasterKeys, binding: SecretBinding<'_>, text: &str) -> Result<String, String> {
    match Envelope::parse(text) {
        Ok(Some(envelope)) => match keys.open(binding, envelope) {
            Ok(value) => Ok(value.to_string()),
            Err(error) => Err(error.to_string()),
        },
        Ok(None) => Err("not sealed".to_owned()),
        Err(MalformedEnvelope) => Err("malformed".to_owned()),
    }
}

#[test]
fn the_legacy_format_is_read() {
    let keys = master(MASTER, None);
    for (value, text) in [
        ("hello", "000102030405060708090a0b.41c43c4c932efc0c18e08262fb642111.7e7dd95a2f"),
        ("", "000102030405060708090a0b.913b2ae7c43368164e7c710454b17ca3."),
        (
            "sk-живой-🔑",
            "000102030405060708090a0b.2e9cb1d3a45c1736be85c6ee67f7ab73.657398e6f69975667bebd12c88f894b0faa4",
        ),
    ] {
        assert_eq!(open(&keys, HERE, text), Ok(value.to_owned()), "{value}");
        assert_eq!(open(&keys, HERE, &text.to_uppercase()), Ok(value.to_owned()), "{value}");
        assert_eq!(open(&keys, HERE, &format!(" {text}\n")), Ok(value.to_owned()), "{value}");
        assert!(open(&master(OTHER, None), HERE, text).is_err(), "{value}");
        assert_eq!(open(&master(OTHER, Some(MASTER)), HERE, text), Ok(value.to_owned()), "{value}");
    }
}

#[test]
fn a_damaged_envelope_is_rejected() {
    let keys = master(MASTER, None);
    for text in [
        "000102030405060708090a0b.41c43c4c.7e7dd95a2f",
        "000102030405060708090a0b.41c43c4c932efc0c18e08262fb6421.7e7dd95a2f",
        "000102030405060708090a0b.41c43c4c932efc0c18e08262fb642111.7e7dd95a2fzz",
        "000102030405060708090a0b.41c43c4c932efc0c18e08262fb642111.7e7dd95a2",
        "000102030405060708090a0b..",
        "v1.00000000.000102030405060708090a0b.00",
        "v1.00000000.000102030405060708090a.00000000000000000000000000000000",
        "v1.0000000g.000102030405060708090a0b.00000000000000000000000000000000",
        "v1...",
        // A fourth part, a fifth, wrong lengths, and prefixes of the current format.
        "000102030405060708090a0b.41c43c4c932efc0c18e08262fb642111.7e7dd95a2f.00",
        "v1.00000000.000102030405060708090a0b.00000000000000000000000000000000.00",
        "0001020304.41c43c4c932efc0c18e08262fb642111.7e7dd95a2f",
        "000102030405060708090a0b0c.41c43c4c932efc0c18e08262fb642111.7e7dd95a2f",
        ".41c43c4c932efc0c18e08262fb642111.7e7dd95a2f",
        "v1.00000000",
        "V1.00000000.000102030405060708090a0b.00000000000000000000000000000000",
        "v1.000102030405060708090a0b.00000000000000000000000000000000",
        // A character of the initialisation vector, the version, and both formats without a whole part.
        "0001020304050607zz090a0b.41c43c4c932efc0c18e08262fb642111.7e7dd95a2f",
        "0001020304050607zz090a0b.41c43c4c932efc0c18e08262fb642111.",
        "v1.00000000.00010203040506zz08090a0b.00000000000000000000000000000000",
        "v1.0000zz00.000102030405060708090a0b.00000000000000000000000000000000",
        "v.00000000.000102030405060708090a0b.00000000000000000000000000000000",
        "w1.00000000.000102030405060708090a0b.00000000000000000000000000000000",
        "v1 .00000000.000102030405060708090a0b.00000000000000000000000000000000",
        "zz.00000000.zz.00000000000000000000000000000000",
        "v1.zz.zz.00000000000000000000000000000000",
    ] {
        assert_eq!(open(&keys, HERE, text), Err("malformed".to_owned()), "{text}");
    }
    for text in [
        "",
        "plain",
        "a.b.c",
        "header.payload.signature",
        "v1.a.b",
        "v2.a.b.c",
        "1.2.3.4.5",
        "10.0.0.1",
        "10.20.30.40",
        "20240101.20240102.release",
        "user.0123456789abcdef0123456789abcdef.token",
    ] {
        assert_eq!(open(&keys, HERE, text), Err("not sealed".to_owned()), "{text}");
    }
}

#[test]
fn a_value_decrypts_only_for_its_own_binding() {
    let keys = master(MASTER, None);
    let sealed = keys.seal(HERE, "hello").unwrap();
    assert!(!sealed.contains("hello") && sealed != keys.seal(HERE, "hello").unwrap());
    assert_eq!(open(&keys, HERE, &sealed), Ok("hello".to_owned()));
    for binding in [
        SecretBinding { owner: "bob", ..HERE },
        SecretBinding { skill: "echo", ..HERE },
        SecretBinding { name: "OTHER", ..HERE },
        SecretBinding { owner: "ann|", ..HERE },
    ] {
        let error = open(&keys, binding, &sealed).unwrap_err();
        assert!(error.contains("none of the master keys decrypts it"), "{error}");
    }
}

#[test]
fn associated_data_is_unique() {
    let bars = [
        SecretBinding { owner: "a|b", skill: "c", name: "d" },
        SecretBinding { owner: "a", skill: "b", name: "d" },
        SecretBinding { owner: "a|b|c", skill: "", name: "d" },
        SecretBinding { owner: "a|b|", skill: "c", name: "d" },
        SecretBinding { owner: "a|b|c|", skill: "d", name: "d" },
    ];
    let mut data: Vec<String> = bars.into_iter().map(SecretBinding::associated_data).collect();
    data.sort();
    data.dedup();
    assert_eq!(data.len(), bars.len());
}

#[test]
fn previous_keys_decrypt_and_the_current_key_encrypts() {
    let old = master(MASTER, None);
    let sealed = old.seal(HERE, "hello").unwrap();
    let new = master(OTHER, Some(MASTER));
    assert_eq!(open(&new, HERE, &sealed), Ok("hello".to_owned()));
    assert!(!new.is_current(&Envelope::parse(&sealed).unwrap().unwrap()));
    let sealed = new.seal(HERE, "hello").unwrap();
    assert!(new.is_current(&Envelope::parse(&sealed).unwrap().unwrap()));
    let error = open(&old, HERE, &sealed).unwrap_err();
    assert!(error.contains("no master key with the id"), "{error}");
}

#[test]
fn the_error_of_a_bad_master_key_names_its_variable_and_not_the_key() {
    let key = |current: &str, previous: Option<&str>| {
        MasterKeys::from_env(Some(current), previous).map(|_| ()).unwrap_err().to_string()
    };
    for bad in ["secretsecret", &MASTER[1..], &format!("{MASTER}00"), &MASTER.replace('0', "g")] {
        let error = key(bad, None);
        assert!(error.starts_with("MASTER_ENCRYPTION_KEY must be 64"), "{error}");
        assert!(!error.contains(bad), "{error}");
        let error = key(MASTER, Some(&format!("{MASTER}, {bad}")));
        assert!(error.contains("_PREVIOUS must be") && error.contains("key number 2"), "{error}");
        assert!(!error.contains(bad), "{error}");
    }
    assert!(MasterKeys::from_env(None, None).unwrap().is_none());
    assert!(MasterKeys::from_env(Some(""), Some(" ")).unwrap().is_none());
    assert!(MasterKeys::from_env(Some(&format!(" {MASTER}\n")), Some(",")).unwrap().is_some());
    let only = MasterKeys::from_env(None, Some(MASTER)).map(|_| ());
    assert_eq!(only, Err(MasterKeyError::OnlyPrevious));
    let many = vec![MASTER; MAX_PREVIOUS + 1].join(",");
    let many = MasterKeys::from_env(Some(MASTER), Some(&many)).map(|_| ());
    assert_eq!(many, Err(MasterKeyError::TooManyPrevious));
    let shown = format!("{:?}", master(MASTER, Some(OTHER)));
    assert!(!shown.contains(&MASTER[..8]) && !shown.contains(&OTHER[..8]), "{shown}");
}

proptest! {
    #[test]
    fn a_value_decrypts_unless_any_byte_of_it_was_changed(
        value in "\\PC{0,40}", owner in "\\PC{1,20}", at in any::<prop::sample::Index>(),
    ) {
        let keys = master(MASTER, None);
        let binding = SecretBinding { owner: &owner, skill: "echo", name: "N" };
        let sealed = keys.seal(binding, &value).unwrap();
        prop_assert_eq!(open(&keys, binding, &sealed), Ok(value));
        let mut bytes = sealed.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
        prop_assert!(open(&keys, binding, &String::from_utf8(bytes).unwrap()).is_err());
    }

    #[test]
    fn parsing_never_panics(text in "[v1.0-9a-f\\PC]{0,80}") {
        let _ = Envelope::parse(&text);
    }
}
