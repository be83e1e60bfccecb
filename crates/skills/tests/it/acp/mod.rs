//! ACP of the real binary over pipes, with a client written by hand and with the client of the protocol's own crate.

mod bad_input;
mod cancel;
mod conversation;
mod live_clients;
mod notifications;
mod strict;
