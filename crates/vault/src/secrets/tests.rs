use skills_core::{Coded as _, Tier, limits::MAX_SECRETS_OF_SKILL};

use super::*;
use crate::{
    MissingReason,
    vault::testing::{MASTER, TestSite, actor, contract, master, owner, vault},
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
    vault.set_secret(actor(), &owner(uid), skill.as_ref(), &name(secret), value).unwrap();
}

/// Returns the value that a call gets, or the reason why it gets none.
fn get(vault: &Vault, uid: &str, tier: Tier, skill: &str, secret: &str) -> Result<String, String> {
    get_at(vault, uid, (tier, skill, "https://a.test"), secret)
}

/// Returns the value for a skill that calls an origin.
fn get_at(
    vault: &Vault,
    uid: &str,
    (tier, skill, origin): (Tier, &str, &str),
    secret: &str,
) -> Result<String, String> {
    let skill = CalledSkill { tier, id: &id(skill), origin: Some(origin) };
    match vault.secrets_for_call(&owner(uid), skill, &[secret.to_owned()]) {
        Ok(values) => Ok(values[secret].to_string()),
        Err(VaultError::MissingSecrets(missing)) => Err(format!("{:?}", missing[0].reason)),
        Err(error) => Err(error.code().as_str().to_owned()),
    }
}

contract! {
    a_secret_of_the_skill_precedes_the_global_one,
    secrets_are_isolated_by_owner,
    market_skills_get_granted_secrets_only,
    a_grant_is_bound_to_its_origin,
    a_grant_is_removed_with_the_last_value_it_reaches,
    all_missing_secrets_are_reported_before_any_is_decrypted,
    names_and_values_are_limited,
    a_moved_value_does_not_decrypt,
    after_a_rotation_the_previous_key_is_not_needed,
}

fn a_secret_of_the_skill_precedes_the_global_one(site: &TestSite) {
    let vault = site.vault();
    set(&vault, "ann", None, "TOKEN", "global");
    let get = |skill| get(&vault, "ann", Tier::Private, skill, "TOKEN");
    assert_eq!(get("echo"), Ok("global".to_owned()));
    set(&vault, "ann", Some("echo"), "TOKEN", "of echo");
    assert_eq!(get("echo"), Ok("of echo".to_owned()));
    assert_eq!(get("other"), Ok("global".to_owned()));
    assert!(
        vault.remove_secret(actor(), &owner("ann"), Some(&id("echo")), &name("TOKEN")).unwrap()
    );
    assert_eq!(get("echo"), Ok("global".to_owned()));
    assert!(
        !vault.remove_secret(actor(), &owner("ann"), Some(&id("echo")), &name("TOKEN")).unwrap()
    );
}

fn secrets_are_isolated_by_owner(site: &TestSite) {
    let vault = site.vault();
    set(&vault, "ann", None, "TOKEN", "of ann");
    for tier in Tier::ALL {
        assert_eq!(get(&vault, "bob", tier, "echo", "TOKEN"), Err("NotSet".to_owned()), "{tier:?}");
    }
    assert_eq!(vault.secrets(&owner("bob")).unwrap(), []);
}

