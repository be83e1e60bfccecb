"""Functions of workers of another server on the same database: their callers are told where they are."""

import json

from attack.client import Mcp, http

from postgres.checks import command, run_checks
from postgres.server import Server, wait_for

DOCUMENT = "# Guide\n\nSee [now](iii://guide/demo::now)."


def code_on_bus(server, uri="iii://guide/demo::now"):
    _, error = server.worker().call("skills::resources-read", {"uri": uri})
    return error and error["code"]


def a_section_of_another_server_says_where_it_is(program, database, folder):
    servers = [Server(program, database, number, folder, config=f"server_name: server-{name}\n")
               for number, name in enumerate("ab")]
    one, two = servers
    try:
        for server in servers:
            server.start()
        assert one.worker().register("guide", DOCUMENT) is None
        wait_for("both have the skill", lambda: code_on_bus(two) == "handler_not_registered")
        prompt = {"name": "greet", "description": "Greets.", "function_id": "demo::now"}
        assert one.worker().call("prompts::register", prompt)[1] is None

        worker = two.worker()
        worker.serve("demo::now", lambda _: "It is noon.")
        wait_for("the first server knows", lambda: code_on_bus(one) == "elsewhere")
        _, error = one.worker().call("skills::resources-read", {"uri": "iii://guide/demo::now"})
        assert "server-b" in error["message"], error
        assert code_on_bus(two) is None

        # Every surface says the same.
        _, error = one.worker().call("prompts::mcp-get", {"name": "greet", "arguments": {}})
        assert error["code"] == "elsewhere" and "server-b" in error["message"], error
        answer = Mcp(f"http://{one.http}").read("iii://guide/demo::now")
        assert b"elsewhere" in answer.body and b"server-b" in answer.body, answer.body
        answer = Mcp(f"http://{one.http}").ask("prompts/get", {"name": "greet"}, named="greet")
        assert b"elsewhere" in answer.body and b"server-b" in answer.body, answer.body
        status, _, said = command(program, "read", "iii://guide/demo::now", "--url", f"ws://{one.bus}", "--json")
        assert status == 1 and json.loads(said)["error"]["code"] == "elsewhere", said

        # A worker that leaves is not registered anywhere.
        worker.close()
        wait_for("it is gone", lambda: code_on_bus(one) == "handler_not_registered")

        # A server that is killed vanishes when its lease ends, one that stops does so at once.
        worker = two.worker()
        worker.serve("demo::now", lambda _: "It is noon.")
        wait_for("it is back", lambda: code_on_bus(one) == "elsewhere")
        two.kill()
        assert code_on_bus(one) == "elsewhere"
        wait_for("its lease ends", lambda: code_on_bus(one) == "handler_not_registered")
        two.start()
        worker = two.worker()
        worker.serve("demo::now", lambda _: "It is noon.")
        wait_for("it is back", lambda: code_on_bus(one) == "elsewhere")
        two.process.terminate()
        two.process.wait(30)
        assert database.sql("SELECT count(*) FROM presence") == [["0"]]

        # The table may be empty after a crash of the database: renewals fill it again.
        two.start()
        worker = two.worker()
        worker.serve("demo::now", lambda _: "It is noon.")
        wait_for("it is back", lambda: code_on_bus(one) == "elsewhere")
        database.sql("DELETE FROM presence")
        wait_for("it is announced again", lambda: code_on_bus(one) == "elsewhere")

        # Without the database nothing can be said, and nothing waits for it.
        one.proxy.cut()
        wait_for("it is degraded", lambda: one.ready().json().get("status") == "degraded")
        assert code_on_bus(one) == "handler_not_registered"
    finally:
        for server in servers:
            server.kill()


if __name__ == "__main__":
    run_checks([a_section_of_another_server_says_where_it_is])
