"""What docs/scale.md promises of a database that loses commits under running servers: a failover to a server that lacked
them, or a restored backup."""

import os
import shutil
import subprocess

from postgres.checks import run_checks
from postgres.server import ADMIN, wait_for
from postgres.servers import ask, create_key, start_all, stop_all


def subscribe(server):
    """Subscribes to the changes of skills. Returns the worker, and the list that they are added to."""
    changes = []
    return server.subscribe(lambda change: changes.append((change["op"], change["id"]))), changes


def take_backup(database):
    database.shut_down()
    backup = database.data + "-backup"
    subprocess.run(["cp", "-a", database.data, backup], check=True)
    database.start()
    return backup


def restore_backup(database, backup):
    database.shut_down()
    shutil.rmtree(database.data)
    subprocess.run(["cp", "-a", backup, database.data], check=True)
    database.start()


def remove(server, skill):
    _, error = server.worker().call("skills::unregister", {"id": skill})
    assert error is None, error


def write_what_is_lost(servers):
    """Writes a skill, a version and a removal, and creates a key. Returns the key."""
    assert servers[0].worker().register("lost", "# Lost\n\nNever heard of.") is None
    assert servers[1].worker().register("changed", "# Changed\n\nThe second text.") is None
    remove(servers[1], "removed")
    key, _ = create_key(servers[0], "lost")
    for server in servers:
        wait_for("all is everywhere", lambda s=server: listed(s) == {"always", "changed", "lost"})
        assert ask(server, "GET", "/v1/auth/verify", key).status == 200
        assert [found["id"] for found in search(server, "heard")] == ["lost"]
        assert "refs/heads/main" in refs(server)
    return key


def listed(server):
    return {skill["id"] for skill in server.worker().call("skills::list", {})[0]["skills"]}


def search(server, query):
    return server.worker().call("skills::search", {"query": query})[0]["results"]


def refs(server):
    """Commits and tags of the git remotes."""
    listing = [subprocess.run(["git", "ls-remote", f"http://{server.http}/git/{path}.git"], check=True, text=True,
                              capture_output=True).stdout for path in ("all", "skill/changed")]
    return "\n".join(listing)


def seen(server):
    """All that a server says about the content, without what names the server itself."""
    worker = server.worker()
    functions = [("skills::list", {}), ("skills::resources-list", {}), ("skills::catalog", {}),
                 ("skills::resources-read", {"uri": "iii://changed"}), ("skills::history", {"id": "changed"}),
                 ("skills::log", {}), ("prompts::list", {})]
    answers = [worker.call(function, data) for function, data in functions]
    assert all(error is None for _, error in answers), answers
    routes = ["/v1/skills/changed", "/v1/skills", "/v1/available-skills", "/.well-known/agent-skills/index.json"]
    pages = [ask(server, "GET", path) for path in routes]
    assert all(page.status == 200 for page in pages), [(page.status, page.body) for page in pages]
    return answers, [(page.header("etag"), page.body) for page in pages], refs(server)


def prepare(database, servers):
    """Registers three skills, creates a key, and takes a backup of these. Returns the backup, the key and its id."""
    worker = servers[0].worker()
    for skill in ("always", "changed", "removed"):
        assert worker.register(skill, f"# {skill}\n\nThe first text.") is None
    key, key_id = create_key(servers[0], "ann")
    backup = take_backup(database)
    for server in servers:
        wait_for("it accepts the key", lambda s=server: ask(s, "GET", "/v1/auth/verify", key).status == 200)
        wait_for("it writes", lambda s=server: s.worker().register("always", "# Always\n\nThere.") is None)
    lists = [server.worker().call for server in servers]
    wait_for("both list the same", lambda: lists[0]("skills::list", {}) == lists[1]("skills::list", {}))
    return backup, key, key_id


def start_another(program, database, folder, name):
    folder = os.path.join(folder, name)
    os.makedirs(folder)
    server, = start_all(program, database, folder, count=1)
    return server


