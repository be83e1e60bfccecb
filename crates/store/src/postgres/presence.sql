-- Schema version 2: servers that run, and the names that they offer, until their lease ends. Without a log: the rows
-- mean nothing after a crash, and are renewed every few seconds.

CREATE UNLOGGED TABLE presence (
    id         bytea       PRIMARY KEY,
    server     text        NOT NULL,
    names      text[]      NOT NULL,
    expires_at timestamptz NOT NULL -- by the clock of the database
);
