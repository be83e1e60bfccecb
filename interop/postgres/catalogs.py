"""Catalogs as servers list them on the bus, over HTTP and over MCP."""

import hashlib
import json

from attack.client import Mcp, http

from postgres.server import wait_for

# A list that is longer does not end.
MOST_PAGES = 1000
PATHS = ("/.well-known/agent-skills/index.json", "/.well-known/skills/index.json", "/v1/available-skills",
         "/v1/collections", "/v1/skills/schema")


def pages(ask, cursor_of):
    """Returns the results of a list that is read page by page."""
    found, cursor = [], None
    for _ in range(MOST_PAGES):
        found.append(ask(cursor))
        cursor = cursor_of(found[-1])
        if cursor is None:
            return found
    raise AssertionError(f"more than {MOST_PAGES} pages")


def on_bus(server):
    worker = server.worker()

    def call(function, **data):
        result, error = worker.call(function, data)
        assert error is None, error
        return result

    listings = {function: call(function) for function in
                ("skills::list", "skills::resources-list", "skills::available", "prompts::list", "state::list_groups")}
    listings["skills::catalog"] = pages(
        lambda cursor: call("skills::catalog", layers="all", **({"after": cursor} if cursor else {})),
        lambda page: page.get("next"))
    listings["skills::log"] = pages(
        lambda cursor: call("skills::log", limit=1000, **({"after": cursor} if cursor else {})),
        lambda page: page.get("next"))
    listings["documents"] = {row["id"]: call("skills::resources-read", uri=f"iii://{row['id']}")["contents"][0]["text"]
                             for row in listings["skills::list"]["skills"]}
    worker.close()
    return listings


def over_http(server, skills):
    def get(path):
        answer = http(f"http://{server.http}", "GET", path)
        assert answer.status == 200, (path, answer.status, answer.body)
        return answer

    listings = {}
    for path in (*PATHS, *(f"/v1/skills/{skill}" for skill in skills),
                 *(f"/.well-known/agent-skills/{skill}/SKILL.md" for skill in skills)):
        answer = get(path)
        listings[path] = [answer.header("etag"), hashlib.sha256(answer.body).hexdigest()]
        assert answer.header("etag") or path in ("/v1/collections", "/v1/skills/schema"), f"{path} has no ETag"
    listings["/v1/skills"] = pages(
        lambda cursor: get("/v1/skills?layers=all&limit=100" + (f"&cursor={cursor}" if cursor else "")).json(),
        lambda page: page.get("next_cursor"))
    return listings


def over_mcp(server):
    mcp = Mcp(f"http://{server.http}")

    def ask(method, cursor):
        answer = mcp.ask(method, {"cursor": cursor} if cursor else {})
        assert answer.status == 200 and "result" in answer.json(), (answer.status, answer.body)
        return answer.json()["result"]

    return {method: pages(lambda cursor, method=method: ask(method, cursor), lambda page: page.get("nextCursor"))
            for method in ("resources/list", "resources/templates/list", "prompts/list", "tools/list")}


def catalog(server):
    """Returns everything that a server lists, by function, path or method."""
    listings = on_bus(server)
    return listings | over_http(server, sorted(listings["documents"])) | over_mcp(server)


def check_catalogs(servers, served):
    """Compares the catalogs of all servers with each other, and with the bodies that the database has. Returns problems."""
    problems = []
    try:
        wait_for("all servers list the same", lambda: len({json.dumps(on_bus(s), sort_keys=True) for s in servers}) == 1)
    except AssertionError as error:
        problems.append(str(error))
    first, *others = (catalog(server) for server in servers)
    problems += [f"servers 0 and {server.number} differ in {name}" for server, other in zip(servers[1:], others)
                for name in first.keys() | other.keys() if first.get(name) != other.get(name)]
    if first["documents"] != served:
        problems.append("the servers have other documents than the database")
    if {row["id"] for page in first["/v1/skills"] for row in page["data"]} != set(served):
        problems.append("/v1/skills lists other skills than the database has")
    uris = {row["uri"] for page in first["resources/list"] for row in page["resources"]}
    missing = {skill for skill in served if f"iii://{skill}" not in uris}
    if missing:
        problems.append(f"resources/list lacks {sorted(missing)[:5]}")
    return problems
