//! Secrets and grants in memory.

use std::sync::Arc;

use skills_core::Timestamp;

use super::{MemoryTables, SecretKey};
use crate::{
    VaultError,
    backend::{GrantRow, SecretRow, SecretTables},
    crypt::SecretBinding,
    secrets::SealedRow,
};

fn secret_key(binding: SecretBinding<'_>) -> SecretKey {
    (binding.owner.to_owned(), binding.skill.to_owned(), binding.name.to_owned())
}

fn sealed_row((owner, skill, name): &SecretKey, envelope: &str) -> SealedRow {
    SealedRow {
        owner: owner.clone(),
        skill: skill.clone(),
        name: name.clone(),
        envelope: envelope.to_owned(),
    }
}

impl SecretTables for MemoryTables {
    fn secrets_for_skill(
        &mut self,
        owner: &str,
        skill: &str,
        names: &[String],
    ) -> Result<Vec<SealedRow>, VaultError> {
        let rows = self.rows.secrets.iter().filter(|((of, for_skill, name), _)| {
            of == owner && (for_skill.is_empty() || for_skill == skill) && names.contains(name)
        });
        Ok(rows.map(|(key, (envelope, _))| sealed_row(key, envelope)).collect())
    }

    fn secrets_of(
        &mut self,
        owner: &str,
        name: Option<&str>,
    ) -> Result<Vec<SecretRow>, VaultError> {
        let rows = self.rows.secrets.iter();
        let rows =
            rows.filter(|((of, _, named), _)| of == owner && name.is_none_or(|name| name == named));
        let mut rows: Vec<_> = rows
            .map(|((_, skill, name), (_, set_at))| SecretRow {
                name: name.clone(),
                skill: skill.clone(),
                set_at: *set_at,
            })
            .collect();
        rows.sort_by(|a, b| (&a.name, &a.skill).cmp(&(&b.name, &b.skill)));
        Ok(rows)
    }

    fn secret_names(&mut self, owner: &str, skill: &str) -> Result<Vec<String>, VaultError> {
        let keys =
            self.rows.secrets.keys().filter(|(of, for_skill, _)| of == owner && for_skill == skill);
        Ok(keys.map(|(_, _, name)| name.clone()).collect())
    }

    fn secrets_after(
        &mut self,
        (owner, skill, name): (&str, &str, &str),
        limit: usize,
    ) -> Result<Vec<SealedRow>, VaultError> {
        let after = (owner.to_owned(), skill.to_owned(), name.to_owned());
        let rows = self.rows.secrets.iter().filter(|(key, _)| **key > after);
        Ok(rows.take(limit).map(|(key, (envelope, _))| sealed_row(key, envelope)).collect())
    }

    fn count_secrets(&mut self, owner: &str) -> Result<usize, VaultError> {
        Ok(self.rows.secrets.keys().filter(|(of, ..)| of == owner).count())
    }

    fn put_secret(
        &mut self,
        binding: SecretBinding<'_>,
        envelope: &str,
        at: Timestamp,
    ) -> Result<(), VaultError> {
        Arc::make_mut(&mut self.rows.secrets)
            .insert(secret_key(binding), (envelope.to_owned(), at));
        Ok(())
    }

    fn replace_envelope(&mut self, expected: &SealedRow, new: &str) -> Result<bool, VaultError> {
        let SealedRow { owner, skill, name, envelope } = expected;
        let row = Arc::make_mut(&mut self.rows.secrets).get_mut(&(
            owner.clone(),
            skill.clone(),
            name.clone(),
        ));
        let row = row.filter(|(current, _)| current == envelope);
        let is_replaced = row.is_some();
        if let Some((current, _)) = row {
            new.clone_into(current);
        }
        Ok(is_replaced)
    }

    fn remove_secret(&mut self, binding: SecretBinding<'_>) -> Result<bool, VaultError> {
        Ok(Arc::make_mut(&mut self.rows.secrets).remove(&secret_key(binding)).is_some())
    }

    fn grants_of(&mut self, owner: &str, name: Option<&str>) -> Result<Vec<GrantRow>, VaultError> {
        let rows = self.rows.grants.iter();
        let rows =
            rows.filter(|((of, _, named), _)| of == owner && name.is_none_or(|name| name == named));
        let mut rows: Vec<_> = rows.map(|(_, row)| row.clone()).collect();
        rows.sort_by(|a, b| (&a.name, &a.skill).cmp(&(&b.name, &b.skill)));
        Ok(rows)
    }

    fn grants_to_skill(
        &mut self,
        owner: &str,
        skill: &str,
        names: &[String],
    ) -> Result<Vec<GrantRow>, VaultError> {
        let rows = self
            .rows
            .grants
            .iter()
            .filter(|((of, to, name), _)| of == owner && to == skill && names.contains(name));
        Ok(rows.map(|(_, row)| row.clone()).collect())
    }

    fn count_grants(&mut self, owner: &str) -> Result<usize, VaultError> {
        Ok(self.rows.grants.keys().filter(|(of, ..)| of == owner).count())
    }

    fn put_grant(&mut self, owner: &str, grant: &GrantRow) -> Result<(), VaultError> {
        let key = (owner.to_owned(), grant.skill.clone(), grant.name.clone());
        Arc::make_mut(&mut self.rows.grants).insert(key, grant.clone());
        Ok(())
    }

    fn remove_grant(&mut self, binding: SecretBinding<'_>) -> Result<bool, VaultError> {
        Ok(Arc::make_mut(&mut self.rows.grants).remove(&secret_key(binding)).is_some())
    }
}
