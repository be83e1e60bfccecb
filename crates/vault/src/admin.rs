//! The two secrets that open the administration. Where one is not set, its door is closed.

use std::fmt;

use skills_core::{Digest, caller::AdminName};
use subtle::ConstantTimeEq as _;

/// Fewer bytes could be guessed.
const MIN_BYTES: usize = 16;
/// Fewer bytes should be more.
const GOOD_BYTES: usize = 32;

/// What the person who runs the server should know about a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdminWarning {
    /// Its door stays closed.
    #[error(
        "{0} has fewer than {MIN_BYTES} bytes and is not used: what it would open stays closed"
    )]
    TooShort(AdminName),
    /// It is used all the same.
    #[error("{0} has fewer than {GOOD_BYTES} bytes; a longer one is harder to guess")]
    Short(AdminName),
    /// Who has one has both.
    #[error(
        "ADMIN_KEY and INTERNAL_API_SECRET are the same; who presents it is taken for ADMIN_KEY"
    )]
    Same,
}

/// The secrets, as digests: they are compared in constant time, whatever their length.
#[derive(Clone, Default)]
pub struct AdminSecrets(Vec<(AdminName, Digest)>);

impl fmt::Debug for AdminSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl AdminSecrets {
    /// From the values of `ADMIN_KEY` and `INTERNAL_API_SECRET`. One that is absent, empty or too short
    /// opens nothing.
    #[must_use]
    pub fn from_env(
        admin_key: Option<&str>,
        internal_api_secret: Option<&str>,
    ) -> (Self, Vec<AdminWarning>) {
        let (mut secrets, mut warnings) = (vec![], vec![]);
        for (name, value) in
            [(AdminName::AdminKey, admin_key), (AdminName::InternalApiSecret, internal_api_secret)]
        {
            // A header loses the spaces around it, so a secret with some could never be presented.
            let value = value.unwrap_or_default().trim();
            match value.len() {
                0 => continue,
                1..MIN_BYTES => {
                    warnings.push(AdminWarning::TooShort(name));
                    continue;
                }
                MIN_BYTES..GOOD_BYTES => warnings.push(AdminWarning::Short(name)),
                _ => {}
            }
            secrets.push((name, Digest::of(value.as_bytes())));
        }
        if let [(_, one), (_, other)] = &secrets[..]
            && one == other
        {
            warnings.push(AdminWarning::Same);
        }
        (Self(secrets), warnings)
    }

    /// Whether any door can be opened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Which secret was presented.
    #[must_use]
    pub fn find(&self, presented: &str) -> Option<AdminName> {
        let presented = Digest::of(presented.as_bytes());
        let mut found = None;
        // All of them are compared, also after one fits.
        for (name, secret) in self.0.iter().rev() {
            if bool::from(secret.as_bytes().ct_eq(presented.as_bytes())) {
                found = Some(*name);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn a_door_without_a_secret_stays_closed() {
        for (admin, internal) in [(None, None), (Some(""), Some("  ")), (Some("short"), None)] {
            let (secrets, _) = AdminSecrets::from_env(admin, internal);
            assert!(secrets.is_empty());
            for presented in ["", " ", "  ", "short", "undefined", "null"] {
                assert_eq!(secrets.find(presented), None, "{presented:?}");
            }
        }
    }

    #[test]
    fn each_opens_its_own() {
        let (secrets, warnings) = AdminSecrets::from_env(Some(LONG), Some("another secret 1"));
        assert_eq!(warnings, [AdminWarning::Short(AdminName::InternalApiSecret)]);
        assert_eq!(secrets.find(LONG), Some(AdminName::AdminKey));
        assert_eq!(secrets.find("another secret 1"), Some(AdminName::InternalApiSecret));
        assert_eq!(secrets.find(&LONG[1..]), None);
        assert_eq!(secrets.find(""), None);
        assert!(!format!("{secrets:?}").contains("0123"));
    }

    #[test]
    fn what_should_be_known_is_said() {
        let (secrets, warnings) = AdminSecrets::from_env(Some("fifteen bytes.."), Some(LONG));
        assert_eq!(warnings, [AdminWarning::TooShort(AdminName::AdminKey)]);
        assert!(warnings[0].to_string().contains("stays closed"));
        assert_eq!(secrets.find("fifteen bytes.."), None);
        let (secrets, warnings) = AdminSecrets::from_env(Some(LONG), Some(LONG));
        assert_eq!(warnings, [AdminWarning::Same]);
        assert_eq!(secrets.find(LONG), Some(AdminName::AdminKey));
    }
}
