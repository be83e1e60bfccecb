//! Size of a value as JSON.

use std::io;

use serde_json::Value;

/// Returns the number of bytes of a value as JSON, without writing it. Counting stops soon after `limit`.
pub(crate) fn serialized_size(value: &Value, limit: usize) -> usize {
    struct Count(usize, usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len());
            if self.0 > self.1 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(bytes.len()) }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0, limit);
    // It fails only over the limit.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}