fn market_skills_get_granted_secrets_only(site: &TestSite) {
    let vault = site.vault();
    let ann = owner("ann");
    set(&vault, "ann", None, "TOKEN", "global");
    set(&vault, "ann", Some("echo"), "OWN", "of echo");
    let market = |skill, secret| get(&vault, "ann", Tier::Market, skill, secret);
    let not_granted = || Err("NotGranted".to_owned());
    assert_eq!(market("echo", "TOKEN"), not_granted());
    // A secret set for the id is for its private or official skill.
    assert_eq!(market("echo", "OWN"), not_granted());
    assert_eq!(get(&vault, "ann", Tier::Private, "echo", "OWN"), Ok("of echo".to_owned()));
    assert_eq!(get(&vault, "ann", Tier::Official, "echo", "TOKEN"), Ok("global".to_owned()));

    let grant =
        |secret| vault.grant_secret(actor(), &ann, &id("echo"), None, &name(secret)).unwrap();
    assert!(grant("TOKEN") && !grant("TOKEN") && grant("OWN"));
    assert_eq!(market("echo", "TOKEN"), Ok("global".to_owned()));
    assert_eq!(market("echo", "OWN"), Ok("of echo".to_owned()));
    assert_eq!(market("other", "TOKEN"), not_granted());

    assert!(vault.revoke_grant(actor(), &ann, &id("echo"), &name("TOKEN")).unwrap());
    assert!(!vault.revoke_grant(actor(), &ann, &id("echo"), &name("TOKEN")).unwrap());
    assert_eq!(market("echo", "TOKEN"), not_granted());
}

fn a_grant_is_bound_to_its_origin(site: &TestSite) {
    let vault = site.vault();
    let ann = owner("ann");
    for secret in ["TOKEN", "OTHER"] {
        set(&vault, "ann", None, secret, "value");
    }
    let at = |origin, secret| get_at(&vault, "ann", (Tier::Market, "echo", origin), secret);
    let grant = |origin: Option<&str>, secret| {
        vault.grant_secret(actor(), &ann, &id("echo"), origin, &name(secret)).unwrap()
    };
    let (value, changed) = (|| Ok("value".to_owned()), || Err("OriginChanged".to_owned()));
    assert!(grant(Some("https://a.test"), "TOKEN"));
    assert_eq!(at("https://a.test", "TOKEN"), value());
    assert_eq!(at("https://evil.test", "TOKEN"), changed());
    assert_eq!(at("https://a.test:8443", "TOKEN"), changed());
    // A new grant replaces the origin.
    assert!(grant(Some("https://evil.test"), "TOKEN"));
    assert_eq!(
        (at("https://evil.test", "TOKEN"), at("https://a.test", "TOKEN")),
        (value(), changed())
    );
    // A new grant without an origin keeps the old origin.
    assert!(!grant(None, "TOKEN"));
    assert_eq!(
        (at("https://evil.test", "TOKEN"), at("https://a.test", "TOKEN")),
        (value(), changed())
    );
    // A grant without an origin is bound by the first call; missing_secrets is not a call.
    assert!(grant(None, "OTHER"));
    let (echo, origin) = (id("echo"), Some("https://evil.test"));
    let skill = CalledSkill { tier: Tier::Market, id: &echo, origin };
    assert_eq!(vault.missing_secrets(&ann, skill, &["OTHER".to_owned()]).unwrap(), []);
    assert_eq!(at("https://a.test", "OTHER"), value());
    assert_eq!(at("https://evil.test", "OTHER"), changed());
    let origins: Vec<_> = vault.grants(&ann).unwrap().into_iter().map(|it| it.origin).collect();
    assert_eq!(origins, ["https://a.test", "https://evil.test"].map(|it| Some(it.to_owned())));
    let error = vault.secrets_for_call(&ann, skill, &["OTHER".to_owned()]).unwrap_err();
    assert!(error.to_string().contains("called another server: OTHER"), "{error}");
}

fn a_grant_is_removed_with_the_last_value_it_reaches(site: &TestSite) {
    let vault = site.vault();
    let ann = owner("ann");
    let remove = |skill: Option<&str>| {
        let skill = skill.map(id);
        vault.remove_secret(actor(), &ann, skill.as_ref(), &name("TOKEN")).unwrap()
    };
    let granted = || vault.grants(&ann).unwrap().into_iter().map(|g| g.skill).collect::<Vec<_>>();
    let missing = vault.grant_secret(actor(), &ann, &id("echo"), None, &name("TOKEN")).unwrap_err();
    assert_eq!(missing.code().as_str(), "no_such_secret");
    set(&vault, "ann", None, "TOKEN", "global");
    set(&vault, "ann", Some("echo"), "TOKEN", "of echo");
    for skill in ["echo", "other"] {
        vault.grant_secret(actor(), &ann, &id(skill), None, &name("TOKEN")).unwrap();
    }
    assert!(remove(None));
    assert_eq!(granted(), ["echo"]);
    assert!(remove(Some("echo")));
    assert_eq!(granted(), [""; 0]);
    set(&vault, "ann", None, "TOKEN", "another");
    let got = get(&vault, "ann", Tier::Market, "echo", "TOKEN");
    assert_eq!(got, Err("NotGranted".to_owned()));
}

