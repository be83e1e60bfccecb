use skills_core::{Tier, limits::MAX_SECRETS_OF_SKILL};

use super::*;
use crate::{
    LackReason,
    vault::testing::{MASTER, act, master, owner, vault},
};

const OTHER: &str = "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100";

fn name(text: &str) -> SecretName {
    text.parse().unwrap()
}

fn id(text: &str) -> SkillId {
    text.parse().unwrap()
}

fn set(vault: &Vault, uid: &str, skill: Option<&str>, secret: &str, value: &str) {
    let skill = skill.map(id);
    vault.set_secret(act(), &owner(uid), skill.as_ref(), &name(secret), value).unwrap();
}

/// The value that a call gets, or why it gets none.
fn get(vault: &Vault, uid: &str, tier: Tier, skill: &str, secret: &str) -> Result<String, String> {
    get_at(vault, uid, (tier, skill, "https://a.test"), secret)
}

/// The same for a skill that calls an origin.
fn get_at(
    vault: &Vault,
    uid: &str,
    (tier, skill, origin): (Tier, &str, &str),
    secret: &str,
) -> Result<String, String> {
    let skill = CalledSkill { tier, id: &id(skill), origin: Some(origin) };
    match vault.secrets_for_call(&owner(uid), skill, &[secret.to_owned()]) {
        Ok(values) => Ok(values[secret].to_string()),
        Err(VaultError::MissingSecrets(lacks)) => Err(format!("{:?}", lacks[0].reason)),
        Err(error) => Err(error.code().to_owned()),
    }
}

#[test]
fn that_of_the_skill_comes_before_the_global_one() {
    let (vault, _dir) = vault();
    set(&vault, "ann", None, "TOKEN", "global");
    let get = |skill| get(&vault, "ann", Tier::Private, skill, "TOKEN");
    assert_eq!(get("echo"), Ok("global".to_owned()));
    set(&vault, "ann", Some("echo"), "TOKEN", "of echo");
    assert_eq!(get("echo"), Ok("of echo".to_owned()));
    assert_eq!(get("other"), Ok("global".to_owned()));
    assert!(vault.remove_secret(act(), &owner("ann"), Some(&id("echo")), &name("TOKEN")).unwrap());
    assert_eq!(get("echo"), Ok("global".to_owned()));
    assert!(!vault.remove_secret(act(), &owner("ann"), Some(&id("echo")), &name("TOKEN")).unwrap());
}

#[test]
fn nobody_gets_the_secrets_of_another() {
    let (vault, _dir) = vault();
    set(&vault, "ann", None, "TOKEN", "of ann");
    for tier in [Tier::Private, Tier::Official, Tier::Market] {
        assert_eq!(get(&vault, "bob", tier, "echo", "TOKEN"), Err("NotSet".to_owned()));
    }
    assert_eq!(vault.secrets(&owner("bob")).unwrap(), []);
}

#[test]
fn the_market_gets_what_was_granted_and_nothing_else() {
    let (vault, _dir) = vault();
    let ann = owner("ann");
    set(&vault, "ann", None, "TOKEN", "global");
    set(&vault, "ann", Some("echo"), "OWN", "of echo");
    let market = |skill, secret| get(&vault, "ann", Tier::Market, skill, secret);
    let not_granted = || Err("NotGranted".to_owned());
    assert_eq!(market("echo", "TOKEN"), not_granted());
    // Set for that id, but not said for which tier: the private or official skill of that id has it.
    assert_eq!(market("echo", "OWN"), not_granted());
    assert_eq!(get(&vault, "ann", Tier::Private, "echo", "OWN"), Ok("of echo".to_owned()));
    assert_eq!(get(&vault, "ann", Tier::Official, "echo", "TOKEN"), Ok("global".to_owned()));

    let grant = |secret| vault.grant_secret(act(), &ann, &id("echo"), None, &name(secret)).unwrap();
    assert!(grant("TOKEN") && !grant("TOKEN") && grant("OWN"));
    assert_eq!(market("echo", "TOKEN"), Ok("global".to_owned()));
    assert_eq!(market("echo", "OWN"), Ok("of echo".to_owned()));
    assert_eq!(market("other", "TOKEN"), not_granted());

    assert!(vault.ungrant_secret(act(), &ann, &id("echo"), &name("TOKEN")).unwrap());
    assert!(!vault.ungrant_secret(act(), &ann, &id("echo"), &name("TOKEN")).unwrap());
    assert_eq!(market("echo", "TOKEN"), not_granted());
}

