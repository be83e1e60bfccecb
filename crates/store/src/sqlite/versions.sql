-- Schema version 2: entries, their versions, and the log.
--
-- `version` is the truth: the states of an entry, numbered from 1, with all metadata. Rows are never deleted, so a number
-- is given once. `entry` has a row for every entry that ever existed, with what is derived from its versions and labels.
-- `blob_use` says which versions have a blob. `change` is the log of all mutations of entries.

CREATE TABLE change (
    revision INTEGER PRIMARY KEY,
    at       INTEGER NOT NULL, -- microseconds since 1970, strictly growing
    actor    TEXT    NOT NULL,
    kind     TEXT    NOT NULL, -- skill | prompt | collection
    tier     TEXT    NOT NULL, -- private | official | market
    owner    TEXT    NOT NULL, -- empty unless private
    id       TEXT    NOT NULL,
    action   TEXT    NOT NULL, -- put | remove | label | unlabel | yank | unyank | purge | collect
    version  INTEGER,          -- version that was registered, labelled or withdrawn
    is_new   INTEGER NOT NULL, -- 1 if a put created the version
    label    TEXT,
    previous INTEGER,          -- version that had the label
    note     TEXT,             -- message or reason
    before   INTEGER,          -- version that the plain id read before
    served   INTEGER           -- version that the plain id read afterwards
) STRICT;

CREATE INDEX change_by_id ON change (id);

CREATE TABLE entry (
    number     INTEGER PRIMARY KEY,
    kind       TEXT    NOT NULL,
    tier       TEXT    NOT NULL,
    owner      TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    is_present INTEGER NOT NULL, -- 0: removed
    latest     INTEGER NOT NULL, -- newest number
    served     INTEGER,          -- number that the plain id reads; NULL: removed, or all yanked
    kept       INTEGER NOT NULL, -- number of versions that retention has not taken
    UNIQUE (kind, tier, owner, id)
) STRICT;

CREATE TABLE version (
    seq            INTEGER PRIMARY KEY,
    entry          INTEGER NOT NULL REFERENCES entry (number),
    number         INTEGER NOT NULL,
    digest         BLOB    NOT NULL, -- content digest, the same on every server
    identity       BLOB    NOT NULL, -- digest that tells whether a registration changes the entry
    created_at     INTEGER NOT NULL,
    actor          TEXT    NOT NULL,
    registered_at  INTEGER NOT NULL, -- last registration of the same content
    revision       INTEGER NOT NULL, -- change of that registration
    bytes          INTEGER NOT NULL,
    files          INTEGER NOT NULL,
    author_version TEXT,
    message        TEXT,
    yanked         TEXT,             -- reason
    removal        TEXT,             -- purged | collected
    content        TEXT,             -- JSON metadata; NULL: removed
    UNIQUE (entry, number)
) STRICT;

CREATE TABLE label (
    entry   INTEGER NOT NULL REFERENCES entry (number),
    name    TEXT    NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (entry, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE blob_use (
    blob    INTEGER NOT NULL, -- number of the blob
    version INTEGER NOT NULL, -- seq of the version
    PRIMARY KEY (blob, version)
) STRICT, WITHOUT ROWID;
