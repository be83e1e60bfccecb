"""Backups, restores and copies between the embedded store and PostgreSQL, also while a server runs."""

import os
import signal
import subprocess
import threading
import time

from postgres.checks import answer, command, refusal, run_checks
from postgres.server import Server, wait_for

MASTER = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
TABLES = ["entry", "version", "label", "change", "state", "blob_use", "vault_key", "vault_profile", "vault_secret",
          "vault_grant", "vault_audit"]


def fill(program, server):
    """Writes an entry of every kind through a running server."""
    worker = server.worker()
    for number in range(3):
        assert worker.register("one", f"# One\n\nVersion {number}.") is None
    assert worker.register("large", "# Large\n\n" + "x" * 200_000) is None
    assert worker.register("gone", "# Gone\n\nRemoved.") is None
    assert worker.call("skills::unregister", {"id": "gone"})[1] is None
    assert worker.call("state::set", {"scope": "s", "key": "k", "value": {"a": [1, None, "é"]}})[1] is None
    store = server.store
    for arguments in (["label", "one@1", "stable"], ["collection", "create", "kit", "one@stable"],
                      ["key", "create", "--uid", "ann", "--tier", "pro"]):
        status, _, said = command(program, *arguments, store=store)
        assert status == 0, said
    status, _, said = command(program, "secret", "set", "API_KEY", "--uid", "ann", store=store,
                              env={"MASTER_ENCRYPTION_KEY": MASTER}, text="the-value-of-the-secret")
    assert status == 0, said


def contents(database, schema="skills"):
    """Returns all rows, and the bytes of all bodies."""
    rows = {}
    for table in TABLES:
        columns = "*"
        if table in ("vault_key", "vault_profile"):  # Their revisions are of one database.
            names = database.sql(f"SELECT string_agg(column_name, ', ' ORDER BY ordinal_position) FROM "
                                 f"information_schema.columns WHERE table_schema = '{schema}' AND table_name = '{table}' "
                                 f"AND column_name <> 'revision'")
            columns = names[0][0]
        found = database.sql(f"SET search_path TO {schema}; SELECT row_to_json(r) FROM (SELECT {columns} FROM {table}) r")
        rows[table] = sorted(row[0] for row in found)
        assert rows[table] or table == "vault_grant", f"{table} is empty"
    rows["blob"] = sorted(row[0] for row in database.sql(
        f"SET search_path TO {schema}; SELECT md5(coalesce(b.bytes, (SELECT string_agg(c.bytes, '' ORDER BY part) FROM "
        f"blob_chunk c WHERE c.digest = b.digest))) || b.crc32 FROM blob b"))
    return rows


def schema_url(database, schema):
    return f"{database.url()}?options=-c%20search_path%3D{schema}"


