//! Returns free memory to the operating system.
//!
//! The allocator returns pages a second after they were freed, but only checks when it allocates or frees. An idle server
//! does neither, so a task allocates and frees a block from time to time.

use std::{hint::black_box, time::Duration};

use tokio_util::task::AbortOnDropHandle;

const INTERVAL: Duration = Duration::from_secs(2);
/// Large enough to get pages of its own, which are never touched.
const BLOCK_BYTES: usize = 4 << 20;

/// Starts the task, which ends when the handle is dropped. Requires a Tokio runtime.
pub(crate) fn return_free_pages() -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async {
        loop {
            tokio::time::sleep(INTERVAL).await;
            drop(black_box(Vec::<u8>::with_capacity(BLOCK_BYTES)));
        }
    }))
}
