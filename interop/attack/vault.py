"""Keys and secrets: a full disk, damaged secrets, redirects, and atomic changes."""

import json
import resource
import sqlite3

from .client import bearer, http
from .keys import admin, create
from .test_server import INTERNAL_API_SECRET
from .upstream import Upstream

# Malformed `hex.hex.hex` secrets: wrong lengths, a fourth part, an empty part.
DAMAGED = {
    "SHORT_IV": f"{'ab' * 8}.{'cd' * 16}.{'ef' * 20}",
    "SHORT_TAG": f"{'ab' * 12}.{'cd' * 4}.{'ef' * 20}",
    "LONG_TAG": f"{'ab' * 12}.{'cd' * 20}.{'ef' * 20}",
    "FOURTH": f"{'ab' * 12}.{'cd' * 16}.{'ef' * 20}.{'00' * 4}",
    "ODD": f"{'ab' * 12}.{'cd' * 16}.{'ef' * 20}a",
    "FLIPPED": f"{'ab' * 12}.{'cd' * 16}.{'ef' * 20}",
    "NEWER": f"v1.{'00' * 4}.{'ab' * 12}.{'ef' * 20}.00",
}


def run(report, server):
    report.attack("12i", "revoking a key while the disk is full", lambda check: full_disk(check, server))
    report.attack("12l", "redirect into an exempt origin", lambda check: redirects(check, server))
    report.attack("12m", "sync_skill that fails half way", lambda check: half_way(check, server))
    report.attack("12o", "damaged secrets", lambda check: damaged(check, server))
    report.attack("12p", "crafted SQLite files", lambda check: crafted(check, server))
    # These cannot be caused from outside the process; tests of the crates cover them.
    report.left_out("faults inside the process (writer panic)")


def full_disk(check, server):
    other = server.another(limits="trap '' XFSZ")
    made = create(other, "ann")
    verify = lambda: http(other.http, "GET", "/v1/auth/verify", bearer(made["key"])).status  # noqa: E731
    check.that(verify() == 200, "the key is not good to begin with")
    # From here on no file of the process can grow, as on a full disk.
    resource.prlimit(other.pid, resource.RLIMIT_FSIZE, (0, 0))
    response = admin(other, "DELETE", f"/v1/admin/keys/{made['key_id']}")
    check.that(verify() == 401, f"the key is still good after {response.status} {response.code()}")
    check.that(any(word in response.body.lower() for word in (b"memory", b"restart", b"not stored", b"disk")),
               f"does not say that it is not stored: {response.status} {response.body[:120]!r}")
    check.note(f"{response.status} {response.code() or ''}".strip())


def sync_skill(server, name, endpoint, **more):
    manifest = {"id": name, "meta": {"name": name, "description": "A tool.", "parameters": {"type": "object", "properties": {}}},
                "config": {"endpoint": endpoint, "method": "GET"}}
    body = {"user_uid": "ann", "skill_name": name, "status": "official", "manifest": manifest, **more}
    return http(server.http, "POST", "/v1/admin/sync_skill", [*bearer(INTERNAL_API_SECRET), ("Content-Type", "application/json")],
                json.dumps(body).encode())


def redirects(check, server):
    inner = Upstream(lambda _: '{"secret": "of the intranet"}')
    outer = Upstream(lambda path: (302, f"{inner.url}/inside") if path == "/out" else
                     (302, "/same") if path == "/again" else '{"fine": true}')
    other = server.another(["--allow-upstream", outer.url, "--allow-upstream", inner.url])
    key = create(other, "ann")["key"]
    for name, path in [("leave", "/out"), ("stay", "/again")]:
        response = sync_skill(other, name, outer.url + path)
        check.that(response.status == 200, f"sync_skill: {response.status} {response.body[:100]!r}")
        ran = http(other.http, "POST", f"/v1/execute/{name}", [*bearer(key), ("Content-Type", "application/json")], b"{}")
        if name == "leave":
            check.that(ran.status != 200 and not inner.paths, f"followed into the other exempt origin: {ran.status}")
        else:
            check.that(ran.status == 200, f"a redirect within one origin: {ran.status} {ran.body[:120]!r}")


def secret_names(server, key):
    return [row["name"] for row in http(server.http, "GET", "/v1/secrets", bearer(key)).json().get("data", [])]


def half_way(check, server):
    key = create(server, "ann")["key"]
    cases = {
        "bad-secret": {"secrets": {"GOOD": "x", "not a name": "y"}},
        "large-secret": {"secrets": {"GOOD": "x", "LARGE": "y" * 100_000}},
        "large-manifest": {"secrets": {"GOOD": "x"}},
    }
    for name, more in cases.items():
        endpoint = "https://api.example.com/" + ("x" * 600_000 if name == "large-manifest" else "")
        response = sync_skill(server, name, endpoint, **more)
        check.that(response.status >= 400, f"{name}: {response.status}")
        stored = http(server.http, "GET", f"/v1/skills/{name}").status
        names = secret_names(server, key)
        check.that(stored == 404 and not names, f"{name}: skill {stored}, secrets {names}")


def damaged(check, server):
    data = server.folder / "imported"
    lines = [{"key": f"skill:secrets:ann{number}", "value": {name: value}} for number, (name, value) in enumerate(DAMAGED.items())]
    path = server.folder / "damaged.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    ran = server.command("--data-dir", str(data), "import", str(path), MASTER_ENCRYPTION_KEY="00112233445566778899aabbccddeeff" * 2)
    for number, name in enumerate(DAMAGED):
        listed = server.command("secret", "list", "--uid", f"ann{number}", "--data-dir", str(data), "--json")
        check.that(name not in listed.stdout, f"{name} was taken as plain text")
        check.that(name in ran.stdout + ran.stderr or f"ann{number}" in ran.stdout + ran.stderr, f"{name} is not reported")
    key = create(server, "bob")["key"]
    for name, value in DAMAGED.items():
        body = json.dumps({"uid": "bob", "secrets": {name: value}}).encode()
        http(server.http, "POST", "/v1/admin/sync_cache", [*bearer(INTERNAL_API_SECRET), ("Content-Type", "application/json")], body)
    check.that(not secret_names(server, key), f"sync_cache took {secret_names(server, key)}")


# A trigger that reads a virtual table, by which a schema can reach beyond its own tables.
TRIGGER = """CREATE TABLE loot (path TEXT);
CREATE TRIGGER steal AFTER INSERT ON {table} BEGIN INSERT INTO loot SELECT file FROM pragma_database_list; END;"""


def crafted(check, server):
    """Checks that a trigger in a crafted file does nothing when a command changes the file."""
    data = server.folder / "crafted"
    document = server.folder / "crafted.md"
    for name, table, command in [("vault.sqlite", "key", ["key", "create", "--uid", "ann"]),
                                 ("skills.db", "change", ["add", str(document)])]:
        document.write_text("# Crafted\n\nText.\n")
        made = server.command("--data-dir", str(data), *command)
        check.that(made.returncode == 0, f"{command[0]}: {made.stderr[:120]!r}")
        with sqlite3.connect(data / name) as connection:
            connection.executescript(TRIGGER.format(table=table))
        document.write_text("# Crafted\n\nAnother text.\n")
        ran = server.command("--data-dir", str(data), *command)
        check.that(ran.returncode != 0 and "unsafe use" in ran.stderr, f"{name}: exit {ran.returncode}, {ran.stderr[:120]!r}")
        with sqlite3.connect(data / name) as connection:
            loot = connection.execute("SELECT count(*) FROM loot").fetchone()[0]
        check.that(loot == 0, f"{name}: the trigger ran")
