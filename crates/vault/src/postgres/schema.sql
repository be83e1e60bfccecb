-- Schema version 1 of the vault in PostgreSQL. Times are microseconds since 1970, a hash is the SHA-256 of a key.
-- Text is compared by bytes, as SQLite does.

-- One row. Its lock makes write transactions exclusive, so revisions are assigned in the order of commits.
CREATE TABLE vault_state (
    is_only  boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    revision bigint  NOT NULL       -- of the last transaction that changed keys or profiles
);
INSERT INTO vault_state (revision) VALUES (0);

CREATE TABLE vault_key (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    hash       bytea  NOT NULL UNIQUE,
    owner      text   COLLATE "C" NOT NULL,
    label      text,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint,              -- revoked keys stay, so that no import restores them
    revision   bigint NOT NULL      -- of the last change
);
CREATE INDEX vault_key_by_owner ON vault_key (owner, number);
CREATE INDEX vault_key_by_revision ON vault_key (revision);

CREATE TABLE vault_profile (
    owner      text   COLLATE "C" PRIMARY KEY,
    tier       text,                -- FREE | STARTER | PRO | SCALE
    credits    double precision,
    username   text,
    updated_at bigint NOT NULL,
    revision   bigint NOT NULL
);
CREATE INDEX vault_profile_by_revision ON vault_profile (revision);

CREATE TABLE vault_secret (
    owner    text   COLLATE "C" NOT NULL,
    skill    text   COLLATE "C" NOT NULL,   -- empty for all skills
    name     text   COLLATE "C" NOT NULL,
    envelope text   NOT NULL,
    set_at   bigint NOT NULL,
    PRIMARY KEY (owner, skill, name)
);

CREATE TABLE vault_grant (
    owner      text   COLLATE "C" NOT NULL,
    skill      text   COLLATE "C" NOT NULL,
    name       text   COLLATE "C" NOT NULL,
    granted_at bigint NOT NULL,
    origin     text,                -- NULL until the first call, if it was granted without reading the skill
    PRIMARY KEY (owner, skill, name)
);

-- Calls counted in a minute by all servers. The other columns are of the last statement that counted some.
CREATE TABLE vault_rate (
    hash    bytea   NOT NULL,
    minute  bigint  NOT NULL,
    used    bigint  NOT NULL,
    asked   bigint  NOT NULL DEFAULT 0,     -- calls that wanted to be counted
    allowed bigint  NOT NULL DEFAULT 0,     -- limit of the plan
    carried bigint  NOT NULL DEFAULT 0,     -- calls counted before, while the database was away
    granted bigint  NOT NULL DEFAULT 0,     -- calls of those asked that were counted
    PRIMARY KEY (hash, minute)
) WITH (fillfactor = 50);

CREATE TABLE vault_search_miss (
    day     bigint NOT NULL,
    query   text   COLLATE "C" NOT NULL,
    caller  bytea  NOT NULL,
    count   bigint NOT NULL,
    last_at bigint NOT NULL,
    PRIMARY KEY (day, query, caller)
);

CREATE TABLE vault_audit (
    number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      bigint NOT NULL,
    actor   text   COLLATE "C" NOT NULL,
    action  text   COLLATE "C" NOT NULL,
    subject text   COLLATE "C" NOT NULL
);
CREATE INDEX vault_audit_by_action ON vault_audit (action, at);
CREATE FUNCTION vault_refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'the audit log is only added to'; END $$;
CREATE TRIGGER vault_audit_is_only_added_to BEFORE UPDATE OR DELETE OR TRUNCATE ON vault_audit
    FOR EACH STATEMENT EXECUTE FUNCTION vault_refuse();
