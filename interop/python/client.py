"""One iii worker on the Python SDK, speaking the whole contract to a running server.

    client.py write URL    register everything, read it back, watch the changes
    client.py read URL     after a restart: what was written is still there; remove it
    client.py stay URL     live through a restart on one connection object

The last line of standard output is `checks N`. The first check that fails ends the run.
The same file runs on every SDK version: it uses only calls they share.
"""

import json
import re
import sys
import threading
import time

from iii import register_worker

DEADLINE = 20.0
SKILL = "python-skill"
SPARE = "python-spare"
PROMPT = "python-greet"
CHAT = "python-chat"
SCOPE = "python-scope"

# Everything a careless store would change: CRLF, non-ASCII, a tab, trailing blanks, no final newline.
TITLE = "Intérop 漢字 🎈"
DESCRIPTION = "First line, second line."
BODY = f"# {TITLE}\r\n\r\nFirst line,\r\nsecond line.\r\n\r\n```sh\n# not a title\n```\n\ttab and blanks  "
GUIDE = "# Guide\n\nLong-form text.\n"
PLAIN = "Just a string.\n"
FACTS = {"answer": 42, "nested": {"list": [1, 2], "text": "é"}}
CHAT_MESSAGES = [
    {"role": "user", "content": {"type": "text", "text": "Ping"}},
    {"role": "assistant", "content": {"type": "text", "text": "Pong"}},
]
ARGUMENTS = [{"name": "who", "description": "Who to greet", "required": True}, {"name": "tone"}]


class Checks:
    """Counts passed checks; raises on the first failure."""

    def __init__(self):
        self.count = 0

    def that(self, held, what):
        if not held:
            raise AssertionError(what)
        self.count += 1

    def equal(self, got, wanted, what):
        self.that(got == wanted, f"{what}:\n  wanted {wanted!r}\n  got    {got!r}")

    def keys(self, value, required, optional, what):
        got = set(value)
        held = set(required) <= got <= set(required) | set(optional)
        self.that(held, f"{what}: keys {sorted(got)}, wanted {required} and perhaps {optional}")

    def fails(self, call, words, what):
        try:
            result = call()
        except Exception as error:  # the exception's class has another name in every SDK generation
            self.that(words in str(error), f"{what}: wanted an error with {words!r}, got {error}")
        else:
            raise AssertionError(f"{what}: wanted an error with {words!r}, got {result!r}")


class Events:
    """On-change events of one trigger type, in order of arrival."""

    def __init__(self):
        self.seen = []
        self.arrived = threading.Condition()

    def add(self, event):
        # A bus adds the caller to every object it routes; the rest is the payload.
        payload = {key: value for key, value in event.items() if key != "_caller_worker_id"}
        with self.arrived:
            self.seen.append(payload)
            self.arrived.notify_all()

    def wait_for(self, count):
        with self.arrived:
            self.arrived.wait_for(lambda: len(self.seen) >= count, timeout=DEADLINE)
            return list(self.seen)