fn all_missing_secrets_are_reported_before_any_is_decrypted(site: &TestSite) {
    let vault = site.vault();
    set(&vault, "ann", None, "A", "value of a");
    let nul = vault.missing_secrets(
        &owner("ann"),
        CalledSkill { tier: Tier::Market, id: &id("echo"), origin: None },
        &["a\0b".to_owned()],
    );
    assert_eq!(nul.unwrap()[0].reason, MissingReason::NotSet);
    let needed = ["A", "B", "no name at all!"].map(str::to_owned);
    let echo = id("echo");
    let skill = |tier| CalledSkill { tier, id: &echo, origin: None };
    let call = |tier| vault.secrets_for_call(&owner("ann"), skill(tier), &needed);
    let error = call(Tier::Market).unwrap_err();
    assert_eq!(
        error.to_string(),
        "missing secrets: B, no name at all!; secrets not granted to this market skill: A"
    );
    assert!(!format!("{error:?}").contains("value of a"));
    assert_eq!(call(Tier::Private).unwrap_err().to_string(), "missing secrets: B, no name at all!");
    let missing = vault.missing_secrets(&owner("ann"), skill(Tier::Market), &needed).unwrap();
    assert_eq!(
        missing[0],
        MissingSecret { name: "A".to_owned(), reason: MissingReason::NotGranted }
    );
    let many = vec!["A".to_owned(); MAX_SECRETS_OF_SKILL + 1];
    let many = vault.secrets_for_call(&owner("ann"), skill(Tier::Private), &many);
    assert_eq!(many.unwrap_err().code().as_str(), "too_many");

    // Without a master key only the missing ones can be determined.
    drop(vault);
    let vault = site.open(None);
    let missing = vault.missing_secrets(&owner("ann"), skill(Tier::Official), &needed[..1]);
    assert_eq!(missing.unwrap(), []);
    let got = get(&vault, "ann", Tier::Private, "echo", "A");
    assert_eq!(got, Err("no_master_key".to_owned()));
    let set = vault.set_secret(actor(), &owner("ann"), None, &name("A"), "x");
    assert_eq!(set.unwrap_err().code().as_str(), "no_master_key");
    assert!(vault.secrets_for_call(&owner("ann"), skill(Tier::Private), &[]).is_ok());
}

