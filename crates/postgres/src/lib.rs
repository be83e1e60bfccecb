//! PostgreSQL for store and vault. Knows nothing of skills.
//!
//! - [`DatabaseUrl`]: connection URL as libpq has it; printed without its password
//! - [`Pool`]: bounded pool with a blocking interface, usable from any thread
//! - [`PgSession`]: a connection taken from the pool; statements are prepared once
//! - [`PgError`]: errors by what can be done about them
//! - [`Component`]: schema migrations under an advisory lock
//! - [`PgListener`]: notifications of a channel, across reconnects
//!
//! A pool has a runtime of its own: sockets are served by its thread, and callers block on theirs. So a pool can be
//! used from plain threads and from threads of another runtime alike. Async code calls it on a blocking thread.

mod auth;
mod backends;
mod block_on;
mod channel_binding;
mod connect;
mod error;
mod listener;
mod migrate;
mod pool;
mod session;
mod stream;
mod tls;
mod url;
mod verifier;

pub use error::PgError;
pub use listener::{Notification, PgListener};
pub use migrate::{Component, SchemaState};
pub use pool::{Lease, Pool, PoolConfig};
pub use session::{PgSession, column};
pub use tokio_postgres::{
    Row, Statement,
    types::{FromSql, ToSql, Type},
};
pub use url::{DatabaseUrl, UrlError};
