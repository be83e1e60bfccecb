//! Tables of the store, for copies of whole registries.
//!
//! All databases have the same tables and columns, apart from row numbers and the form of blobs.

use skills_transfer::{
    Kind::{Bytes, Flag, Number, Text},
    Part, SqliteForm, Table, TableSink, TransferError,
};

use crate::{Store, StoreError};

/// Tables in an order in which rows refer to earlier ones only.
pub const TABLES: &[Table] = &[
    Table {
        part: Part::Store,
        name: "entry",
        sqlite: SqliteForm::Table("entry"),
        columns: &[
            ("number", Number),
            ("kind", Text),
            ("tier", Text),
            ("owner", Text),
            ("id", Text),
            ("is_present", Flag),
            ("latest", Number),
            ("served", Number),
            ("kept", Number),
        ],
    },
    Table {
        part: Part::Store,
        name: "version",
        sqlite: SqliteForm::Table("version"),
        columns: &[
            ("entry", Number),
            ("number", Number),
            ("digest", Bytes),
            ("identity", Bytes),
            ("created_at", Number),
            ("actor", Text),
            ("registered_at", Number),
            ("revision", Number),
            ("bytes", Number),
            ("files", Number),
            ("author_version", Text),
            ("message", Text),
            ("yanked", Text),
            ("removal", Text),
            ("content", Text),
        ],
    },
    Table {
        part: Part::Store,
        name: "label",
        sqlite: SqliteForm::Table("label"),
        columns: &[("entry", Number), ("name", Text), ("version", Number)],
    },
    Table {
        part: Part::Store,
        name: "change",
        sqlite: SqliteForm::Table("change"),
        columns: &[
            ("revision", Number),
            ("at", Number),
            ("actor", Text),
            ("kind", Text),
            ("tier", Text),
            ("owner", Text),
            ("id", Text),
            ("action", Text),
            ("version", Number),
            ("is_new", Flag),
            ("label", Text),
            ("previous", Number),
            ("note", Text),
            ("before", Number),
            ("served", Number),
        ],
    },
    Table {
        part: Part::Store,
        name: "state",
        sqlite: SqliteForm::Table("state"),
        columns: &[("scope", Text), ("key", Text), ("position", Number), ("value", Text)],
    },
    Table {
        part: Part::Store,
        name: "blob",
        sqlite: SqliteForm::Table("blob"),
        columns: &[("digest", Bytes), ("crc32", Number), ("bytes", Bytes)],
    },
    Table {
        part: Part::Store,
        name: "blob_use",
        sqlite: SqliteForm::Statements {
            select: "SELECT b.digest, v.entry, v.number FROM blob_use u
                     JOIN blob b ON b.number = u.blob JOIN version v ON v.seq = u.version",
            insert: "INSERT INTO blob_use (blob, version) SELECT b.number, v.seq
                     FROM blob b, version v WHERE b.digest = ? AND v.entry = ? AND v.number = ?",
        },
        columns: &[("digest", Bytes), ("entry", Number), ("version", Number)],
    },
];

/// Writes of a copy.
pub type FillStore<'a> = &'a mut dyn FnMut(&mut dyn TableSink) -> Result<(), TransferError>;

/// Checks that a store has neither changes nor state.
pub(crate) fn require_empty(store: &dyn Store, name: &str) -> Result<(), TransferError> {
    let is_empty =
        || Ok::<_, StoreError>(store.revision()? == 0 && store.state_scopes()?.is_empty());
    if is_empty().map_err(|error| TransferError::other(&error))? {
        return Ok(());
    }
    Err(TransferError::NotEmpty(name.to_owned()))
}
