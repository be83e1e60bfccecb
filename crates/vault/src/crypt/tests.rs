use proptest::prelude::*;

use super::*;
use crate::vault::testing::{MASTER, master};

const OTHER: &str = "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100";
const HERE: Place<'_> = Place { owner: "ann", skill: "", name: "TOKEN" };

fn open(keys: &MasterKeys, place: Place<'_>, text: &str) -> Result<String, String> {
    match Envelope::parse(text) {
        Ok(Some(envelope)) => match keys.open(place, envelope) {
            Ok(value) => Ok(value.to_string()),
            Err(error) => Err(error.to_string()),
        },
        Ok(None) => Err("not sealed".to_owned()),
        Err(Malformed) => Err("malformed".to_owned()),
    }
}

#[test]
fn values_of_the_older_form_are_read() {
    let keys = master(MASTER, None);
    for (value, text) in [
        ("hello", "000102030405060708090a0b.41c43c4c932efc0c18e08262fb642111.7e7dd95a2f"),
        ("", "000102030405060708090a0b.913b2ae7c43368164e7c710454b17ca3."),
        (
            "sk-живой-🔑",
            "000102030405060708090a0b.2e9cb1d3a45c1736be85c6ee67f7ab73.657398e6f69975667bebd12c88f894b0faa4",
        ),
    ] {
        assert_eq!(open(&keys, HERE, text), Ok(value.to_owned()));
        assert_eq!(open(&keys, HERE, &text.to_uppercase()), Ok(value.to_owned()));
        assert!(open(&master(OTHER, None), HERE, text).is_err());
        assert_eq!(open(&master(OTHER, Some(MASTER)), HERE, text), Ok(value.to_owned()));
    }
}

#[test]
fn a_value_that_was_cut_or_added_to_is_refused() {
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
    ] {
        assert_eq!(open(&keys, HERE, text), Err("malformed".to_owned()), "{text}");
    }
    for text in
        ["", "plain", "a.b.c", "header.payload.signature", "v1.a.b", "v2.a.b.c", "1.2.3.4.5"]
    {
        assert_eq!(open(&keys, HERE, text), Err("not sealed".to_owned()), "{text}");
    }
}

#[test]
fn a_value_opens_in_its_own_place_only() {
    let keys = master(MASTER, None);
    let sealed = keys.seal(HERE, "hello").unwrap();
    assert!(!sealed.contains("hello") && sealed != keys.seal(HERE, "hello").unwrap());
    assert_eq!(open(&keys, HERE, &sealed), Ok("hello".to_owned()));
    for place in [
        Place { owner: "bob", ..HERE },
        Place { skill: "echo", ..HERE },
        Place { name: "OTHER", ..HERE },
        Place { owner: "ann|", ..HERE },
    ] {
        let said = open(&keys, place, &sealed).unwrap_err();
        assert!(said.contains("no master key at hand opens it here"), "{said}");
    }
}

#[test]
fn no_two_places_are_bound_alike() {
    let bars = [
        Place { owner: "a|b", skill: "c", name: "d" },
        Place { owner: "a", skill: "b", name: "d" },
        Place { owner: "a|b|c", skill: "", name: "d" },
        Place { owner: "a|b|", skill: "c", name: "d" },
        Place { owner: "a|b|c|", skill: "d", name: "d" },
    ];
    let mut data: Vec<String> = bars.into_iter().map(Place::associated_data).collect();
    data.sort();
    data.dedup();
    assert_eq!(data.len(), bars.len());
}

#[test]
fn keys_of_before_open_and_the_current_one_seals() {
    let old = master(MASTER, None);
    let sealed = old.seal(HERE, "hello").unwrap();
    let new = master(OTHER, Some(MASTER));
    assert_eq!(open(&new, HERE, &sealed), Ok("hello".to_owned()));
    assert!(!new.is_current(&Envelope::parse(&sealed).unwrap().unwrap()));
    let sealed = new.seal(HERE, "hello").unwrap();
    assert!(new.is_current(&Envelope::parse(&sealed).unwrap().unwrap()));
    let said = open(&old, HERE, &sealed).unwrap_err();
    assert!(said.contains("is not at hand"), "{said}");
}

#[test]
fn a_master_key_of_the_wrong_shape_is_named_but_not_shown() {
    let key = |current: &str, previous: Option<&str>| {
        MasterKeys::from_env(Some(current), previous).map(|_| ()).unwrap_err().to_string()
    };
    for bad in ["secretsecret", &MASTER[1..], &format!("{MASTER}00"), &MASTER.replace('0', "g")] {
        let said = key(bad, None);
        assert!(said.starts_with("MASTER_ENCRYPTION_KEY has to be 64"), "{said}");
        assert!(!said.contains(bad), "{said}");
        let said = key(MASTER, Some(&format!("{MASTER}, {bad}")));
        assert!(said.contains("_PREVIOUS has to be") && said.contains("key number 2"), "{said}");
        assert!(!said.contains(bad), "{said}");
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
    fn what_is_sealed_opens_and_no_bit_of_it_can_be_changed(
        value in "\\PC{0,40}", owner in "\\PC{1,20}", at in any::<prop::sample::Index>(),
    ) {
        let keys = master(MASTER, None);
        let place = Place { owner: &owner, skill: "echo", name: "N" };
        let sealed = keys.seal(place, &value).unwrap();
        prop_assert_eq!(open(&keys, place, &sealed), Ok(value));
        let mut bytes = sealed.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
        prop_assert!(open(&keys, place, &String::from_utf8(bytes).unwrap()).is_err());
    }

    #[test]
    fn no_text_is_too_odd(text in "[v1.0-9a-f\\PC]{0,80}") {
        let _ = Envelope::parse(&text);
    }
}
