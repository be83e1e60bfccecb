"""What docs/scale.md promises of a server whose database fails, one promise after the other."""

import json
import os
import re
import subprocess
import time
import urllib.parse

from attack.client import Mcp, http
from ports import free_port

from postgres.checks import answer as said_by, command, refusal, run_checks
from postgres.database import Database
from postgres.server import ADMIN, Server, wait_for


def publish(server, skill, body):
    """Writes over HTTP."""
    request = json.dumps({"user_uid": "ann", "skill_name": skill, "status": "official", "manifest": body}).encode()
    headers = [("Authorization", f"Bearer {ADMIN}"), ("Content-Type", "application/json")]
    return http(f"http://{server.http}", "POST", "/v1/admin/sync_skill", headers, request, seconds=40)


def read(server):
    return Mcp(f"http://{server.http}").read("skill://always/SKILL.md")


def ready(server):
    answer = server.ready()
    return answer.status, answer.json()


def log_of(server):
    with open(server.log.name) as file:
        return file.read()


def start(program, database, folder, **options):
    server = Server(program, database, 0, folder, **options)
    server.start()
    assert server.worker().register("always", "# Always\n\nThere.") is None
    wait_for("it can be read", lambda: read(server).status == 200)
    return server


def a_lost_database_degrades_and_returns_by_itself(program, database, folder):
    server = start(program, database, folder)
    try:
        assert read(server).header("x-skills-catalog-age") is None
        server.proxy.cut()
        wait_for("it is degraded", lambda: ready(server)[1]["status"] == "degraded")
        status, body = ready(server)
        assert status == 200 and body["reason"] and isinstance(body["catalog_age"], int), body

        answer = read(server)
        assert answer.status == 200 and answer.header("x-skills-catalog-age").isdigit(), answer.headers
        wait_for("the age grows", lambda: int(read(server).header("x-skills-catalog-age")) >= 2)

        # Writes fail fast, over HTTP and on the bus.
        started = time.monotonic()
        answer = publish(server, "new", "# New\n\nNever.")
        assert answer.status == 503 and answer.code() == "store_unavailable", (answer.status, answer.body)
        assert int(answer.header("retry-after")) >= 1, answer.headers
        error = server.worker().register("new", "# New\n\nNever.")
        assert error["code"] == "store_unavailable" and "unknown" not in json.dumps(error), error
        assert time.monotonic() - started < 10, "writes do not fail fast"

        server.proxy.heal()
        wait_for("it is ready again", server.is_ready)
        assert read(server).header("x-skills-catalog-age") is None
        assert server.worker().register("new", "# New\n\nAt last.") is None
        assert database.sql("SELECT count(*) FROM change WHERE id = 'new'") == [["1"]]
        # The log names the loss and the return, at its default level.
        for line in ("store unreachable", "store reachable again", "vault database is away", "vault database is back"):
            wait_for(f"the log has: {line}", lambda: line in log_of(server))
    finally:
        server.kill()


def status_of(program, server):
    """Returns what `skills status` says of a server."""
    return said_by(program, "status", "--url", f"ws://{server.bus}")


def sign_in(server):
    """Returns the header with the cookie of an administrator."""
    page = http(f"http://{server.http}", "GET", "/ui/sign-in")
    cookie = page.header("set-cookie").split(";")[0]
    token = re.search(rb'name="token" value="([^"]+)"', page.body)[1].decode()
    form = urllib.parse.urlencode({"token": token, "credential": ADMIN}).encode()
    headers = [("Cookie", cookie), ("Origin", f"http://{server.http}"),
               ("Content-Type", "application/x-www-form-urlencoded")]
    answer = http(f"http://{server.http}", "POST", "/ui/sign-in", headers, form)
    assert answer.status == 303, (answer.status, answer.body)
    return [("Cookie", answer.header("set-cookie").split(";")[0])]


