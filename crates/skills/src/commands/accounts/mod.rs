//! `key` and `secret`: user keys and secrets in the vault of a data directory. A running server sees the changes.

pub(super) mod keys;
pub(super) mod secrets;

use skills_core::Code;
use skills_vault::{Actor, MasterKeys, Vault, VaultError};

use crate::{
    Failure, accounts::master_keys, cli::Target, config::Config, data_dir, environment,
    vault_location::VaultLocation,
};

/// Opens the vault of the data directory, or of the configured database.
fn open(target: &Target, config: &Config, master: Option<MasterKeys>) -> Result<Vault, Failure> {
    if target.url.is_some() {
        let message = "this command works on a data directory, not on --url";
        return Err(Failure::new(Code::NeedsDataDir, message).hint(
            "give the server's data directory with --data-dir; the server can keep running",
        ));
    }
    Ok(VaultLocation::new(&data_dir::locate(target)?, config).open(master)?)
}

/// Opens the vault with the master keys.
fn open_with_master(target: &Target, config: &Config) -> Result<Vault, Failure> {
    let master = master_keys()?;
    open(target, config, Some(master.ok_or(VaultError::NoMasterKey)?))
}

/// Returns the name of the user who runs the command, for the audit log.
pub(super) fn user() -> String {
    ["USER", "LOGNAME"]
        .into_iter()
        .find_map(|name| environment::text(name).ok().flatten())
        .unwrap_or_else(|| "command line".to_owned())
}

/// Returns the actor of a change that is made now.
fn actor(user: &str) -> Actor<'_> {
    Actor { name: user, at: skills_vault::now() }
}
