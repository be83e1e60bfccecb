//! How large a value is, without writing it.

use std::io;

use serde_json::Value;

/// How many bytes a value has as JSON. Counting ends soon after `enough`.
pub(crate) fn json_size(value: &Value, enough: usize) -> usize {
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
    let mut count = Count(0, enough);
    // It fails only when there is enough.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}
