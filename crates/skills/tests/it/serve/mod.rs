//! The server for its operator: addresses, tokens, shutdown, and disk failures.

mod addresses;
mod disk;
mod shutdown;
mod tokens;