def what_no_one_has_read_yet_is_unavailable_on_every_surface(program, database, folder):
    first = start(program, database, folder)
    server = Server(program, database, 1, folder)
    try:
        assert first.worker().register("cold", "# Cold\n\nNobody reads it.") is None
        # Another one, which has read no body.
        server.start()
        administrator = sign_in(server)
        server.proxy.cut()
        wait_for("it is degraded", lambda: ready(server)[1]["status"] == "degraded")
        paths = ["/.well-known/agent-skills/cold/SKILL.md", "/.well-known/agent-skills/index.json",
                 "/git/all.git/info/refs?service=git-upload-pack", "/git/skill/cold.git/info/refs?service=git-upload-pack",
                 "/.claude-plugin/marketplace.json", "/archive/official/cold/1.zip",
                 "/api/v1/skills/cold/file?path=SKILL.md", "/v1/skills/cold", "/v1/skills/cold/versions",
                 "/skills/registry/cold", "/ui/skills/cold", "/ui/people"]
        for path in paths:
            headers = administrator if path == "/ui/people" else []
            answer = http(f"http://{server.http}", "GET", path, headers)
            assert answer.status == 503 and int(answer.header("retry-after")) >= 1, (path, answer.status, answer.body)
            assert answer.header("x-skills-catalog-age").isdigit(), (path, answer.headers)
            # ClawHub's clients print the body as it is, and the Model Drive Protocol has codes of its own.
            assert path.startswith(("/api/", "/skills/")) or b"store_unavailable" in answer.body, (path, answer.body)
        error = Mcp(f"http://{server.http}").read("skill://cold/SKILL.md").json()["error"]
        assert error["data"]["code"] == "store_unavailable", error
        _, error = server.worker().call("skills::resources-read", {"uri": "iii://cold"})
        assert error["code"] == "store_unavailable", error

        # What is in memory is served, and every page says what fails.
        page = http(f"http://{server.http}", "GET", "/ui")
        assert page.status == 200 and b"the store cannot be reached" in page.body, (page.status, page.body)
        found = status_of(program, server)
        assert not found["healthy"] and isinstance(found["degraded"]["catalog_age"], int), found
        assert "degraded: " in command(program, "status", "--url", f"ws://{server.bus}")[1]
        status, out, _ = command(program, "doctor", "--json", "--url", f"ws://{server.bus}")
        bus, = [check for check in json.loads(out)["checks"] if check["check"] == "bus"]
        assert status == 1 and bus["outcome"] == "problem", (status, bus)

        server.proxy.heal()
        wait_for("it is ready again", server.is_ready)
        for path in paths:
            headers = administrator if path == "/ui/people" else []
            assert http(f"http://{server.http}", "GET", path, headers).status == 200, path
        page = http(f"http://{server.http}", "GET", "/ui")
        assert b"the store cannot be reached" not in page.body, page.body
        assert status_of(program, server)["healthy"]
    finally:
        first.kill()
        server.kill()


def reads_end_after_max_stale(program, database, folder):
    server = start(program, database, folder, config="store:\n  max_stale: 2s\n")
    try:
        server.proxy.cut()
        wait_for("it is degraded", lambda: ready(server)[1]["status"] == "degraded")
        assert read(server).status == 200
        wait_for("it is too old", lambda: ready(server)[0] == 503)
        answer = read(server)
        assert answer.status == 503 and answer.code() == "store_unavailable", (answer.status, answer.body)
        assert int(answer.header("retry-after")) >= 1, answer.headers
        for function, data in (("skills::list", {}), ("skills::resources-read", {"uri": "iii://always"})):
            _, error = server.worker().call(function, data)
            assert error and error["code"] == "store_unavailable", error
        assert http(f"http://{server.http}", "GET", "/healthz").status == 200
        server.proxy.heal()
        wait_for("it is ready again", server.is_ready)
        assert read(server).status == 200
    finally:
        server.kill()


def a_server_waits_for_its_database(program, database, folder):
    database.shut_down()
    server = Server(program, database, 0, folder)
    environment = {**os.environ, "SKILLS_STORE": database.url(), "ADMIN_KEY": ADMIN}
    arguments = [program, "serve", "--bus", server.bus, "--http", server.http, "--data-dir", server.dir]
    server.process = subprocess.Popen(arguments, stderr=server.log, env=environment)
    try:
        wait_for("it says that it waits", lambda: ready(server)[0] == 503 and ready(server)[1]["reason"])
        answer = http(f"http://{server.http}", "GET", "/v1/openapi.json")
        assert answer.status == 503 and answer.code() == "store_unavailable", (answer.status, answer.body)
        assert int(answer.header("retry-after")) >= 1, answer.headers
        database.start()
        wait_for("it is ready", server.is_ready)
        assert server.worker().register("always", "# Always\n\nThere.") is None
    finally:
        server.kill()


