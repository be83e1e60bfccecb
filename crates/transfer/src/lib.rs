//! Copies of whole databases, row by row, for `store copy`, `backup` and `restore`.
//!
//! - [`Table`], [`Row`], [`TableSource`], [`TableSink`]: rows as all databases and archives have them
//! - [`copy_tables`]: one way from any source to any sink
//! - [`sqlite`], [`postgres`]: rows of plain tables; tables with another form are left to their owner
//! - [`archive`]: backups as one file
//!
//! Store and vault declare their tables. This crate knows neither skills nor secrets: values are copied as they are.

pub mod archive;
mod copy;
mod error;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod sqlite;
mod table;

pub use copy::{CopyProgress, CopyReport, OnProgress, copy_tables};
#[cfg(feature = "postgres")]
pub use error::postgres_code;
pub use error::{TransferError, sqlite_code};
pub use table::{
    Kind, Part, Row, SqliteForm, Table, TableSink, TableSource, Value, Visit, blob_row, check_blob,
};
