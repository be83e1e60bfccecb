-- Schema version 2: the tables that version 1 has too.
--
-- `blob` holds the bytes of files by their SHA-256, for as long as a version has them.
-- `state` is the bus's key-value store; `position` keeps the order of first insertion.

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
