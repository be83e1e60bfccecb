//! `key` and `secret`: what belongs to people, in the vault of a data directory. A server that runs on it
//! is not asked; it notices.

pub(super) mod keys;
pub(super) mod secrets;

use skills_vault::{Act, MasterKeys, Vault, VaultError};

use crate::{
    Failure,
    cli::{Target, environment},
    connect::DEFAULT_DATA_DIR,
    people::master_keys,
};

/// The vault of the data directory.
fn open(target: &Target, master: Option<MasterKeys>) -> Result<Vault, Failure> {
    if target.url.is_some() {
        let message = "keys and secrets are in a data directory, which --url does not name";
        return Err(Failure::new("needs_data_dir", message)
            .hint("run it where the data is, with --data-dir; a server that runs on it notices"));
    }
    let dir = target.data_dir.as_deref().unwrap_or(DEFAULT_DATA_DIR.as_ref());
    Ok(Vault::open(dir, master)?)
}

/// The vault with the keys that open and seal secrets.
fn open_with_master(target: &Target) -> Result<Vault, Failure> {
    let master = master_keys()?;
    open(target, Some(master.ok_or(VaultError::NoMasterKey)?))
}

/// Who runs the command, for the log of changes.
pub(super) fn user() -> String {
    environment("USER")
        .or_else(|| environment("LOGNAME"))
        .unwrap_or_else(|| "command line".to_owned())
}

/// What the user does now.
fn act(user: &str) -> Act<'_> {
    Act { by: user, at: skills_vault::now() }
}
