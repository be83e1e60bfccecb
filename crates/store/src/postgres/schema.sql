-- Schema version 1. The tables are those of the SQLite store; see there for entries, versions and the log.
--
-- `head` has one row, which every transaction that writes locks. So revisions have no gaps and follow the order of
-- commits on all servers. Its stamp tells a server whether the database is as its own last commit left it. `batch` has the
-- batches of the last day, for those that are sent again. Entries are never deleted, so references to them are not checked.

CREATE TABLE head (
    only_row  boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    revision  bigint NOT NULL, -- newest change
    at        bigint,          -- time of the newest change
    entries   bigint NOT NULL, -- newest number of an entry
    positions bigint NOT NULL, -- newest position of a state value
    stamp     bigint NOT NULL  -- random, another one after each transaction that writes
) WITH (fillfactor = 10);

INSERT INTO head (revision, entries, positions, stamp) VALUES (0, 0, 0, 0);

CREATE TABLE batch (
    id      bytea PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT now(),
    outcome text NOT NULL -- JSON
);

-- Small and cheap to extend: the times of a table that only grows are in the order of its pages.
CREATE INDEX batch_by_time ON batch USING brin (at);

CREATE TABLE blob (
    digest bytea  PRIMARY KEY,
    crc32  bigint NOT NULL,
    size   bigint NOT NULL,
    bytes  bytea -- NULL: in blob_chunk
);

CREATE TABLE blob_chunk (
    digest bytea   NOT NULL REFERENCES blob ON DELETE CASCADE,
    part   integer NOT NULL,
    bytes  bytea   NOT NULL,
    PRIMARY KEY (digest, part)
);

ALTER TABLE blob_chunk ALTER COLUMN bytes SET STORAGE EXTERNAL;

CREATE TABLE state (
    scope    text   COLLATE "C" NOT NULL,
    key      text   COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    value    text   NOT NULL,
    PRIMARY KEY (scope, key)
);

CREATE UNIQUE INDEX state_by_position ON state (scope, position);

CREATE TABLE change (
    revision bigint  PRIMARY KEY,
    at       bigint  NOT NULL,
    actor    text    NOT NULL,
    kind     text    COLLATE "C" NOT NULL,
    tier     text    COLLATE "C" NOT NULL,
    owner    text    COLLATE "C" NOT NULL,
    id       text    COLLATE "C" NOT NULL,
    action   text    NOT NULL,
    version  bigint,
    is_new   boolean NOT NULL,
    label    text,
    previous bigint,
    note     text,
    before   bigint,
    served   bigint
);

CREATE INDEX change_by_id ON change (id);

CREATE TABLE entry (
    number     bigint  PRIMARY KEY,
    kind       text    COLLATE "C" NOT NULL,
    tier       text    COLLATE "C" NOT NULL,
    owner      text    COLLATE "C" NOT NULL,
    id         text    COLLATE "C" NOT NULL,
    is_present boolean NOT NULL,
    latest     bigint  NOT NULL,
    served     bigint,
    kept       bigint  NOT NULL,
    UNIQUE (kind, tier, owner, id)
) WITH (fillfactor = 70); -- room for updates in place

CREATE TABLE version (
    entry          bigint NOT NULL,
    number         bigint NOT NULL,
    digest         bytea  NOT NULL,
    identity       bytea  NOT NULL,
    created_at     bigint NOT NULL,
    actor          text   NOT NULL,
    registered_at  bigint NOT NULL,
    revision       bigint NOT NULL,
    bytes          bigint NOT NULL,
    files          bigint NOT NULL,
    author_version text,
    message        text,
    yanked         text,
    removal        text,
    content        text,
    PRIMARY KEY (entry, number)
);

CREATE TABLE label (
    entry   bigint NOT NULL,
    name    text   COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (entry, name)
);

CREATE TABLE blob_use (
    digest  bytea  NOT NULL,
    entry   bigint NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (digest, entry, version)
);

CREATE INDEX blob_use_by_version ON blob_use (entry, version);