class Client:
    def __init__(self, url):
        self.worker = register_worker(url)
        self.checks = Checks()
        self.skill_events = Events()
        self.prompt_events = Events()

    def call(self, function_id, payload=None):
        return self.worker.trigger({"function_id": function_id, "payload": payload or {}, "timeout_ms": 10_000})

    def read(self, uri):
        envelope = self.call("skills::resources-read", {"uri": uri})
        self.checks.keys(envelope, ["contents"], [], f"read {uri}")
        self.checks.equal(len(envelope["contents"]), 1, f"read {uri}: contents")
        content = envelope["contents"][0]
        self.checks.keys(content, ["uri", "mimeType", "text"], [], f"read {uri}: content")
        self.checks.equal(content["uri"], uri, f"read {uri}: uri")
        return content["mimeType"], content["text"]

    def render(self, name, **arguments):
        payload = {"name": name, "arguments": arguments} if arguments else {"name": name}
        envelope = self.call("prompts::mcp-get", payload)
        self.checks.keys(envelope, ["messages"], ["description"], f"render {name}")
        return envelope["messages"]

    def register_functions(self):
        self.worker.register_function("python::guide", lambda _input: {"content": GUIDE})
        self.worker.register_function("python::plain", lambda _input: PLAIN)
        self.worker.register_function("python::facts", lambda _input: FACTS)
        self.worker.register_function("python::broken", broken)
        self.worker.register_function("python::greet", greet)
        self.worker.register_function("python::chat", lambda _input: {"messages": CHAT_MESSAGES})

    def subscribe(self):
        # Asynchronous handlers run in the order of their frames; synchronous ones get a thread each.
        async def on_skill(event):
            self.skill_events.add(event)

        async def on_prompt(event):
            self.prompt_events.add(event)

        self.worker.register_function("python::on_skill", on_skill)
        self.worker.register_function("python::on_prompt", on_prompt)
        for kind, target in [("skills", "python::on_skill"), ("prompts", "python::on_prompt")]:
            self.worker.register_trigger({"type": f"{kind}::on-change", "function_id": target, "config": {}})

    def register_skill(self, skill_id=SKILL, body=BODY):
        answer = self.call("skills::register", {"id": skill_id, "skill": body})
        self.checks.keys(answer, ["id", "registered_at"], [], "skills::register")
        self.checks.equal(answer["id"], skill_id, "skills::register: id")
        return instant(answer["registered_at"])

    def register_prompt(self, name=PROMPT, function_id="python::greet", arguments=ARGUMENTS):
        prompt = {"name": name, "description": "Greets.", "arguments": arguments, "function_id": function_id}
        answer = self.call("prompts::register", prompt)
        self.checks.keys(answer, ["name", "registered_at"], [], "prompts::register")
        self.checks.equal(answer["name"], name, "prompts::register: name")
        return instant(answer["registered_at"])

    # The phases.

    def write(self):
        self.register_functions()
        self.subscribe()
        self.check_registration()
        self.check_listings()
        self.check_envelopes()
        self.check_reads()
        self.check_prompts()
        self.check_errors()
        self.check_removal()
        self.check_events()
        self.check_state()
        self.check_introspection()
        self.check_no_late_events()

    def read_again(self):
        self.checks.equal(self.read(f"iii://{SKILL}"), ("text/markdown", BODY), "body after the restart")
        self.checks.equal(names(self.call("prompts::list"), "prompts", "name"), [PROMPT], "prompts after the restart")
        kept = self.call("state::get", {"scope": SCOPE, "key": "kept"})
        self.checks.equal(kept, {"n": 1}, "state after the restart")
        self.checks.equal(self.call("state::delete", {"scope": SCOPE, "key": "kept"}), {"n": 1}, "state::delete")
        guide = {"uri": f"iii://{SKILL}/python::guide"}
        self.refuses("skills::resources-read", guide, "python::guide", "section of a worker that is gone")

        self.register_functions()
        self.check_sections()
        self.checks.equal(self.render(PROMPT, who="Ada"), user_says("Greet Ada."), "prompt after the restart")

        self.unregister("skills", "id", SKILL, removed=True)
        self.unregister("prompts", "name", PROMPT, removed=True)
        self.checks.equal(self.call("skills::list"), {"skills": []}, "skills at the end")
        self.checks.equal(self.call("prompts::list"), {"prompts": []}, "prompts at the end")
        self.refuses("skills::resources-read", {"uri": f"iii://{SKILL}"}, "not found", "a removed skill")

    def stay(self):
        self.register_functions()
        self.subscribe()
        self.register_skill()
        self.checks.equal(self.skill_events.wait_for(1), [registered("id", SKILL)], "event before the restart")
        print("ready", flush=True)
        sys.stdin.readline()

        section = eventually(lambda: self.read(f"iii://{SKILL}/python::guide"))
        self.checks.equal(section, ("text/markdown", GUIDE), "section after reconnecting")
        self.register_skill()
        self.unregister("skills", "id", SKILL, removed=True)
        wanted = [registered("id", SKILL), registered("id", SKILL), unregistered("id", SKILL)]
        self.checks.equal(self.skill_events.wait_for(len(wanted)), wanted, "events after reconnecting")

    # The parts of `write`.

    def check_registration(self):
        first, second = self.register_skill(), self.register_skill()
        self.checks.that(second > first, f"skills::register again: {second} is not later than {first}")
        first, second = self.register_prompt(), self.register_prompt()
        self.checks.that(second > first, f"prompts::register again: {second} is not later than {first}")
        self.register_skill(SPARE, "# Spare\n\nGone soon.\n")
        self.register_prompt(CHAT, "python::chat", [])

    def check_listings(self):
        rows = self.call("skills::list")["skills"]
        self.checks.equal([row["id"] for row in rows], [SKILL, SPARE], "skills::list")
        self.checks.keys(rows[0], ["id", "bytes", "registered_at"], [], "skills::list row")
        self.checks.equal(rows[0]["bytes"], len(BODY.encode()), "skills::list bytes")

        rows = self.call("prompts::list")["prompts"]
        self.checks.equal([row["name"] for row in rows], [CHAT, PROMPT], "prompts::list")
        self.checks.keys(rows[1], ["name", "function_id", "arguments", "registered_at"], [], "prompts::list row")
        self.checks.equal((rows[1]["function_id"], rows[1]["arguments"]), ("python::greet", 2), "prompts::list row")

    def check_envelopes(self):
        envelope = self.call("skills::resources-list")
        self.checks.keys(envelope, ["resources"], [], "resources-list")
        resources = {resource["uri"]: resource for resource in envelope["resources"]}
        self.checks.equal(sorted(resources), ["iii://" + SKILL, "iii://" + SPARE, "iii://skills"], "resources-list")
        for resource in resources.values():
            self.checks.keys(resource, ["uri", "name", "mimeType"], ["title", "description", "size"], "resource")
            self.checks.equal(resource["mimeType"], "text/markdown", "resource mimeType")
        resource = resources["iii://" + SKILL]
        self.checks.equal(resource.get("title", TITLE), TITLE, "resource title")
        self.checks.equal(resource.get("description", DESCRIPTION), DESCRIPTION, "resource description")
        self.checks.equal(resource.get("size", len(BODY.encode())), len(BODY.encode()), "resource size")

        envelope = self.call("skills::resources-templates")
        self.checks.keys(envelope, ["resourceTemplates"], [], "resources-templates")
        self.checks.that(envelope["resourceTemplates"], "resources-templates is empty")
        for template in envelope["resourceTemplates"]:
            self.checks.keys(template, ["uriTemplate", "name", "description", "mimeType"], [], "template")
            self.checks.that(template["uriTemplate"].startswith("iii://{"), f"template {template}")

        envelope = self.call("prompts::mcp-list")
        self.checks.keys(envelope, ["prompts"], [], "mcp-list")
        prompts = {prompt["name"]: prompt for prompt in envelope["prompts"]}
        wanted = [{"name": "who", "description": "Who to greet", "required": True}, {"name": "tone", "required": False}]
        self.checks.equal(prompts[PROMPT], {"name": PROMPT, "description": "Greets.", "arguments": wanted}, "mcp-list")

    def check_reads(self):
        mime, index = self.read("iii://skills")
        self.checks.equal(mime, "text/markdown", "index mimeType")
        for words in [TITLE, DESCRIPTION, f"iii://{SKILL}", f"iii://{SPARE}"]:
            self.checks.that(words in index, f"the index lacks {words!r}:\n{index}")
        self.checks.equal(self.read(f"iii://{SKILL}"), ("text/markdown", BODY), "body")
        self.check_sections()

    def check_sections(self):
        pretty = json.dumps(FACTS, indent=2, ensure_ascii=False)
        self.checks.equal(self.read(f"iii://{SKILL}/python::guide"), ("text/markdown", GUIDE), "section {content}")
        self.checks.equal(self.read(f"iii://{SKILL}/python::plain"), ("text/markdown", PLAIN), "section string")
        self.checks.equal(self.read(f"iii://{SKILL}/python::facts"), ("application/json", pretty), "section object")

    def check_prompts(self):
        self.checks.equal(self.render(PROMPT, who="Ada"), user_says("Greet Ada."), "mcp-get")
        self.checks.equal(self.render(PROMPT), user_says("Greet world."), "mcp-get without arguments")
        self.checks.equal(self.render(CHAT), CHAT_MESSAGES, "mcp-get of {messages}")

    def check_errors(self):
        skill = {"id": "x", "skill": "x"}
        bad_id, no_body = skill | {"id": "No Good"}, skill | {"skill": ""}
        self.refuses("skills::register", bad_id, "lowercase", "invalid id")
        self.refuses("skills::register", no_body, "skill must be non-empty", "empty body")

        prompt = {"name": "x", "description": "d", "function_id": "f"}
        bad_name, blank = prompt | {"name": "No Good"}, prompt | {"description": " "}
        twice = prompt | {"arguments": [{"name": "a"}, {"name": "a"}]}
        self.refuses("prompts::register", bad_name, "lowercase", "invalid name")
        self.refuses("prompts::register", blank, "description must be non-empty", "blank description")
        self.refuses("prompts::register", twice, "duplicate argument name", "argument twice")

        self.refuses("prompts::mcp-get", {"name": "python-nobody"}, "not found", "unknown prompt")
        for path, words in [
            ("python-nobody", "not found"),
            (f"{SKILL}/state::get", "internal namespace"),
            (f"{SKILL}/python::absent", "python::absent"),
            (f"{SKILL}/python::broken", "deliberately broken"),
        ]:
            self.refuses("skills::resources-read", {"uri": f"iii://{path}"}, words, path)

    def refuses(self, function_id, payload, words, what):
        self.checks.fails(lambda: self.call(function_id, payload), words, what)

    def check_removal(self):
        self.unregister("skills", "id", SPARE, removed=True)
        self.unregister("skills", "id", SPARE, removed=False)
        self.unregister("prompts", "name", CHAT, removed=True)
        self.unregister("prompts", "name", CHAT, removed=False)

    def unregister(self, kind, key, value, removed):
        answer = self.call(f"{kind}::unregister", {key: value})
        self.checks.equal(answer, {key: value, "removed": removed}, f"{kind}::unregister")

    def check_events(self):
        # One more change of each kind: events arrive in order, so all earlier ones have arrived with it.
        self.register_skill()
        self.register_prompt()
        self.wanted_skill_events = [
            registered("id", SKILL),
            registered("id", SKILL),
            registered("id", SPARE),
            unregistered("id", SPARE),
            registered("id", SKILL),
        ]
        self.wanted_prompt_events = [
            registered("name", PROMPT),
            registered("name", PROMPT),
            registered("name", CHAT),
            unregistered("name", CHAT),
            registered("name", PROMPT),
        ]
        self.checks.equal(self.skill_events.wait_for(5), self.wanted_skill_events, "skills::on-change")
        self.checks.equal(self.prompt_events.wait_for(5), self.wanted_prompt_events, "prompts::on-change")

    def check_no_late_events(self):
        self.checks.equal(self.skill_events.wait_for(5), self.wanted_skill_events, "skills::on-change, later")
        self.checks.equal(self.prompt_events.wait_for(5), self.wanted_prompt_events, "prompts::on-change, later")

    def check_state(self):
        equal, call = self.checks.equal, self.call
        item = {"scope": SCOPE, "key": "k"}
        equal(call("state::get", item), None, "state::get of nothing")
        equal(call("state::set", item | {"value": [1]}), {"old_value": None, "new_value": [1]}, "state::set")
        equal(call("state::set", item | {"value": "two"}), {"old_value": [1], "new_value": "two"}, "state::set again")
        equal(call("state::get", item), "two", "state::get")
        equal(call("state::list", {"scope": SCOPE}), ["two"], "state::list")
        equal(call("state::delete", item), "two", "state::delete")
        equal(call("state::list", {"scope": SCOPE}), [], "state::list of nothing")
        call("state::set", {"scope": SCOPE, "key": "kept", "value": {"n": 1}})

    def check_introspection(self):
        rows = self.call("engine::functions::list")["functions"]
        functions = {row["function_id"]: row for row in rows}
        self.checks.that("python::guide" in functions, "engine::functions::list lacks python::guide")
        register = functions.get("skills::register")
        self.checks.that(register, "engine::functions::list lacks skills::register")
        self.checks.equal(register["request_format"]["title"], "RegisterSkillInput", "schema of skills::register")


def broken(_input):
    raise ValueError("deliberately broken")


def greet(arguments):
    return {"content": f"Greet {arguments.get('who', 'world')}."}


def user_says(text):
    return [{"role": "user", "content": {"type": "text", "text": text}}]


def registered(key, value):
    return {"op": "register", key: value}


def unregistered(key, value):
    return {"op": "unregister", key: value}


def names(listing, kind, key):
    return [row[key] for row in listing[kind]]


def instant(text):
    """Converts an RFC 3339 timestamp in UTC to a sortable value with nanoseconds."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|\+00:00)", text)
    if not match:
        raise AssertionError(f"not an RFC 3339 instant in UTC: {text!r}")
    return match[1], (match[2] or "").ljust(9, "0")


def eventually(attempt):
    """Returns the first result of `attempt` that is not an error, within the deadline."""
    end = time.monotonic() + DEADLINE
    while True:
        try:
            return attempt()
        except Exception:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def main():
    phase, url = sys.argv[1:]
    client = Client(url)
    try:
        {"write": client.write, "read": client.read_again, "stay": client.stay}[phase]()
    finally:
        client.worker.shutdown()
    print(f"checks {client.checks.count}")


if __name__ == "__main__":
    main()
