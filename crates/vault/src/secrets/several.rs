//! Several secrets at once: all of them are kept, or none.

use rusqlite::Connection;
use skills_core::{Owner, SkillId};
use zeroize::Zeroizing;

use super::{SecretName, check_value, place, put, remove};
use crate::{Act, Vault, VaultError, file::Stop, keys::refuse_nobody};

/// What becomes of secrets of the same scope that are not among those that are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// They stay.
    Stay,
    /// They are removed.
    Go,
}

impl Vault {
    /// Keeps values, for one skill or for all.
    ///
    /// # Errors
    /// As for [`Vault::set_secret`]; then nothing is different.
    pub fn set_secrets(
        &self,
        act: Act<'_>,
        owner: &Owner,
        skill: Option<&SkillId>,
        values: &[(SecretName, Zeroizing<String>)],
        others: Others,
    ) -> Result<(), VaultError> {
        refuse_nobody(owner)?;
        let sealed = SealedSecrets::new(self, owner, skill, values, others)?;
        self.file.write(|transaction| sealed.put(transaction, act))
    }
}

/// Values that can be kept, of one scope.
pub(crate) struct SealedSecrets<'a> {
    owner: &'a Owner,
    skill: Option<&'a SkillId>,
    values: Vec<(&'a SecretName, String)>,
    others: Others,
}

impl<'a> SealedSecrets<'a> {
    /// Checks and seals all of them.
    pub(crate) fn new(
        vault: &Vault,
        owner: &'a Owner,
        skill: Option<&'a SkillId>,
        values: &'a [(SecretName, Zeroizing<String>)],
        others: Others,
    ) -> Result<Self, VaultError> {
        let seal = |(name, value): &'a (SecretName, Zeroizing<String>)| {
            check_value(value)?;
            Ok((name, vault.master()?.seal(place(owner, skill, name), value)?))
        };
        let values = values.iter().map(seal).collect::<Result<_, VaultError>>()?;
        Ok(Self { owner, skill, values, others })
    }

    /// Keeps them, in the transaction of who asks.
    pub(crate) fn put(&self, transaction: &Connection, act: Act<'_>) -> Result<(), Stop> {
        let Self { owner, skill, values, others } = self;
        if *others == Others::Go {
            for name in names(transaction, owner, *skill)? {
                if !values.iter().any(|(set, _)| **set == name) {
                    remove(transaction, act, owner, *skill, &name)?;
                }
            }
        }
        for (name, envelope) in values {
            put(transaction, act, place(owner, *skill, name), envelope)?;
        }
        Ok(())
    }
}

fn names(
    connection: &Connection,
    owner: &Owner,
    skill: Option<&SkillId>,
) -> Result<Vec<SecretName>, Stop> {
    let sql = "SELECT name FROM secret WHERE owner = ?1 AND skill = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let skill = skill.map_or("", SkillId::as_str);
    let names = statement.query_map([owner.as_str(), skill], |row| row.get::<_, String>(0))?;
    let mut found = vec![];
    for name in names {
        found.push(name?.parse()?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vault::testing::{act, owner, vault};

    fn values(names: &[&str]) -> Vec<(SecretName, Zeroizing<String>)> {
        names.iter().map(|name| (name.parse().unwrap(), "v".to_owned().into())).collect()
    }

    #[test]
    fn others_stay_or_go_and_a_bad_one_changes_nothing() {
        let (vault, _dir) = vault();
        let (ann, skill) = (owner("ann"), "weather".parse().unwrap());
        let set = |skill, names: &[&str], others| {
            vault.set_secrets(act(), &ann, skill, &values(names), others)
        };
        set(None, &["A", "B"], Others::Stay).unwrap();
        set(Some(&skill), &["A"], Others::Stay).unwrap();
        vault
            .grant_secret(act(), &ann, &"forecast".parse().unwrap(), None, &"B".parse().unwrap())
            .unwrap();
        let names = || -> Vec<String> {
            let shown = |info: crate::SecretInfo| {
                format!("{}{}", info.skill.map(|it| it + "/").unwrap_or_default(), info.name)
            };
            vault.secrets(&ann).unwrap().into_iter().map(shown).collect()
        };
        set(None, &["C"], Others::Stay).unwrap();
        assert_eq!(names(), ["A", "weather/A", "B", "C"]);
        let mut bad = values(&["D", "E"]);
        bad[1].1.clear();
        let refused = vault.set_secrets(act(), &ann, None, &bad, Others::Go);
        assert!(matches!(refused, Err(VaultError::EmptySecret)));
        assert_eq!(names(), ["A", "weather/A", "B", "C"]);
        set(None, &["A"], Others::Go).unwrap();
        assert_eq!(names(), ["A", "weather/A"]);
        assert!(vault.grants(&ann).unwrap().is_empty());
    }
}
