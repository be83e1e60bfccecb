//! The registry on its own, on stores and buses that can be made to fail.

#![allow(clippy::disallowed_methods, reason = "the rule is for work that requests cause")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod concurrent_writes;
mod feed;
mod live_entries;
mod lost_commits;
mod registry;
mod search;
mod search_filters;
mod search_indexing;
mod shared_store;
mod support;
mod tiers;
mod versions;
mod work;
mod writer_panic;
