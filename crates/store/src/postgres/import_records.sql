-- Schema version 3: records of imports that servers share. A lease ends by the clock of the database.

CREATE TABLE import_record (
    name       text        COLLATE "C" PRIMARY KEY,
    record     text,
    holder     bytea,
    expires_at timestamptz
);
