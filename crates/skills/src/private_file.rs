//! Options to open files of this user in folders that another user may have prepared.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::OpenOptionsExt as _,
};

use rustix::fs::OFlags;

/// Returns options that follow no link, wait for no other end of a pipe, and create files of this user alone.
pub(crate) fn options() -> OpenOptions {
    let mut options = File::options();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.mode(0o600).custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    options
}
