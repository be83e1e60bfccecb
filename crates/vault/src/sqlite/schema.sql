-- Schema version 3.
--
-- Times are microseconds since 1970. A hash is the SHA-256 of a key; the keys are not stored.
-- Unknown fields of a profile are NULL. An empty `skill` means all skills of the owner.

CREATE TABLE key (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    hash       BLOB    NOT NULL UNIQUE,
    owner      TEXT    NOT NULL,
    label      TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER          -- revoked keys stay, so that no import restores them
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

-- Secrets that skills of the market may use on behalf of an owner, as long as they send them to the same origin.
CREATE TABLE secret_grant (
    owner      TEXT    NOT NULL,
    skill      TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    granted_at INTEGER NOT NULL,
    origin     TEXT,            -- NULL until the first call, if it was granted without reading the skill
    PRIMARY KEY (owner, skill, name)
) STRICT, WITHOUT ROWID;

-- Calls counted in a minute, stored when a server stops or on import; a running server counts in memory.
CREATE TABLE rate (
    hash   BLOB    NOT NULL,
    minute INTEGER NOT NULL,
    used   INTEGER NOT NULL,
    PRIMARY KEY (hash, minute)
) STRICT, WITHOUT ROWID;

-- Searches without a result, by day since 1970. A caller is a hash that is used nowhere else.
CREATE TABLE search_miss (
    day     INTEGER NOT NULL,
    query   TEXT    NOT NULL,
    caller  BLOB    NOT NULL,
    count   INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    PRIMARY KEY (day, query, caller)
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
