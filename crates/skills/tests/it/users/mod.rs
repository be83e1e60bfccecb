//! Administrators and users on one server.
//!
//! - `admin_access`: access to admin routes
//! - `key_lifecycle`, `revoked_keys`: creation and revocation of keys
//! - `built_in_client`: the view of a key over MDP
//! - `user_isolation`: users learn nothing of each other, on every surface
//! - `documented_examples`: the examples of docs/gateway.md, run

mod admin_access;
mod built_in_client;
mod documented_examples;
mod key_lifecycle;
mod revoked_keys;
mod user_isolation;
