//! Account data: keys, profiles, secrets, grants and their audit log.
//!
//! - [`Vault`]: the handle; its methods are in the modules below
//! - `keys`: bearer keys, stored as SHA-256 only
//! - `profiles`: an account's plan, credits and name; `account`: several changes to one account in one transaction
//! - [`RateLimits`]: uses of a key per minute, by plan
//! - `secrets`: encrypted values that tools are called with, and grants to skills of the market tier
//! - [`MasterKeys`]: encryption of secrets
//! - [`AdminSecrets`]: the two administrator secrets
//! - [`VaultKeyDirectory`]: the caller behind a bearer token
//! - `audit`: append-only log of changes; `search_misses`: queries that found nothing
//! - [`transfer`]: tables, for copies of whole registries
//! - `keyspace`: import and export as lines of the logical key space
//! - `backend`: the tables below these rules; `sqlite`: in one file beside the store; `postgres`: shared by several servers
//!
//! All functions block, and every change takes an [`Actor`] for the audit log. Several processes may have the vault open
//! at a time: the command line changes it while a server runs, and the server sees the change with the next request.
//! This crate knows neither the registry nor any protocol.

mod account;
mod admin;
mod audit;
mod backend;
mod crypt;
mod error;
mod key_directory;
mod keys;
mod keyspace;
#[cfg(test)]
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
mod profiles;
mod rate_limits;
mod search_misses;
mod secrets;
mod sqlite;
pub mod transfer;
mod vault;

pub use account::{AccountChange, JointWriteError, SecretsChange};
pub use admin::{AdminSecretTooShort, AdminSecrets, AdminWarning};
pub use audit::{Actor, AuditEntry, now};
pub use crypt::{MasterKeyError, MasterKeys};
pub use error::{ServerFailure, VaultError};
pub use key_directory::VaultKeyDirectory;
pub use keys::{CreatedKey, KeyInfo, KeyRow, KeySelector, NewKey, Revocation, key_id};
pub use keyspace::{KeyspaceExport, KeyspaceImport};
pub use profiles::{Plan, ProfileChange, UnknownPlan, UserProfile};
pub use rate_limits::{PlanLimits, RateDecision, RateLimits, RateWindow};
pub use search_misses::SearchMiss;
pub use secrets::{
    CalledSkill, Grant, MAX_VALUE_BYTES as MAX_SECRET_BYTES, MissingReason, MissingSecret,
    OtherSecrets, RotationSummary, SecretInfo, SecretName, check_value as check_secret_value,
};
pub use skills_sqlite::DatabaseError;
pub use vault::Vault;