/// Whoever has the id in the market later, or sends things elsewhere, has not what was granted before.
#[test]
fn a_grant_is_for_the_origin_that_was_seen() {
    let (vault, _dir) = vault();
    let ann = owner("ann");
    for secret in ["TOKEN", "OTHER"] {
        set(&vault, "ann", None, secret, "value");
    }
    let at = |origin, secret| get_at(&vault, "ann", (Tier::Market, "echo", origin), secret);
    let grant = |origin: Option<&str>, secret| {
        vault.grant_secret(act(), &ann, &id("echo"), origin, &name(secret)).unwrap()
    };
    let (value, changed) = (|| Ok("value".to_owned()), || Err("OriginChanged".to_owned()));
    assert!(grant(Some("https://a.test"), "TOKEN"));
    assert_eq!(at("https://a.test", "TOKEN"), value());
    assert_eq!(at("https://evil.test", "TOKEN"), changed());
    assert_eq!(at("https://a.test:8443", "TOKEN"), changed());
    // Granted again, it is for what is there now.
    assert!(grant(Some("https://evil.test"), "TOKEN"));
    assert_eq!(
        (at("https://evil.test", "TOKEN"), at("https://a.test", "TOKEN")),
        (value(), changed())
    );
    // Granted again without a look, it stays for what it is for.
    assert!(!grant(None, "TOKEN"));
    assert_eq!(
        (at("https://evil.test", "TOKEN"), at("https://a.test", "TOKEN")),
        (value(), changed())
    );
    // Granted without a look, it is for what is called first; asking what is lacking is no call.
    assert!(grant(None, "OTHER"));
    let (echo, origin) = (id("echo"), Some("https://evil.test"));
    let skill = CalledSkill { tier: Tier::Market, id: &echo, origin };
    assert_eq!(vault.lacking_secrets(&ann, skill, &["OTHER".to_owned()]).unwrap(), []);
    assert_eq!(at("https://a.test", "OTHER"), value());
    assert_eq!(at("https://evil.test", "OTHER"), changed());
    let origins: Vec<_> = vault.grants(&ann).unwrap().into_iter().map(|it| it.origin).collect();
    assert_eq!(origins, ["https://a.test", "https://evil.test"].map(|it| Some(it.to_owned())));
    let error = vault.secrets_for_call(&ann, skill, &["OTHER".to_owned()]).unwrap_err();
    assert!(error.to_string().contains("called another server: OTHER"), "{error}");
}

#[test]
fn a_grant_goes_with_the_last_value_it_reaches() {
    let (vault, _dir) = vault();
    let ann = owner("ann");
    let remove = |skill: Option<&str>| {
        let skill = skill.map(id);
        vault.remove_secret(act(), &ann, skill.as_ref(), &name("TOKEN")).unwrap()
    };
    let granted = || vault.grants(&ann).unwrap().into_iter().map(|g| g.skill).collect::<Vec<_>>();
    let missing = vault.grant_secret(act(), &ann, &id("echo"), None, &name("TOKEN")).unwrap_err();
    assert_eq!(missing.code(), "no_such_secret");
    set(&vault, "ann", None, "TOKEN", "global");
    set(&vault, "ann", Some("echo"), "TOKEN", "of echo");
    for skill in ["echo", "other"] {
        vault.grant_secret(act(), &ann, &id(skill), None, &name("TOKEN")).unwrap();
    }
    assert!(remove(None));
    assert_eq!(granted(), ["echo"]);
    assert!(remove(Some("echo")));
    assert_eq!(granted(), [""; 0]);
    set(&vault, "ann", None, "TOKEN", "another");
    let got = get(&vault, "ann", Tier::Market, "echo", "TOKEN");
    assert_eq!(got, Err("NotGranted".to_owned()));
}

