"""Attacks 03: readers reach only functions that are exposed to them."""

import hashlib
import json
import time

from .client import SECONDS, Mcp, Worker, http

LINKED = "# Shop\n\nText.\n\n[prices](iii://shop/shop::prices) and [secret](iii://shop/billing::wipe)\n"


def run(report, server):
    owner = Worker(server.bus)
    owner.serve("billing::wipe", lambda _: "wiped", private=True)
    owner.serve("billing::list", lambda _: "listed")
    owner.serve("shop::prices", lambda _: "prices")
    owner.serve("shop::echo", lambda data: data, metadata={"mcp": {"expose": True}},
                request_format={"type": "object", "properties": {}})
    assert owner.register("shop", LINKED) is None
    prompt = {"name": "wipe", "description": "Wipes.", "function_id": "billing::wipe"}
    owner.call("prompts::register", prompt)
    owner.call("prompts::register", {"name": "echo", "description": "Echoes.", "function_id": "shop::echo"})
    report.attack("03a", "private function by an anonymous reader", lambda check: private(check, server, owner))
    report.attack("03b", "private function by another worker", lambda check: private_on_bus(check, server, owner))
    report.attack("03c", "function that no skill links", lambda check: unlinked(check, server, owner))
    report.attack("03d", "_caller_worker_id of an HTTP caller", lambda check: caller_id(check, server, owner))
    report.attack("03e", "sections: any restores the old rule", lambda check: any_section(check, server))
    report.attack("03f", "private function by triggers and observers", lambda check: subscriptions(check, server))
    report.attack("03g", "key by an observer that calls skills::import", lambda check: planted_key(check, server))


def invoked(owner, function):
    return sum(name == function for name, _ in owner.invoked)


def private(check, server, owner):
    mcp = Mcp(server.http)
    for uri in ["iii://any/billing::wipe", "iii://shop/billing::wipe", "skill://shop/sections/billing::wipe"]:
        response = mcp.read(uri)
        check.that("wiped" not in str(response.body), f"{uri} ran it")
    mcp.tool("read_skill", {"uri": "iii://any/billing::wipe"})
    mcp.tool("read_skill", {"uris": ["iii://any/billing::wipe", "iii://shop/billing::wipe"]})
    mcp.ask("prompts/get", {"name": "wipe", "arguments": {"all": "yes"}}, "wipe")
    check.that(invoked(owner, "billing::wipe") == 0, f"it ran {invoked(owner, 'billing::wipe')} times")


def private_on_bus(check, server, owner):
    before = invoked(owner, "billing::wipe")
    other = Worker(server.bus)
    for function, data in [("billing::wipe", {}), ("skills::resources-read", {"uri": "iii://any/billing::wipe"}),
                           ("prompts::mcp-get", {"name": "wipe", "arguments": {"all": "yes"}})]:
        result, error = other.call(function, data)
        check.that(error is not None, f"{function} answered {str(result)[:60]}")
    check.that(invoked(owner, "billing::wipe") == before, "it ran")
    other.close()


def unlinked(check, server, owner):
    mcp = Mcp(server.http)
    for uri in ["iii://any/billing::list", "iii://shop/billing::list"]:
        mcp.read(uri)
    mcp.tool("read_skill", {"uri": "iii://any/billing::list"})
    check.that(invoked(owner, "billing::list") == 0, "a function that no skill links was called")
    check.that(b"prices" in mcp.read("iii://shop/shop::prices").body, "a linked section is refused")
    result, error = Worker(server.bus).call("skills::resources-read", {"uri": "iii://any/billing::list"})
    check.that(error is None and "listed" in str(result), f"the bus does not keep its contract: {error}")


def caller_id(check, server, owner):
    mcp = Mcp(server.http)
    forged = "00000000-0000-4000-8000-00000000000f"
    mcp.tool("shop__echo", {"_caller_worker_id": forged, "x": 1})
    mcp.ask("prompts/get", {"name": "echo", "arguments": {"_caller_worker_id": forged}}, "echo")
    seen = [data for name, data in owner.invoked if name == "shop::echo"]
    check.that(seen, "the exposed function was not called")
    check.that(all((data or {}).get("_caller_worker_id") != forged for data in seen), "the function saw a forged caller")


