"""Sources that several servers on one database have in their configuration: one imports, and all know the result."""

import os

from attack.client import bearer, http

from postgres.checks import answer, run_checks
from postgres.server import ADMIN, Server, wait_for


def write_skill(source, name, text):
    os.makedirs(os.path.join(source, name), exist_ok=True)
    with open(os.path.join(source, name, "SKILL.md"), "w") as file:
        file.write(f"---\nname: {name}\ndescription: {text}\n---\n# {name}\n\n{text}\n")


def text_of(server, skill):
    found = http(f"http://{server.http}", "GET", f"/.well-known/skills/{skill}/SKILL.md")
    return found.body.decode() if found.status == 200 else None


def shown_source(server):
    """Returns what a server shows of its only source."""
    shown = http(f"http://{server.http}", "GET", "/v1/admin/status", bearer(ADMIN)).json()
    return shown["sources"][0] if shown["sources"] else {}


def a_source_outlives_the_server_that_imported_it(program, database, folder):
    source = os.path.join(folder, "source")
    write_skill(source, "kept", "first")
    write_skill(source, "removed-here", "first")
    config = f"sources:\n  - name: team\n    from: {source}\n    tier: official\n    interval: 2s\n"
    servers = [Server(program, database, number, folder, config=config) for number in range(2)]
    one, two = servers
    late = Server(program, database, 2, folder, config=config)
    try:
        one.start()
        wait_for("it is imported", lambda: text_of(one, "removed-here"))
        two.start()
        wait_for("the other server shows the import", lambda: shown_source(two).get("skills") == 2)

        # One record for all: what was removed here stays so, whichever server imports next.
        assert one.worker().call("skills::unregister", {"id": "removed-here"})[1] is None
        one.kill()
        write_skill(source, "kept", "second")
        wait_for("the other server imports", lambda: "second" in (text_of(two, "kept") or ""))
        late.start()
        before = database.sql("SELECT record::json->>'last_success' FROM import_record")
        wait_for("a later server imports", lambda: database.sql(
            "SELECT record::json->>'last_success' FROM import_record") != before)
        assert text_of(late, "removed-here") is None
        versions = database.sql("SELECT id, count(*) FROM change WHERE kind = 'skill' AND action = 'put' "
                                "GROUP BY id ORDER BY id")
        assert versions == [["kept", "2"], ["removed-here", "1"]], versions

        # Commands read and write the same record.
        path = late.dir + ".yaml"
        shown = answer(program, "source", "status", "--config", path, store=database.url())["sources"][0]
        assert shown["status"] == "ok" and list(shown["skills"]) == ["kept", "removed-here"], shown
        write_skill(source, "more", "first")
        answer(program, "source", "sync", "--config", path, store=database.url())
        # By the command or a server, and late hears of it.
        wait_for("it is imported", lambda: text_of(late, "more"))
    finally:
        for server in [*servers, late]:
            if server.process:
                server.kill()


def a_server_that_dies_in_an_import_is_followed_by_another(program, database, folder):
    source = os.path.join(folder, "source")
    write_skill(source, "pdf", "first")
    config = f"sources:\n  - name: team\n    from: {source}\n    tier: official\n    interval: 2s\n"
    server = Server(program, database, 0, folder, config=config)
    try:
        server.start()
        wait_for("it is imported", lambda: text_of(server, "pdf"))
        # As if another server had begun an import and died: nobody imports until its lease is over.
        wait_for("the record is free", lambda: database.sql(
            "UPDATE import_record SET holder = 'dead', expires_at = now() + interval '1 hour' "
            "WHERE holder IS NULL RETURNING 'taken'"))
        write_skill(source, "pdf", "second")
        status = answer(program, "source", "status", "--config", server.dir + ".yaml", store=database.url())
        assert status["sources"][0]["status"] == "ok", status
        database.sql("UPDATE import_record SET expires_at = now() - interval '1 second'")
        wait_for("it goes on", lambda: "second" in (text_of(server, "pdf") or ""))
    finally:
        server.kill()


if __name__ == "__main__":
    run_checks([a_source_outlives_the_server_that_imported_it, a_server_that_dies_in_an_import_is_followed_by_another])
