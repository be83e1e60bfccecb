-- Schema version 2.
--
-- Moments are microseconds since 1970. A hash is the SHA-256 of a key; keys themselves are nowhere.
-- What a profile does not say is NULL. `skill` is empty for what holds for all skills of an owner.

CREATE TABLE key (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    hash       BLOB    NOT NULL UNIQUE,
    owner      TEXT    NOT NULL,
    label      TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER          -- a revoked key stays, so that no import brings it back
) STRICT;
CREATE INDEX key_by_owner ON key (owner, number);

CREATE TABLE profile (
    owner      TEXT    PRIMARY KEY,
    tier       TEXT,            -- FREE | STARTER | PRO | SCALE
    credits    REAL,
    username   TEXT,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE secret (
    owner    TEXT    NOT NULL,
    skill    TEXT    NOT NULL,
    name     TEXT    NOT NULL,
    envelope TEXT    NOT NULL,  -- v1.{kid}.{iv}.{ciphertext and tag}, or the legacy {iv}.{tag}.{ciphertext}
    set_at   INTEGER NOT NULL,
    PRIMARY KEY (owner, skill, name)
) STRICT, WITHOUT ROWID;

-- Which skills of the market an owner lets have which secrets, as long as they send them to the same origin.
CREATE TABLE secret_grant (
    owner      TEXT    NOT NULL,
    skill      TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    granted_at INTEGER NOT NULL,
    origin     TEXT,            -- NULL until the first call where it was granted without looking at the skill
    PRIMARY KEY (owner, skill, name)
) STRICT, WITHOUT ROWID;

-- What was counted of a minute when a server stopped, or was imported; while a server runs it counts in memory.
CREATE TABLE rate (
    hash   BLOB    NOT NULL,
    minute INTEGER NOT NULL,
    used   INTEGER NOT NULL,
    PRIMARY KEY (hash, minute)
) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
    number  INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    actor   TEXT    NOT NULL,
    action  TEXT    NOT NULL,
    subject TEXT    NOT NULL
) STRICT;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN SELECT raise(ABORT, 'the audit log is only added to'); END;
CREATE TRIGGER audit_is_not_removed BEFORE DELETE ON audit
BEGIN SELECT raise(ABORT, 'the audit log is only added to'); END;