def any_section(check, server):
    other = server.another(config="sections: any\n")
    owner = Worker(other.bus)
    owner.serve("billing::list", lambda _: "listed")
    owner.serve("billing::wipe", lambda _: "wiped", private=True)
    check.that(b"listed" in Mcp(other.http).read("iii://any/billing::list").body, "the setting is not honoured")
    Mcp(other.http).read("iii://any/billing::wipe")
    check.that(invoked(owner, "billing::wipe") == 0, "a private function ran")


def subscribe(worker, trigger_type, function, config):
    worker.socket.send({"type": "registertrigger", "id": f"{trigger_type} {function} {len(config)}", "trigger_type": trigger_type,
                        "function_id": function, "config": config})


def observe(worker, function):
    worker.socket.send({"type": "observe", "id": f"observer of {function}", "target": {"function_id": function},
                        "source": {"function_id": "skills::on-change", "deliver": "input"}})


def subscriptions(check, server):
    """Checks that a private function, also as a condition, runs only for subscriptions of its own worker."""
    other = server.another()
    owner, attacker = Worker(other.bus), Worker(other.bus)
    for function in ["billing::wipe", "billing::audit"]:
        owner.serve(function, lambda _: True, private=True)
    # The owner's subscription does not open the function to others.
    subscribe(owner, "skills::on-change", "billing::audit", {})
    owner.call("engine::workers::list")
    # Each control is notified in one way, which proves that the way works.
    own = ["attacker::state", "attacker::change", "attacker::observer"]
    for function in own:
        attacker.serve(function, lambda _: None)
    for function in ["billing::wipe", "billing::audit", "attacker::state"]:
        subscribe(attacker, "state", function, {})
    for function in ["billing::wipe", "attacker::change"]:
        subscribe(attacker, "skills::on-change", function, {})
    for function in ["billing::wipe", "billing::audit", "attacker::observer"]:
        observe(attacker, function)
    subscribe(attacker, "state", "attacker::state", {"condition_function_id": "billing::wipe"})
    attacker.call("engine::workers::list")
    attacker.call("state::set", {"scope": "s", "key": "k", "value": {"wipe": True}})
    attacker.register("a", "# A\n\nText.\n")
    expected = [(attacker, function) for function in own] + [(owner, "billing::audit")]
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and not all(invoked(*one) for one in expected):
        time.sleep(0.05)
    untold = [function for worker, function in expected if not invoked(worker, function)]
    check.that(not untold, f"not told, although its own worker subscribed it: {untold}")
    check.that(invoked(owner, "billing::wipe") == 0, f"it ran {invoked(owner, 'billing::wipe')} times")
    seen = [data for name, data in owner.invoked if name == "billing::audit" and "scope" in (data or {})]
    check.that(not seen, f"it ran with what the attacker subscribed to: {str(seen)[:80]}")
    other.stop()


def planted_key(check, server):
    """A subscription has no caller, and must not pass for the server itself."""
    worker = Worker(server.bus)
    key = "us-" + "a" * 40
    line = {"key": f"auth:hash:{hashlib.sha256(key.encode()).hexdigest()}", "value": "root"}
    payload = {"lines": [[1, json.dumps(line)]], "user": "root"}
    _, error = worker.call("skills::import", payload)
    check.that(error is not None, "a worker imports keys directly")
    worker.serve("bait::call", lambda _: {})
    worker.socket.send({"type": "observe", "id": "planted", "target": {"function_id": "skills::import"},
                        "source": {"function_id": "bait::call", "deliver": "input"}})
    worker.socket.send({"type": "registertrigger", "id": "planted-trigger", "trigger_type": "state",
                        "function_id": "skills::import", "config": {}})
    worker.call("bait::call", payload)
    worker.call("state::set", {"scope": "s", "key": "k", "value": payload})
    time.sleep(1)
    response = http(server.http, "GET", "/v1/skills", [("Authorization", f"Bearer {key}")])
    check.that(response.status == 401, f"the key works: {response.status}")
    worker.close()
