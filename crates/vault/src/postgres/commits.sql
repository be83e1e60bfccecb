-- Schema version 2: ids of the transactions of the last day. A server finds out with them what became of a transaction
-- whose connection broke: the number of a transaction that the database lost in a crash is given out again.

CREATE TABLE vault_commit (
    id bytea       PRIMARY KEY, -- random
    at timestamptz NOT NULL DEFAULT now()
);

-- Small and cheap to extend: the times of a table that only grows are in the order of its pages.
CREATE INDEX vault_commit_by_time ON vault_commit USING brin (at);