#[test]
fn everything_that_is_missing_is_named_before_anything_is_opened() {
    let (vault, dir) = vault();
    set(&vault, "ann", None, "A", "value of a");
    let needed = ["A", "B", "no name at all!"].map(str::to_owned);
    let echo = id("echo");
    let skill = |tier| CalledSkill { tier, id: &echo, origin: None };
    let call = |tier| vault.secrets_for_call(&owner("ann"), skill(tier), &needed);
    let error = call(Tier::Market).unwrap_err();
    assert_eq!(
        error.to_string(),
        "secrets are missing: B, no name at all!; secrets are not granted to this skill of the market: A"
    );
    assert!(!format!("{error:?}").contains("value of a"));
    assert_eq!(
        call(Tier::Private).unwrap_err().to_string(),
        "secrets are missing: B, no name at all!"
    );
    let lacks = vault.lacking_secrets(&owner("ann"), skill(Tier::Market), &needed).unwrap();
    assert_eq!(lacks[0], Lack { name: "A".to_owned(), reason: LackReason::NotGranted });
    let many = vec!["A".to_owned(); MAX_SECRETS_OF_SKILL + 1];
    let many = vault.secrets_for_call(&owner("ann"), skill(Tier::Private), &many);
    assert_eq!(many.unwrap_err().code(), "too_many");

    // Which are missing can be said without the master key, and nothing else can.
    drop(vault);
    let vault = Vault::open(dir.path(), None).unwrap();
    let lacks = vault.lacking_secrets(&owner("ann"), skill(Tier::Official), &needed[..1]);
    assert_eq!(lacks.unwrap(), []);
    let got = get(&vault, "ann", Tier::Private, "echo", "A");
    assert_eq!(got, Err("no_master_key".to_owned()));
    let set = vault.set_secret(act(), &owner("ann"), None, &name("A"), "x");
    assert_eq!(set.unwrap_err().code(), "no_master_key");
    assert!(vault.secrets_for_call(&owner("ann"), skill(Tier::Private), &[]).is_ok());
}

#[test]
fn lists_tell_names_and_never_values() {
    let (vault, dir) = vault();
    set(&vault, "ann", None, "TOKEN", "hidden value");
    set(&vault, "ann", Some("echo"), "TOKEN", "hidden value");
    set(&vault, "ann", None, "A-b_9", "hidden value");
    vault.grant_secret(act(), &owner("ann"), &id("echo"), None, &name("TOKEN")).unwrap();
    vault.grant_secret(act(), &owner("ann"), &id("other"), None, &name("TOKEN")).unwrap();
    let list = vault.secrets(&owner("ann")).unwrap();
    let row = |info: &SecretInfo| {
        (info.name.clone(), info.skill.clone().unwrap_or_default(), info.granted_to.join(" "))
    };
    let rows: Vec<_> = list.iter().map(row).collect();
    let text = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
    assert_eq!(
        rows,
        [text("A-b_9", "", ""), text("TOKEN", "", "echo other"), text("TOKEN", "echo", "echo")]
    );
    assert!(!format!("{list:?}{vault:?}{:?}", vault.audit(0, 99)).contains("hidden"));
    drop(vault);
    let file = std::fs::read(dir.path().join("vault.sqlite")).unwrap();
    let contains = |needle: &[u8]| file.windows(needle.len()).any(|bytes| bytes == needle);
    assert!(contains(b"A-b_9") && !contains(b"hidden"));
}

