//! The two administrator secrets. A secret that is not set authenticates nobody.

use std::fmt;

use skills_core::{Code, Coded, Token, caller::AdminName};

/// Shortest accepted secret.
const MIN_BYTES: usize = 16;
/// Shortest secret without a warning.
const RECOMMENDED_BYTES: usize = 32;

/// An administrator secret is set and too short to be safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} has fewer than {MIN_BYTES} bytes and could be guessed")]
pub struct AdminSecretTooShort(pub AdminName);

impl Coded for AdminSecretTooShort {
    fn code(&self) -> Code {
        Code::BadSetting
    }

    fn hint(&self) -> Option<&str> {
        Some(match self.0 {
            AdminName::AdminKey => "set ADMIN_KEY to at least 32 random bytes, or unset it",
            AdminName::InternalApiSecret => {
                "set INTERNAL_API_SECRET to at least 32 random bytes, or unset it"
            }
        })
    }
}

/// A usable but weak configuration of the administrator secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdminWarning {
    /// The secret is accepted, but short.
    #[error("{0} has fewer than {RECOMMENDED_BYTES} bytes; use a longer one")]
    Short(AdminName),
    /// Both variables have the same value.
    #[error("ADMIN_KEY and INTERNAL_API_SECRET are the same; requests with it count as ADMIN_KEY")]
    Same,
}

/// Administrator secrets, compared in constant time.
#[derive(Clone, Default)]
pub struct AdminSecrets(Vec<(AdminName, Token)>);

impl fmt::Debug for AdminSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl AdminSecrets {
    /// Takes the values of `ADMIN_KEY` and `INTERNAL_API_SECRET`. An absent or empty one authenticates no request.
    ///
    /// # Errors
    /// When one is set and too short to be safe.
    pub fn from_env(
        admin_key: Option<&str>,
        internal_api_secret: Option<&str>,
    ) -> Result<(Self, Vec<AdminWarning>), AdminSecretTooShort> {
        let (mut secrets, mut warnings) = (vec![], vec![]);
        for (name, value) in
            [(AdminName::AdminKey, admin_key), (AdminName::InternalApiSecret, internal_api_secret)]
        {
            // A header value loses surrounding spaces, so a secret with spaces could never match.
            let value = value.unwrap_or_default().trim();
            match value.len() {
                0 => continue,
                1..MIN_BYTES => return Err(AdminSecretTooShort(name)),
                MIN_BYTES..RECOMMENDED_BYTES => warnings.push(AdminWarning::Short(name)),
                _ => {}
            }
            secrets.push((name, Token::new(value)));
        }
        let trimmed = |value: Option<&str>| value.unwrap_or_default().trim().to_owned();
        if secrets.len() == 2 && trimmed(admin_key) == trimmed(internal_api_secret) {
            warnings.push(AdminWarning::Same);
        }
        Ok((Self(secrets), warnings))
    }

    /// Returns whether no secret is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a secret is set.
    #[must_use]
    pub fn has(&self, name: AdminName) -> bool {
        self.0.iter().any(|(set, _)| *set == name)
    }

    /// Returns the name of the secret that equals a bearer token.
    #[must_use]
    pub fn find(&self, presented: &str) -> Option<AdminName> {
        let mut found = None;
        // Compares with all of them, also after a match, so that the time does not depend on it.
        for (name, secret) in self.0.iter().rev() {
            if secret.matches(presented.as_bytes()) {
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
    fn a_secret_that_is_not_set_authenticates_nobody() {
        for (admin, internal) in [(None, None), (Some(""), Some("  "))] {
            let (secrets, _) = AdminSecrets::from_env(admin, internal).unwrap();
            assert!(secrets.is_empty(), "{admin:?}");
            for presented in ["", " ", "  ", "short", "undefined", "null"] {
                assert_eq!(secrets.find(presented), None, "{presented:?}");
            }
        }
    }

    #[test]
    fn each_secret_is_found_by_its_own_value() {
        let (secrets, warnings) =
            AdminSecrets::from_env(Some(LONG), Some("another secret 1")).unwrap();
        assert_eq!(warnings, [AdminWarning::Short(AdminName::InternalApiSecret)]);
        assert_eq!(secrets.find(LONG), Some(AdminName::AdminKey));
        assert_eq!(secrets.find("another secret 1"), Some(AdminName::InternalApiSecret));
        assert_eq!(secrets.find(&LONG[1..]), None);
        assert_eq!(secrets.find(""), None);
        assert!(!format!("{secrets:?}").contains("0123"));
    }

    #[test]
    fn short_and_equal_secrets_are_reported() {
        let error = AdminSecrets::from_env(Some("fifteen bytes.."), Some(LONG)).unwrap_err();
        assert_eq!(error, AdminSecretTooShort(AdminName::AdminKey));
        assert!(!error.to_string().contains("fifteen"));
        let (secrets, warnings) = AdminSecrets::from_env(Some(LONG), Some(LONG)).unwrap();
        assert_eq!(warnings, [AdminWarning::Same]);
        assert_eq!(secrets.find(LONG), Some(AdminName::AdminKey));
    }
}
