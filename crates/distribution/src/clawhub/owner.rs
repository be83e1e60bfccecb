//! Publisher handles. They stand for tiers: `official`, `market`, and the caller's own for their private one.
//!
//! A client stores the handle of what it installed, in lower case, and sends it back. It refuses one with a slash.

use skills_core::{Caller, Tier, caller::AdminName};

use super::error::ClawHubError;

/// Handle of administrators, who have no private tier.
const ADMIN: &str = "admin";

/// Returns the handle of a caller; `None` without a key.
pub(super) fn own_handle(caller: &Caller) -> Option<String> {
    match caller {
        Caller::Anonymous => None,
        Caller::Admin(_) => Some(ADMIN.to_owned()),
        Caller::User(user) => {
            let uid = user.owner.to_string();
            let is_plain = |byte: u8| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte)
            };
            let is_handle = uid.bytes().all(is_plain)
                && !uid.contains("..")
                && uid != ADMIN
                && uid.parse::<Tier>().is_err();
            Some(if is_handle { uid } else { Tier::Private.as_str().to_owned() })
        }
    }
}

/// Returns the handle of a tier as a caller sees it.
pub(super) fn handle_of(tier: Tier, caller: &Caller) -> String {
    match tier {
        Tier::Private => own_handle(caller).unwrap_or_else(|| tier.as_str().to_owned()),
        Tier::Official | Tier::Market => tier.as_str().to_owned(),
    }
}

/// Returns the tier of a handle; `None` without one. An unknown publisher has no skills.
pub(super) fn tier_of(handle: Option<&str>, caller: &Caller) -> Result<Option<Tier>, ClawHubError> {
    let Some(handle) = handle.map(|handle| handle.trim().trim_start_matches('@').to_lowercase())
    else {
        return Ok(None);
    };
    if handle.is_empty() {
        return Ok(None);
    }
    match (handle.parse(), caller) {
        (Ok(tier @ (Tier::Official | Tier::Market)), _) => Ok(Some(tier)),
        (_, Caller::Admin(_)) if handle == ADMIN => Err(ClawHubError::OwnerNeeded),
        (Ok(Tier::Private), Caller::User(_)) => Ok(Some(Tier::Private)),
        _ if own_handle(caller) == Some(handle) => Ok(Some(Tier::Private)),
        _ => Err(ClawHubError::SkillNotFound),
    }
}

/// Returns the tier that a caller may change.
pub(super) fn writable_tier(handle: Option<&str>, caller: &Caller) -> Result<Tier, ClawHubError> {
    if *caller == Caller::Anonymous {
        return Err(ClawHubError::KeyNeeded);
    }
    let is_admin = *caller == Caller::Admin(AdminName::AdminKey);
    match (tier_of(handle, caller)?, caller) {
        (None | Some(Tier::Private), Caller::User(_)) => Ok(Tier::Private),
        (Some(tier @ (Tier::Official | Tier::Market)), _) if is_admin => Ok(tier),
        (None | Some(Tier::Private), _) => Err(ClawHubError::OwnerNeeded),
        (Some(tier), _) => Err(ClawHubError::AdminNeeded(tier.as_str())),
    }
}

#[cfg(test)]
mod tests {
    use skills_core::{Digest, caller::User};

    use super::*;

    fn user(uid: &str) -> Caller {
        Caller::User(User { owner: uid.parse().unwrap(), key: Digest::of(b"us-1") })
    }

    #[test]
    fn a_handle_is_a_name_that_clients_accept_and_no_tier() {
        for (uid, handle) in [
            ("ann", "ann"),
            ("Ann", "private"),
            ("a/b", "private"),
            ("a..b", "private"),
            ("official", "private"),
            ("admin", "private"),
        ] {
            assert_eq!(own_handle(&user(uid)).as_deref(), Some(handle), "{uid}");
        }
        assert_eq!(own_handle(&Caller::Anonymous), None);
    }

    #[test]
    fn handles_select_tiers_of_the_caller() {
        let (ann, official) = (user("ann"), user("official"));
        let admin = Caller::Admin(AdminName::AdminKey);
        let tier = |handle, caller| tier_of(Some(handle), caller).ok().flatten();
        assert_eq!(tier("@Ann", &ann), Some(Tier::Private));
        assert_eq!(tier("private", &ann), Some(Tier::Private));
        assert_eq!(tier("bob", &ann), None);
        assert_eq!(tier("private", &Caller::Anonymous), None);
        assert_eq!(tier("official", &official), Some(Tier::Official));
        assert!(writable_tier(Some("official"), &official).is_err());
        assert_eq!(writable_tier(None, &official).ok(), Some(Tier::Private));
        assert_eq!(writable_tier(Some("market"), &admin).ok(), Some(Tier::Market));
        for (handle, caller) in [
            (Some("official"), &ann),
            (Some("bob"), &ann),
            (None, &admin),
            (Some("admin"), &admin),
            (Some("market"), &Caller::Admin(AdminName::InternalApiSecret)),
            (None, &Caller::Anonymous),
        ] {
            assert!(writable_tier(handle, caller).is_err(), "{handle:?} {caller:?}");
        }
    }
}