def a_backup_moves_between_both_kinds_of_store(program, database, folder):
    server = Server(program, database, 0, folder)
    server.start()
    try:
        fill(program, server)
        file = os.path.join(folder, "a.skills")
        written = answer(program, "backup", file, store=server.store)
        assert written["blobs"] >= 5 and os.path.getsize(file) == written["file_bytes"], written
        before = contents(database)

        # PostgreSQL to PostgreSQL.
        restored = answer(program, "restore", file, store=schema_url(database, "second"))
        assert restored["rows"] == written["rows"], restored
        assert contents(database, "second") == before
        assert refusal(program, "restore", file, store=schema_url(database, "second")) == "store_not_empty"
        assert contents(database, "second") == before

        # To a data directory, and from there to PostgreSQL again, by an archive and by a copy.
        data = os.path.join(folder, "restored")
        assert answer(program, "restore", file, data_dir=data)["rows"] == written["rows"]
        again = os.path.join(folder, "b.skills")
        assert answer(program, "backup", again, data_dir=data)["sha256"] != ""
        answer(program, "restore", again, store=schema_url(database, "third"))
        assert contents(database, "third") == before
        answer(program, "store", "copy", "--from", f"sqlite:{data}", "--to", schema_url(database, "fourth"))
        assert contents(database, "fourth") == before
        answer(program, "store", "copy", "--from", schema_url(database, "fourth"), "--to", f"sqlite:{folder}/back")
        log = answer(program, "log", "--limit", "1000", store=server.store)
        assert log and answer(program, "log", "--limit", "1000", data_dir=f"{folder}/back") == log
        for where in ({"store": schema_url(database, "fourth")}, {"data_dir": f"{folder}/back"}):
            assert answer(program, "collection", "show", "kit", **where)["skills"] == ["one@stable"], where
            assert command(program, "read", "iii://one", **where)[1].strip() == "# One\n\nVersion 0.", where
            assert command(program, "read", "iii://one@latest", **where)[1].strip() == "# One\n\nVersion 2.", where

        # Keys, numbers and secrets go on where they were.
        made = answer(program, "key", "create", "--uid", "bob", store=schema_url(database, "third"))
        assert made["uid"] == "bob"
        status, _, said = command(program, "secret", "rotate", store=schema_url(database, "third"),
                                  env={"MASTER_ENCRYPTION_KEY": "ff" * 32, "MASTER_ENCRYPTION_KEY_PREVIOUS": MASTER})
        assert status == 0, said
    finally:
        server.kill()


def a_backup_is_of_one_moment_while_servers_write(program, database, folder):
    server = Server(program, database, 0, folder)
    server.start()
    stop, written = threading.Event(), [0]

    def write():
        worker = server.worker()
        while not stop.is_set():
            # Both in one order: a snapshot with the second has the first too.
            assert worker.register("first", f"# First\n\n{written[0]}") is None
            assert worker.register("second", f"# Second\n\n{written[0]}") is None
            written[0] += 1

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        for number in range(5):
            before = written[0]
            wait_for("writes go on", lambda: written[0] > before + 5)
            file = os.path.join(folder, f"{number}.skills")
            report = answer(program, "backup", file, store=server.store)
            schema = f"moment{number}"
            answer(program, "restore", file, store=schema_url(database, schema))
            (revision, changes, first, second), = database.sql(
                f"SET search_path TO {schema}; SELECT head.revision, (SELECT count(*) FROM change), "
                "(SELECT latest FROM entry WHERE id = 'first'), (SELECT latest FROM entry WHERE id = 'second') FROM head")
            assert int(revision) == int(changes) == report["revision"], (revision, changes, report)
            assert 0 <= int(first) - int(second) <= 1, (first, second)
    finally:
        stop.set()
        writer.join(30)
        server.kill()


def an_interrupted_restore_leaves_the_database_empty(program, database, folder):
    server = Server(program, database, 0, folder)
    server.start()
    try:
        worker = server.worker()
        for number in range(40):
            assert worker.register(f"s{number}", f"# S{number}\n\n" + str(number % 10) * 200_000) is None
    finally:
        server.kill()
    file = os.path.join(folder, "a.skills")
    answer(program, "backup", file, store=server.store)
    target = schema_url(database, "target")
    assert command(program, "list", store=target)[0] == 0  # Creates the tables.
    interrupted = 0
    for delay in (0.05, 0.2, 0.4, 0.7, 1.0):
        process = subprocess.Popen([program, "restore", file], env={**os.environ, "SKILLS_STORE": target},
                                   stderr=subprocess.PIPE, text=True)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
        (rows,), = database.sql("SET search_path TO target; SELECT (SELECT count(*) FROM entry) + "
                                "(SELECT count(*) FROM blob) + (SELECT revision FROM head)")
        if process.returncode == 0:
            break
        interrupted += 1
        assert rows == "0", (delay, rows, said)
    assert interrupted, "it was never interrupted"
    names = [name for name in os.listdir(folder) if name.startswith(".")]
    assert not names, names


