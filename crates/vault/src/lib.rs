//! The vault: what belongs to people rather than to content, in one SQLite file beside the store.
//!
//! - [`Vault`]: the door to all of it
//! - `keys`: bearer keys, kept as SHA-256 alone
//! - `profiles`: what is known of a user, of which the tier matters here; `account`: all of a user taken over at once
//! - [`RateLimits`]: how often a key may be used in a minute
//! - `secrets`: values that skills are called with, encrypted; which skills of the market may have them
//! - [`MasterKeys`]: the encryption
//! - [`AdminSecrets`]: the two secrets that open the administration
//! - [`Identifier`]: who presents a bearer
//! - `audit`: who changed what
//! - `keyspace`: all of it as lines of the logical key space
//!
//! Everything blocks, and every change says who makes it. Any number of processes may have the vault open: the
//! command line changes it while a server runs, and the server knows at once. It knows neither the registry
//! nor any protocol.

mod account;
mod admin;
mod audit;
mod crypt;
mod error;
mod file;
mod identify;
mod keys;
mod keyspace;
mod limits;
mod profiles;
mod secrets;
mod vault;

pub use account::{AccountChange, SecretsChange};
pub use admin::{AdminSecrets, AdminWarning};
pub use audit::{Act, AuditEntry, now};
pub use crypt::{MasterKeyError, MasterKeys};
pub use error::VaultError;
pub use identify::Identifier;
pub use keys::{CreatedKey, KeyInfo, KeyRow, NewKey, WhichKeys, key_id};
pub use keyspace::{Export, Outcome};
pub use limits::{Decision, RateLimits, TierLimits, Window};
pub use profiles::{AccountTier, Profile, ProfileChange, UnknownTier};
pub use secrets::{
    CalledSkill, Grant, Lack, LackReason, MAX_VALUE_BYTES as MAX_SECRET_BYTES, Others, Rotated,
    SecretInfo, SecretName, check_value,
};
pub use vault::Vault;
