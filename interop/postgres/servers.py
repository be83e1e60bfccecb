"""What docs/scale.md and docs/keys.md promise of several servers on one database: shared content, accounts and limits,
commits whose connection breaks, and servers that hang."""

import concurrent.futures
import json
import os
import subprocess
import threading
import time

from attack.client import Gone, bearer, http

from postgres.checks import command, refusal, run_checks
from postgres.claims import publish
from postgres.server import ADMIN, Server, wait_for

MASTER = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
# Uses per minute of the plan FREE.
LIMIT = 30


def ask(server, method, path, credential=None, body=None, seconds=40):
    headers = bearer(credential) + ([("Content-Type", "application/json")] if body is not None else [])
    data = None if body is None else json.dumps(body).encode()
    return http(f"http://{server.http}", method, path, headers, data, seconds=seconds)


def start_all(program, database, folder, count=3, **options):
    """Starts servers at the same time, on a database without tables."""
    os.environ["MASTER_ENCRYPTION_KEY"] = MASTER
    servers = [Server(program, database, number, folder, **options) for number in range(count)]
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        list(pool.map(Server.start, servers))
    return servers


def stop_all(servers):
    for server in servers:
        server.kill()


def create_key(server, uid):
    answer = ask(server, "POST", "/v1/admin/keys", ADMIN, {"user_uid": uid})
    assert answer.status == 201, answer.body
    return answer.json()["key"], answer.json()["key_id"]


def servers_that_start_at_once_create_the_schema_once(program, database, folder):
    servers = start_all(program, database, folder, count=6)
    try:
        assert sorted(database.sql("SELECT component, version > 0 FROM schema_version")) == [["store", "t"], ["vault", "t"]]
        for number, server in enumerate(servers):
            assert server.worker().register(f"s{number}", f"# S\n\n{number}.") is None
        for server in servers:
            wait_for("all have all", lambda s=server: len(s.worker().call("skills::list", {})[0]["skills"]) == 6)
    finally:
        stop_all(servers)


def a_key_revoked_on_one_server_is_refused_on_all_within_a_second(program, database, folder):
    servers = start_all(program, database, folder)
    try:
        for number in range(5):
            key, key_id = create_key(servers[number % 3], f"user{number}")
            for server in servers:
                assert ask(server, "GET", "/v1/auth/verify", key).status == 200, server.number
            assert ask(servers[0], "DELETE", f"/v1/admin/keys/{key_id}", ADMIN).status == 200
            revoked = time.monotonic()
            assert ask(servers[0], "GET", "/v1/auth/verify", key).status == 401
            for server in servers[1:]:
                wait_for("it is refused", lambda s=server: ask(s, "GET", "/v1/auth/verify", key).status == 401)
            took = time.monotonic() - revoked
            assert took < 1, f"refused everywhere after {took:.2f} s"
    finally:
        stop_all(servers)


def limits_are_exact_across_servers(program, database, folder):
    servers = start_all(program, database, folder)
    try:
        key, _ = create_key(servers[0], "ann")
        # The limit is one of a clock minute.
        while time.time() % 60 > 35:
            time.sleep(1)

        def use(number):
            answer = ask(servers[number % 3], "PUT", f"/v1/secrets/S{number}", key, {"value": "v"})
            assert answer.status in (200, 429), (answer.status, answer.body)
            return answer.status

        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            statuses = list(pool.map(use, range(LIMIT + 30)))
        assert statuses.count(200) == LIMIT, f"{statuses.count(200)} of {LIMIT} passed"
        assert database.sql("SELECT used FROM vault_rate") == [[str(LIMIT)]]
    finally:
        stop_all(servers)