def what_waiting_cannot_mend_ends_a_server_at_once(program, database, folder):
    database.sql("ALTER ROLE skills PASSWORD 'right'")
    database.create_database("newer")
    newer = database.url().replace("/skills", "/newer")
    newer = f"postgres://skills:right@127.0.0.1:{database.port}/newer"
    database.reconfigure(access="local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
    assert command(program, "list", store=newer)[0] == 0
    os.environ["PGPASSWORD"] = "right"
    database.run("psql", "-qX", "-h", "127.0.0.1", "-p", str(database.port), "-U", "skills", "-d", "newer", "-c",
                 "UPDATE skills.schema_version SET version = 99 WHERE component = 'store'")
    del os.environ["PGPASSWORD"]
    address = f"127.0.0.1:{database.port}"
    for store, code in ((f"postgres://skills:wrong@{address}/skills", "store_unavailable"),
                        (f"postgres://nobody:right@{address}/skills", "store_unavailable"),
                        (f"postgres://skills:right@{address}/missing", "store_unavailable"),
                        (newer, "store_newer_schema")):
        arguments = ["serve", "--bus", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        status, _, said = command(program, *arguments, store=store, data_dir=os.path.join(folder, "data"))
        assert status == 1 and "error:" in said and "hint:" in said, (store, status, said)
        assert "right" not in said and "wrong" not in said, said
        assert refusal(program, "list", store=store) == code, store


def a_full_database_refuses_writes_and_serves_reads(program, database, folder):
    server = start(program, database, folder)
    try:
        # What PostgreSQL reports of a full disk, without filling one.
        database.sql("CREATE FUNCTION skills.full() RETURNS trigger LANGUAGE plpgsql AS "
                     "$$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' "
                     "USING ERRCODE = 'disk_full'; END $$; "
                     "CREATE TRIGGER full_disk BEFORE INSERT ON skills.change EXECUTE FUNCTION skills.full()")
        answer = publish(server, "new", "# New\n\nNever.")
        assert answer.code() == "store_full", (answer.status, answer.body)
        assert server.worker().register("new", "# New\n\nNever.")["code"] == "store_full"
        assert answer.status == 503 and int(answer.header("retry-after")) >= 1, (answer.status, answer.headers)
        status, body = ready(server)
        assert status == 200 and body["status"] == "degraded" and "full" in body["reason"], body
        assert "catalog_age" not in body and read(server).header("x-skills-catalog-age") is None, body
        assert read(server).status == 200
        database.sql("DROP TRIGGER full_disk ON skills.change")
        assert server.worker().register("new", "# New\n\nAt last.") is None
        assert server.is_ready()
    finally:
        server.kill()


def a_read_only_database_refuses_writes_and_serves_reads(program, database, folder):
    server = start(program, database, folder)
    try:
        database.sql("ALTER DATABASE skills SET default_transaction_read_only = on")
        database.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                     "AND backend_type = 'client backend'")
        wait_for("writes are refused", lambda: server.worker().register("new", "# N") is not None)
        answer = publish(server, "new", "# New\n\nNever.")
        assert answer.status == 503 and answer.code() == "store_unavailable", (answer.status, answer.body)
        assert int(answer.header("retry-after")) >= 1, answer.headers
        assert read(server).status == 200
        status, body = ready(server)
        assert status == 200 and body["status"] == "degraded" and "read-only" in body["reason"], body
        assert not status_of(program, server)["healthy"]
        _, out, _ = command(program, "doctor", "--json", store=database.url(), data_dir=os.path.join(folder, "doctor"))
        store, = [check for check in json.loads(out)["checks"] if check["check"] == "store"]
        assert store["outcome"] == "problem" and "read-only" in store["message"], store
        # Sessions keep the setting that they began with.
        database.sql("SET default_transaction_read_only = off", "ALTER DATABASE skills RESET default_transaction_read_only")
        # A look at the database shows that it is over, without a write.
        wait_for("it is ready again", server.is_ready)
        assert server.worker().register("new", "# New\n\nAt last.") is None
    finally:
        server.kill()


def a_promoted_standby_is_used_instead(program, database, folder):
    # A commit waits for the standby, so that a failover loses nothing.
    database.reconfigure(access="local all all trust\nhost all all 127.0.0.1/32 trust\n"
                                "host replication all 127.0.0.1/32 trust\n")
    standby = Database(free_port(), primary=database)
    try:
        database.reconfigure("synchronous_standby_names = '*'\n")
        wait_for("the standby follows", lambda: database.sql("SELECT sync_state FROM pg_stat_replication") == [["sync"]])
        # The standby first: it accepts no writes, so the other one is used.
        store = f"postgres://skills@127.0.0.1:{standby.port},127.0.0.1:{database.port}/skills"
        server = start(program, database, folder, store=store)
        try:
            worker, acknowledged = server.worker(), []
            for number in range(20):
                body = f"# S\n\nNumber {number}."
                assert worker.register(f"s{number}", body) is None
                acknowledged.append(f"s{number}")
            database.shut_down()
            wait_for("it is degraded", lambda: ready(server)[1]["status"] == "degraded")
            assert read(server).status == 200
            standby.run("pg_ctl", "-D", standby.data, "-w", "promote")
            wait_for("it uses the other one", server.is_ready)
            wait_for("writes go on", lambda: server.worker().register("after", "# After\n\nThe failover.") is None)
            (revision, count), = standby.sql("SELECT head.revision, (SELECT count(*) FROM change) FROM head")
            assert revision == count, (revision, count)
            ids = {row[0] for row in standby.sql("SELECT id FROM entry")}
            assert set(acknowledged) | {"always", "after"} <= ids, ids
        finally:
            server.kill()
    finally:
        standby.stop()


if __name__ == "__main__":
    run_checks([a_lost_database_degrades_and_returns_by_itself,
                what_no_one_has_read_yet_is_unavailable_on_every_surface, reads_end_after_max_stale,
                a_server_waits_for_its_database, what_waiting_cannot_mend_ends_a_server_at_once,
                a_full_database_refuses_writes_and_serves_reads, a_read_only_database_refuses_writes_and_serves_reads,
                a_promoted_standby_is_used_instead])
