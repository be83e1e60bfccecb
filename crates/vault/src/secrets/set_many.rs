//! Sets several secrets in one transaction.

use skills_core::{Owner, SkillId};
use zeroize::Zeroizing;

use super::{SecretName, binding, check_value, put, remove};
use crate::{Actor, Vault, VaultError, backend::Tables, keys::reject_nil_owner};

/// Treatment of the scope's secrets that are not among those to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherSecrets {
    /// They stay.
    Keep,
    /// They are removed.
    Remove,
}

impl Vault {
    /// Sets secrets for one skill or for all skills.
    ///
    /// # Errors
    /// The errors of [`Vault::set_secret`]; the secrets are then unchanged.
    pub fn set_secrets(
        &self,
        actor: Actor<'_>,
        owner: &Owner,
        skill: Option<&SkillId>,
        values: &[(SecretName, Zeroizing<String>)],
        others: OtherSecrets,
    ) -> Result<(), VaultError> {
        reject_nil_owner(owner)?;
        let secrets = EncryptedSecrets::new(self, owner, skill, values, others)?;
        self.backend.write(|tables| secrets.put(tables, actor))
    }
}

/// Checked and encrypted secrets of one scope.
pub(crate) struct EncryptedSecrets<'a> {
    owner: &'a Owner,
    skill: Option<&'a SkillId>,
    values: Vec<(&'a SecretName, String)>,
    others: OtherSecrets,
}

impl<'a> EncryptedSecrets<'a> {
    /// Checks and encrypts the values.
    pub(crate) fn new(
        vault: &Vault,
        owner: &'a Owner,
        skill: Option<&'a SkillId>,
        values: &'a [(SecretName, Zeroizing<String>)],
        others: OtherSecrets,
    ) -> Result<Self, VaultError> {
        let encrypt = |(name, value): &'a (SecretName, Zeroizing<String>)| {
            check_value(value)?;
            Ok((name, vault.master()?.seal(binding(owner, skill, name), value)?))
        };
        let values = values.iter().map(encrypt).collect::<Result<_, VaultError>>()?;
        Ok(Self { owner, skill, values, others })
    }

    /// Stores them in the caller's transaction.
    pub(crate) fn put(&self, tables: &mut dyn Tables, actor: Actor<'_>) -> Result<(), VaultError> {
        let Self { owner, skill, values, others } = self;
        if *others == OtherSecrets::Remove {
            let scope = skill.map_or("", SkillId::as_str);
            for name in tables.secret_names(owner.as_str(), scope)? {
                let name = name.parse()?;
                if !values.iter().any(|(set, _)| **set == name) {
                    remove(tables, actor, owner, *skill, &name)?;
                }
            }
        }
        for (name, envelope) in values {
            put(tables, actor, binding(owner, *skill, name), envelope)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vault::testing::{TestSite, actor, contract, owner};

    fn values(names: &[&str]) -> Vec<(SecretName, Zeroizing<String>)> {
        names.iter().map(|name| (name.parse().unwrap(), "v".to_owned().into())).collect()
    }

    contract! {
        other_secrets_are_kept_or_removed_and_an_invalid_value_changes_nothing,
    }

    fn other_secrets_are_kept_or_removed_and_an_invalid_value_changes_nothing(site: &TestSite) {
        let vault = site.vault();
        let (ann, skill) = (owner("ann"), "weather".parse().unwrap());
        let set = |skill, names: &[&str], others| {
            vault.set_secrets(actor(), &ann, skill, &values(names), others)
        };
        set(None, &["A", "B"], OtherSecrets::Keep).unwrap();
        set(Some(&skill), &["A"], OtherSecrets::Keep).unwrap();
        vault
            .grant_secret(actor(), &ann, &"forecast".parse().unwrap(), None, &"B".parse().unwrap())
            .unwrap();
        let names = || -> Vec<String> {
            let scoped = |info: crate::SecretInfo| {
                format!("{}{}", info.skill.map(|it| it + "/").unwrap_or_default(), info.name)
            };
            vault.secrets(&ann).unwrap().into_iter().map(scoped).collect()
        };
        set(None, &["C"], OtherSecrets::Keep).unwrap();
        assert_eq!(names(), ["A", "weather/A", "B", "C"]);
        let mut bad = values(&["D", "E"]);
        bad[1].1.clear();
        let refused = vault.set_secrets(actor(), &ann, None, &bad, OtherSecrets::Remove);
        assert!(matches!(refused, Err(VaultError::EmptySecret)));
        assert_eq!(names(), ["A", "weather/A", "B", "C"]);
        set(None, &["A"], OtherSecrets::Remove).unwrap();
        assert_eq!(names(), ["A", "weather/A"]);
        assert!(vault.grants(&ann).unwrap().is_empty());
    }
}
