-- Schema version 1.
--
-- `change` is the truth: every mutation of an entry, with the whole of its metadata after it.
-- `entry` points at the newest change of each entry that exists.
-- `blob` holds the bytes of files by their SHA-256; what an old change names stays readable.
-- `state` is the bus's key-value store; `position` keeps the order of first insertion.

CREATE TABLE change (
    revision INTEGER PRIMARY KEY,
    at       INTEGER NOT NULL, -- microseconds since 1970, strictly growing
    actor    TEXT    NOT NULL,
    kind     TEXT    NOT NULL, -- skill | prompt
    tier     TEXT    NOT NULL, -- private | official | market
    owner    TEXT    NOT NULL, -- empty unless private
    id       TEXT    NOT NULL,
    before   BLOB,             -- digest of the version it replaced
    after    BLOB,             -- digest of the new version
    content  TEXT              -- JSON metadata of the new version; NULL: removed
) STRICT;

CREATE TABLE entry (
    kind     TEXT    NOT NULL,
    tier     TEXT    NOT NULL,
    owner    TEXT    NOT NULL,
    id       TEXT    NOT NULL,
    revision INTEGER NOT NULL REFERENCES change (revision),
    PRIMARY KEY (kind, tier, owner, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE blob (
    number INTEGER PRIMARY KEY,
    digest BLOB    NOT NULL UNIQUE,
    crc32  INTEGER NOT NULL, -- checked on every read; the digest would cost ten times as much
    bytes  BLOB    NOT NULL
) STRICT;

CREATE TABLE state (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    scope    TEXT NOT NULL,
    key      TEXT NOT NULL,
    value    TEXT NOT NULL, -- JSON
    UNIQUE (scope, key)
) STRICT;