#[test]
fn lists_contain_names_and_no_values() {
    let (vault, dir) = vault();
    set(&vault, "ann", None, "TOKEN", "hidden value");
    set(&vault, "ann", Some("echo"), "TOKEN", "hidden value");
    set(&vault, "ann", None, "A-b_9", "hidden value");
    vault.grant_secret(actor(), &owner("ann"), &id("echo"), None, &name("TOKEN")).unwrap();
    vault.grant_secret(actor(), &owner("ann"), &id("other"), None, &name("TOKEN")).unwrap();
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

fn names_and_values_are_limited(site: &TestSite) {
    for bad in ["", "a b", "a.b", "ä", "a\n", &"a".repeat(65)] {
        assert!(matches!(bad.parse::<SecretName>(), Err(VaultError::BadSecretName)), "{bad:?}");
    }
    let vault = site.vault();
    let ann = owner("ann");
    let set = |value: &str| vault.set_secret(actor(), &ann, None, &name("A"), value);
    assert_eq!(set("").unwrap_err().code().as_str(), "invalid_input");
    assert_eq!(set(&"x".repeat(MAX_VALUE_BYTES + 1)).unwrap_err().code().as_str(), "too_large");
    set(&"x".repeat(MAX_VALUE_BYTES)).unwrap();
    let got = get(&vault, "ann", Tier::Private, "echo", "A").unwrap();
    assert_eq!(got.len(), MAX_VALUE_BYTES);

    let fill = vault.backend.write(|tables| {
        for number in 1..MAX_SECRETS {
            let name = format!("N{number}");
            let binding = SecretBinding { owner: "ann", skill: "", name: &name };
            put(tables, actor(), binding, "v1")?;
        }
        Ok(())
    });
    fill.unwrap();
    let one_more = vault.set_secret(actor(), &ann, None, &name("ONE_MORE"), "x").unwrap_err();
    assert_eq!(one_more.code().as_str(), "too_many");
    set("the same again").unwrap();
    assert_eq!(vault.secrets(&ann).unwrap().len(), MAX_SECRETS);
}

fn a_moved_value_does_not_decrypt(site: &TestSite) {
    let vault = site.vault();
    set(&vault, "ann", None, "TOKEN", "of ann");
    set(&vault, "bob", None, "TOKEN", "of bob");
    let moved = vault.backend.write(|tables| {
        let names = ["TOKEN".to_owned()];
        let row = |tables: &mut dyn Tables, owner| {
            Ok::<_, VaultError>(tables.secrets_for_skill(owner, "", &names)?.remove(0))
        };
        let (from, to) = (row(tables, "ann")?, row(tables, "bob")?);
        tables.replace_envelope(&to, &from.envelope)
    });
    assert!(moved.unwrap());
    let got = get(&vault, "bob", Tier::Private, "echo", "TOKEN");
    assert_eq!(got, Err("unreadable_secret".to_owned()));
}

fn after_a_rotation_the_previous_key_is_not_needed(site: &TestSite) {
    let vault = site.vault();
    let filled = vault.backend.write(|tables| {
        for number in 0..BATCHES {
            let (owner, name) = (format!("u{}", number % 7), format!("N{number}"));
            let binding = SecretBinding { owner: &owner, skill: "", name: &name };
            put(tables, actor(), binding, &vault.master()?.seal(binding, "value")?)?;
        }
        Ok(())
    });
    filled.unwrap();
    let legacy = "000102030405060708090a0b.41c43c4c932efc0c18e08262fb642111.7e7dd95a2f";
    let store = |vault: &Vault, name: &str, envelope: &str| {
        let binding = SecretBinding { owner: "ann", skill: "", name };
        vault.backend.write(|tables| put(tables, actor(), binding, envelope)).unwrap();
    };
    store(&vault, "OLD", legacy);
    drop(vault);

    let open = |keys| site.open(Some(keys));
    let vault = open(master(OTHER, Some(MASTER)));
    set(&vault, "ann", None, "NEW", "value");
    store(&vault, "BROKEN", &legacy.replace("7e", "7f"));
    let outcome = vault.rotate_secrets(actor()).unwrap();
    assert_eq!(
        outcome,
        RotationSummary {
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
    let again = vault.rotate_secrets(actor()).unwrap();
    assert_eq!((again.rotated, again.current, again.unreadable), (0, BATCHES + 2, 1));
    drop(vault);
    let vault = open(master(MASTER, None));
    let got = get(&vault, "u3", Tier::Private, "echo", "N3");
    assert_eq!(got, Err("unreadable_secret".to_owned()));
    assert_eq!(
        site.open(None).rotate_secrets(actor()).unwrap_err().code().as_str(),
        "no_master_key"
    );
}

/// More secrets than one transaction of a rotation has.
const BATCHES: usize = 230;