def all_servers_serve_the_same(program, database, folder):
    servers = start_all(program, database, folder)
    try:
        for number in range(3):
            body = f"---\nname: doc\ndescription: A document.\n---\n\n# Doc\n\nVersion {number}."
            assert servers[number].worker().register("doc", body) is None
        put = ask(servers[1], "PUT", "/v1/collections/kit", ADMIN,
                  {"title": "Kit", "description": "A kit.", "skills": ["doc@2"]})
        assert put.status in (200, 201), put.body
        assert ask(servers[1], "PUT", "/v1/skills/doc/labels/stable", ADMIN, {"version": 2}).status == 200
        for server in servers:
            wait_for("the label is everywhere", lambda s=server:
                     ask(s, "GET", "/v1/skills/doc").json().get("version") == 2)

        def seen(server):
            """What one server answers: bodies, ETags and commit ids."""
            answers = [ask(server, "GET", path) for path in
                       ("/v1/collections", "/v1/collections/kit", "/v1/skills/doc", "/v1/skills/doc@1",
                        "/v1/skills/doc/versions", "/v1/available-skills")]
            assert all(answer.status == 200 for answer in answers), [(a.status, a.body) for a in answers]
            refs = [subprocess.run(["git", "ls-remote", f"http://{server.http}/git/{path}.git"], check=True, text=True,
                                   capture_output=True).stdout for path in ("all", "skill/doc", "collection/kit")]
            assert all("refs/heads/main" in listed for listed in refs), refs
            return [(answer.header("etag"), answer.body) for answer in answers], refs

        first = seen(servers[0])
        for server in servers[1:]:
            assert seen(server) == first, server.number

        # A query without a result is counted for all servers together.
        for server in servers:
            assert ask(server, "GET", "/v1/search?q=unheardof").status == 200
        wait_for("the misses are counted", lambda: [("unheardof", 3)] == [
            (miss["query"], miss["count"]) for miss in
            ask(servers[2], "GET", "/v1/admin/search-misses", ADMIN).json()["data"]])

        # A removed collection is gone everywhere.
        assert ask(servers[2], "DELETE", "/v1/collections/kit", ADMIN).status == 200
        for server in servers:
            wait_for("it is gone", lambda s=server: ask(s, "GET", "/v1/collections/kit").status == 404)
    finally:
        stop_all(servers)


def keys_are_accepted_from_memory_for_max_stale(program, database, folder):
    server, = start_all(program, database, folder, count=1, config="store:\n  max_stale: 4s\n")

    def status(key, path="/v1/skills"):
        return ask(server, "GET", path, key).status

    try:
        (known, _), (unknown, _) = create_key(server, "ann"), create_key(server, "bob")
        assert status(known) == 200 and status("us-never-issued") == 401
        # Makes the server forget all keys but the first.
        server.kill()
        server.start()
        assert status(known) == 200
        server.proxy.cut()
        wait_for("it is degraded", lambda: server.ready().json()["status"] == "degraded")
        assert status(known) == 200
        # Nothing can be said about a key that this server has not seen, so it is not called unknown.
        assert status(unknown) == 503, status(unknown)
        wait_for("it is too old", lambda: status(known) == 503)
        server.proxy.heal()
        wait_for("it is ready", server.is_ready)
        for key in (known, unknown):
            wait_for("keys are accepted", lambda k=key: status(k) == 200)
            assert status(key, "/v1/auth/verify") == 200
    finally:
        server.kill()


def keys_are_accepted_while_the_database_restarts_again_and_again(program, database, folder):
    os.environ["RUST_LOG"] = "info"
    server, = start_all(program, database, folder, count=1)
    del os.environ["RUST_LOG"]

    def restarts_seen():
        with open(server.log.name, encoding="utf-8") as file:
            return file.read().count("vault database restarted")

    def restart(start):
        seen = restarts_seen()
        start()
        wait_for("the restart is seen", lambda: restarts_seen() > seen)

    def shut_down():
        database.shut_down()
        wait_for("it is degraded", lambda: server.ready().json()["status"] == "degraded")

    def status(key):
        return ask(server, "GET", "/v1/skills", key).status

    try:
        (known, _), (revoked, key_id) = create_key(server, "ann"), create_key(server, "bob")
        assert status(known) == status(revoked) == 200
        # The key is not used while the database is there.
        shut_down()
        restart(database.start)
        wait_for("it is ready", server.is_ready)
        assert ask(server, "DELETE", f"/v1/admin/keys/{key_id}", ADMIN).status < 300
        for _ in range(2):
            shut_down()
            assert status(known) == 200 and status(revoked) == 503, (status(known), status(revoked))
            restart(database.start)
        wait_for("it is ready", server.is_ready)
        assert status(revoked) == 401
        # The key is used all the time.
        stop, statuses = threading.Event(), set()

        def use():
            while not stop.is_set():
                statuses.add(status(known))

        user = threading.Thread(target=use, daemon=True)
        user.start()
        for _ in range(3):
            restart(database.restart_immediately)
        stop.set()
        user.join(30)
        assert statuses == {200}, statuses
    finally:
        server.kill()