#[test]
fn names_and_values_have_bounds() {
    for bad in ["", "a b", "a.b", "ä", "a\n", &"a".repeat(65)] {
        assert!(matches!(bad.parse::<SecretName>(), Err(VaultError::BadSecretName)), "{bad:?}");
    }
    let (vault, _dir) = vault();
    let ann = owner("ann");
    let set = |value: &str| vault.set_secret(act(), &ann, None, &name("A"), value);
    assert_eq!(set("").unwrap_err().code(), "invalid_input");
    assert_eq!(set(&"x".repeat(MAX_VALUE_BYTES + 1)).unwrap_err().code(), "too_large");
    set(&"x".repeat(MAX_VALUE_BYTES)).unwrap();
    let got = get(&vault, "ann", Tier::Private, "echo", "A").unwrap();
    assert_eq!(got.len(), MAX_VALUE_BYTES);

    let fill = vault.file.write(|transaction| {
        for number in 1..MAX_SECRETS {
            let name = format!("N{number}");
            let place = Place { owner: "ann", skill: "", name: &name };
            put(transaction, act(), place, "v1")?;
        }
        Ok(())
    });
    fill.unwrap();
    let one_more = vault.set_secret(act(), &ann, None, &name("ONE_MORE"), "x").unwrap_err();
    assert_eq!(one_more.code(), "too_many");
    set("the same again").unwrap();
    assert_eq!(vault.secrets(&ann).unwrap().len(), MAX_SECRETS);
}

#[test]
fn a_value_that_was_moved_does_not_open() {
    let (vault, _dir) = vault();
    set(&vault, "ann", None, "TOKEN", "of ann");
    set(&vault, "bob", None, "TOKEN", "of bob");
    let moved = vault.file.write(|transaction| {
        let sql = "UPDATE secret SET envelope = (SELECT envelope FROM secret WHERE owner = 'ann')
                   WHERE owner = 'bob'";
        Ok(transaction.execute(sql, [])?)
    });
    assert_eq!(moved.unwrap(), 1);
    let got = get(&vault, "bob", Tier::Private, "echo", "TOKEN");
    assert_eq!(got, Err("unreadable_secret".to_owned()));
}

#[test]
fn rotation_seals_everything_anew_and_the_old_key_can_go() {
    let (vault, dir) = vault();
    let filled = vault.file.write(|transaction| {
        for number in 0..BATCHES {
            let (owner, name) = (format!("u{}", number % 7), format!("N{number}"));
            let place = Place { owner: &owner, skill: "", name: &name };
            put(transaction, act(), place, &vault.master()?.seal(place, "value")?)?;
        }
        Ok(())
    });
    filled.unwrap();
    let legacy = "000102030405060708090a0b.41c43c4c932efc0c18e08262fb642111.7e7dd95a2f";
    let keep = |vault: &Vault, name: &str, envelope: &str| {
        let place = Place { owner: "ann", skill: "", name };
        vault.file.write(|transaction| put(transaction, act(), place, envelope)).unwrap();
    };
    keep(&vault, "OLD", legacy);
    drop(vault);

    let open = |keys| Vault::open(dir.path(), Some(keys)).unwrap();
    let vault = open(master(OTHER, Some(MASTER)));
    set(&vault, "ann", None, "NEW", "value");
    keep(&vault, "BROKEN", &legacy.replace("7e", "7f"));
    let outcome = vault.rotate_secrets(act()).unwrap();
    assert_eq!(
        outcome,
        Rotated {
            rotated: BATCHES + 1,
            current: 1,
            unreadable: 1,
            unreadable_secrets: vec!["BROKEN of ann".to_owned()],
        }
    );
    drop(vault);
    let vault = open(master(OTHER, None));
    assert_eq!(get(&vault, "u3", Tier::Private, "echo", "N3"), Ok("value".to_owned()));
    assert_eq!(get(&vault, "ann", Tier::Private, "echo", "OLD"), Ok("hello".to_owned()));
    let again = vault.rotate_secrets(act()).unwrap();
    assert_eq!((again.rotated, again.current, again.unreadable), (0, BATCHES + 2, 1));
    drop(vault);
    let vault = open(master(MASTER, None));
    let got = get(&vault, "u3", Tier::Private, "echo", "N3");
    assert_eq!(got, Err("unreadable_secret".to_owned()));
    assert_eq!(
        Vault::open(dir.path(), None).unwrap().rotate_secrets(act()).unwrap_err().code(),
        "no_master_key"
    );
}

/// More than are sealed anew at a time.
const BATCHES: usize = 230;