def compare(program, database, folder, servers):
    """Compares servers with one that starts now and so has only what the database has."""
    fresh = start_another(program, database, folder, "fresh")
    try:
        expected = seen(fresh)
        for server in servers:
            assert seen(server) == expected, server.number
    finally:
        fresh.kill()


def warnings(folder, server):
    with open(os.path.join(folder, f"server-{server.number}.log")) as file:
        return sum("store lost commits" in line for line in file)


def a_restored_database_is_served_as_it_is(program, database, folder):
    servers = start_all(program, database, folder, count=2)
    try:
        backup, key, _ = prepare(database, servers)
        subscriptions = [subscribe(server) for server in servers]
        lost_key = write_what_is_lost(servers)
        for _, changes in subscriptions:
            wait_for("it saw the changes", lambda c=changes: len(c) == 3)
            changes.clear()
        restore_backup(database, backup)
        for server, (_, changes) in zip(servers, subscriptions):
            wait_for("it serves the backup", lambda s=server: listed(s) == {"always", "changed", "removed"})
            wait_for("it is announced", lambda c=changes: len(c) >= 4)
            expected = [("register", skill) for skill in ("always", "changed", "removed")] + [("unregister", "lost")]
            assert sorted(changes) == expected, changes
            wait_for("the lost key is refused", lambda s=server: ask(s, "GET", "/v1/auth/verify", lost_key).status == 401)
            assert ask(server, "GET", "/v1/auth/verify", key).status == 200
            assert search(server, "heard") == []
            changes.clear()
        # Both go on, with the revisions of what was lost.
        for number, server in enumerate(servers):
            wait_for("it writes", lambda s=server, n=number: s.worker().register(f"new{n}", f"# New\n\n{n}.") is None)
        for server, (_, changes) in zip(servers, subscriptions):
            wait_for("all is everywhere", lambda s=server: {"new0", "new1"} <= listed(s))
            wait_for("it is announced", lambda c=changes: len(c) >= 2)
            assert sorted(changes) == [("register", "new0"), ("register", "new1")], changes
            assert warnings(folder, server) == 1
        compare(program, database, folder, servers)
    finally:
        stop_all(servers)


def a_database_that_gave_revisions_out_again_is_served_as_it_is(program, database, folder):
    servers = start_all(program, database, folder, count=2)
    try:
        backup, key, key_id = prepare(database, servers)
        subscriptions = [subscribe(server) for server in servers]
        lost_key = write_what_is_lost(servers)
        for _, changes in subscriptions:
            wait_for("it saw the changes", lambda c=changes: len(c) == 3)
            changes.clear()
        # Another server writes to the restored database before these two see it.
        for server in servers:
            server.proxy.cut()
        restore_backup(database, backup)
        other = start_another(program, database, folder, "other")
        try:
            worker = other.worker()
            assert worker.register("changed", "# Changed\n\nAnother second text.") is None
            for number in range(3):
                assert worker.register(f"found{number}", "# Found\n\nFound instead.") is None
            assert ask(other, "DELETE", f"/v1/admin/keys/{key_id}", ADMIN).status == 200
            create_key(other, "found")
        finally:
            other.kill()
        for server in servers:
            server.proxy.heal()
        skills = {"always", "changed", "removed", "found0", "found1", "found2"}
        for server, (_, changes) in zip(servers, subscriptions):
            wait_for("it serves what is there", lambda s=server: listed(s) == skills)
            wait_for("it is announced", lambda c=changes: len(c) >= 7)
            expected = [("register", skill) for skill in sorted(skills)] + [("unregister", "lost")]
            assert sorted(changes) == expected, changes
            for ended in (lost_key, key):
                wait_for("ended keys are refused", lambda s=server, k=ended: ask(s, "GET", "/v1/auth/verify", k).status == 401)
            assert warnings(folder, server) == 1
        compare(program, database, folder, servers)
    finally:
        stop_all(servers)


if __name__ == "__main__":
    run_checks([a_restored_database_is_served_as_it_is, a_database_that_gave_revisions_out_again_is_served_as_it_is])