def delay_commits(database, seconds):
    """Makes every commit of a change wait, after its statements were answered."""
    database.sql(f"CREATE FUNCTION skills.wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                 f"PERFORM pg_sleep({seconds}); RETURN NULL; END $$")
    database.sql("CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON skills.change DEFERRABLE INITIALLY DEFERRED "
                 "FOR EACH ROW EXECUTE FUNCTION skills.wait()")


def in_background(work):
    result = []
    thread = threading.Thread(target=lambda: result.append(work()), daemon=True)
    thread.start()
    return lambda: thread.join(60) or result[0]


def a_running_server_goes_on_when_a_newer_one_migrates_the_schema(program, database, folder):
    server, = start_all(program, database, folder, count=1)
    try:
        database.sql("UPDATE schema_version SET version = version + 1",
                     "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                     "AND backend_type = 'client backend'")
        wait_for("it writes", lambda: server.worker().register("doc", "# Doc\n\nStill.") is None)
        create_key(server, "ann")
        assert refusal(program, "list", store=database.url()) == "store_newer_schema"
    finally:
        server.kill()


def is_committing(database):
    return database.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == [["1"]]


def a_commit_whose_connection_breaks_is_resolved(program, database, folder):
    server, = start_all(program, database, folder, count=1)
    try:
        delay_commits(database, 2)
        answer = in_background(lambda: publish(server, "doc", "# Doc\n\nBroken."))
        wait_for("it commits", lambda: is_committing(database))
        server.proxy.cut()
        time.sleep(0.5)
        server.proxy.heal()
        answer = answer()
        assert answer.status == 200, (answer.status, answer.body)
        assert database.sql("SELECT count(*) FROM change") == [["1"]]

        # One that the database ended is written by the next attempt, once.
        answer = in_background(lambda: publish(server, "other", "# Other\n\nEnded."))
        wait_for("it commits", lambda: is_committing(database))
        database.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
        answer = answer()
        assert answer.status == 200, (answer.status, answer.body)
        assert database.sql("SELECT count(*) FROM change") == [["2"]]
    finally:
        server.kill()


def a_commit_that_cannot_be_resolved_is_reported_as_unknown(program, database, folder):
    server, = start_all(program, database, folder, count=1)

    def over_http(skill):
        answer = publish(server, skill, "# Doc\n\nUnknown.")
        assert answer.status == 503 and int(answer.header("retry-after")) >= 1, (answer.status, answer.headers)
        return answer.json()

    def over_bus(skill):
        return server.worker().register(skill, "# Doc\n\nUnknown.")

    def by_command(skill):
        path = os.path.join(folder, skill, "SKILL.md")
        os.makedirs(os.path.dirname(path))
        with open(path, "w") as file:
            file.write(f"---\nname: {skill}\ndescription: Unknown.\n---\n# Doc\n")
        status, out, said = command(program, "add", path, "--url", f"ws://{server.bus}", "--json")
        assert status == 1, (status, out, said)
        failed = json.loads(out or said)
        return failed.get("error") or failed["failed"][0]

    try:
        for write in (over_http, over_bus, by_command):
            skill = write.__name__.replace("_", "-")
            delay_commits(database, 2)
            answer = in_background(lambda w=write, s=skill: w(s))
            wait_for("it commits", lambda: is_committing(database))
            server.proxy.cut()
            error = answer()
            assert error["code"] == "store_unavailable" and error["details"] == {"outcome": "unknown"}, (skill, error)
            # A write that comes later is certainly not stored.
            answer = publish(server, "later", "# Later\n\nNever.")
            assert answer.code() == "store_unavailable" and "details" not in answer.json(), answer.body
            later = over_bus("later")
            assert later["code"] == "store_unavailable" and "details" not in later, later
            database.sql("DROP TRIGGER wait ON skills.change", "DROP FUNCTION skills.wait()")
            server.proxy.heal()
            wait_for("it is ready", lambda: ask(server, "GET", "/readyz").json()["status"] == "ready")

            # It was written in fact.
            wait_for("it is listed", lambda s=skill: ask(server, "GET", f"/v1/skills/{s}").status == 200)
        # The same request leads to no further version.
        assert publish(server, "over-http", "# Doc\n\nUnknown.").status == 200
        changes = database.sql("SELECT id, action, version, is_new FROM change ORDER BY revision")
        assert changes == [["over-http", "put", "1", "t"], ["over-bus", "put", "1", "t"], ["by-command", "put", "1", "t"],
                           ["over-http", "put", "1", "f"]], changes
    finally:
        server.kill()


def a_server_that_is_cut_off_does_not_block_the_others(program, database, folder):
    servers = start_all(program, database, folder, count=2)
    one, two = servers
    stop = threading.Event()

    def write_always(number):
        while not stop.is_set():
            try:
                publish(one, f"one{number}", f"# One\n\n{time.monotonic()}.")
            except (OSError, Gone):
                pass  # The server is stopped or killed.

    writers = [threading.Thread(target=write_always, args=(number,), daemon=True) for number in range(4)]
    try:
        for writer in writers:
            writer.start()
        slowest = 0
        for number in range(8):
            one.proxy.mode = "blackhole"
            started = time.monotonic()
            answer = publish(two, "two", f"# Two\n\n{number}.")
            assert answer.status == 200, (answer.status, answer.body)
            slowest = max(slowest, time.monotonic() - started)
            one.proxy.cut()
            one.proxy.heal()
            wait_for("the first writes again", lambda: publish(one, "again", f"# A\n\n{number}.").status == 200)
        assert slowest < 12, f"a write of the other server took {slowest:.1f} s"
        # A process that is stopped holds no lock for longer either.
        one.process.send_signal(19)
        answer = publish(two, "two", "# Two\n\nStopped.")
        one.process.send_signal(18)
        assert answer.status == 200, (answer.status, answer.body)
    finally:
        stop.set()
        stop_all(servers)


def a_server_that_was_cut_off_catches_up(program, database, folder):
    servers = start_all(program, database, folder, count=2)
    one, two = servers
    try:
        one.proxy.cut()
        wait_for("it is degraded", lambda: one.ready().json()["status"] == "degraded")
        worker = two.worker()
        for number in range(600):
            assert worker.register(f"s{number % 200}", f"# S\n\n{number}.") is None
        one.proxy.heal()
        wait_for("it is ready", one.is_ready)

        def listed(server):
            return json.dumps(server.worker().call("skills::list", {})[0], sort_keys=True)

        wait_for("both list the same", lambda: listed(one) == listed(two))
        status, out, _ = command(program, "read", "iii://s199", "--url", f"ws://{one.bus}")
        assert status == 0 and "599." in out, out
    finally:
        stop_all(servers)


if __name__ == "__main__":
    run_checks([servers_that_start_at_once_create_the_schema_once,
                a_key_revoked_on_one_server_is_refused_on_all_within_a_second, limits_are_exact_across_servers,
                all_servers_serve_the_same, keys_are_accepted_from_memory_for_max_stale,
                keys_are_accepted_while_the_database_restarts_again_and_again,
                a_commit_whose_connection_breaks_is_resolved, a_commit_that_cannot_be_resolved_is_reported_as_unknown,
                a_server_that_is_cut_off_does_not_block_the_others, a_server_that_was_cut_off_catches_up,
                a_running_server_goes_on_when_a_newer_one_migrates_the_schema])
