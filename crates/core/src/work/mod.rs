//! Accounting of the work that requests cause: blocking threads, memory and time.
//!
//! Every caller has a [`WorkAccount`], which bounds what all work on its behalf uses at a time. Work on a blocking thread
//! needs a permit of an account: [`WorkAccount::run`] waits for one and moves it into the work, so that threads and bytes
//! count until the work has ended, also if the caller is gone. The work gets a [`StopFlag`], which is raised when the
//! caller is gone or the deadline has passed; long loops check it.
//!
//! This module is the only one that calls `spawn_blocking`, and clippy refuses other calls. Jobs of the server itself,
//! which no request causes, use [`run_own`].
//!
//! Work that several callers wait for, such as one that fills a cache, is done in [`Turns`].
//!
//! Work that has a permit must not wait for another permit of the same [`WorkPool`]: all permits of an account may be held by work
//! that waits.

mod account;
mod kind;
mod permit;
mod running;
mod stop_flag;
mod turns;

pub use self::{
    account::{WorkAccount, WorkAccounts, client_share},
    kind::{WorkKind, WorkPool},
    permit::{WorkError, WorkPermit, run_own},
    running::RunningWork,
    stop_flag::{StopFlag, Stopped},
    turns::{MEMORY_RETRY, MEMORY_WAIT, Turn, TurnEnd, Turns},
};

#[cfg(test)]
mod tests;