def a_source_stays_as_it_is(program, database, folder):
    file, data = os.path.join(folder, "a.skills"), os.path.join(folder, "data")

    def refused(store):
        assert refusal(program, "backup", file, store=store) == "store_corrupt"
        assert refusal(program, "store", "copy", "--from", store, "--to", f"sqlite:{data}") == "store_corrupt"
        assert os.listdir(folder) == [], os.listdir(folder)

    def versions():
        return database.sql("SET search_path TO source; SELECT component, version FROM schema_version ORDER BY 1")

    # Another schema, or another database.
    refused(schema_url(database, "source"))
    assert database.sql("SELECT FROM pg_namespace WHERE nspname = 'source'") == []
    database.create_database("other")
    refused(database.url().removesuffix("skills") + "other")
    refused(database.url().removesuffix("skills") + "other")

    # Tables of an earlier version.
    assert command(program, "collection", "create", "kit", "one", store=schema_url(database, "source"))[0] == 0
    answer(program, "key", "create", "--uid", "ann", store=schema_url(database, "source"))
    current = versions()
    for component in ("store", "vault"):
        database.sql("SET search_path TO source; UPDATE schema_version SET version = version - 1 "
                     f"WHERE component = '{component}'")
        older = versions()
        assert older != current, older
        refused(schema_url(database, "source"))
        assert versions() == older
        database.sql("SET search_path TO source; UPDATE schema_version SET version = version + 1 "
                     f"WHERE component = '{component}'")
    answer(program, "backup", file, store=schema_url(database, "source"))
    os.remove(file)

    # A registry whose accounts were never used.
    database.sql("SET search_path TO source; DELETE FROM schema_version WHERE component = 'vault'; "
                 "DROP TABLE vault_key CASCADE")
    rows = answer(program, "backup", file, store=schema_url(database, "source"))["rows"]
    assert answer(program, "restore", file, data_dir=data)["rows"] == rows
    assert answer(program, "restore", file, store=schema_url(database, "target"))["rows"] == rows


def peak_memory(program, *arguments, store):
    """Runs a command that must succeed. Returns the most memory that it had, in MiB."""
    process = subprocess.Popen([program, *arguments], env={**os.environ, "SKILLS_STORE": store},
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, arguments
    return usage.ru_maxrss >> 10


def a_copy_has_few_rows_in_memory(program, database, folder):
    source, target = schema_url(database, "source"), schema_url(database, "target")
    assert command(program, "list", store=source)[0] == 0  # Creates the tables.
    database.sql("SET search_path TO source; INSERT INTO state (scope, key, position, value) SELECT 's', n::text, n, "
                 "'\"' || repeat(md5(n::text), CASE WHEN n % 2 = 0 THEN 32768 ELSE 1 END) || '\"' "
                 "FROM generate_series(1, 600) n")
    file = os.path.join(folder, "a.skills")
    for arguments, store in ((["backup", file], source), (["restore", file], target)):
        peak = peak_memory(program, *arguments, store=store)
        assert peak < 150, f"{arguments[0]} of 300 MiB took {peak} MiB"
    sums = [database.sql(f"SET search_path TO {schema}; SELECT count(*), md5(string_agg(md5(scope || key || position || "
                         f"value), '' ORDER BY position)) FROM state") for schema in ("source", "target")]
    assert sums[0] == sums[1] and sums[0][0][0] == "600", sums


def a_backup_needs_its_database(program, database, folder):
    database.shut_down()
    file = os.path.join(folder, "a.skills")
    assert refusal(program, "backup", file, store=database.url()) == "store_unavailable"
    assert os.listdir(folder) == [], os.listdir(folder)
    database.start()


if __name__ == "__main__":
    run_checks([a_backup_moves_between_both_kinds_of_store, a_backup_is_of_one_moment_while_servers_write,
                an_interrupted_restore_leaves_the_database_empty, a_source_stays_as_it_is, a_copy_has_few_rows_in_memory,
                a_backup_needs_its_database])
