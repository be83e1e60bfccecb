"""Worker with the content that `expectations.json` expects."""

from worker import says, serve, text

PAGES = 120
GUIDE = "# Interop guide\n\nWhat the clients read.\n\nMore: iii://interop-guide/interop::section\n"
SECTION = "# Section\n\nFrom a function.\n"

ECHO_SCHEMA = {"type": "object", "properties": {"words": {"type": "string"}}, "required": ["words"]}
CHANGE_SCHEMA = {
    "type": "object",
    "properties": {
        "kind": {"type": "string", "enum": ["skill", "prompt", "tool"]},
        "id": {"type": "string"},
        "body": {"type": "string", "description": "of a skill; without it the thing is removed"},
    },
    "required": ["kind", "id"],
}


def register(worker):
    worker.function("interop::section", lambda _input: {"content": SECTION})
    worker.skill("interop-guide", GUIDE)
    for number in range(PAGES):
        worker.skill(f"interop-page-{number:03}", f"# Page {number}\n\nOne of many.\n")
    worker.prompt("interop-greet", greet, "Greets somebody.", GREET_ARGUMENTS)
    worker.tool("interop::echo", echo, "Says it again.", ECHO_SCHEMA)
    worker.tool("interop::facts", lambda _input: {"answer": 42}, "Facts as JSON.")
    worker.tool("interop::fail", fail, "Always fails.")
    worker.tool("interop::change", changer(worker), "Changes what is registered.", CHANGE_SCHEMA)


GREET_ARGUMENTS = [
    {"name": "who", "description": "Who to greet", "required": True},
    {"name": "tone", "description": "How to sound"},
]


def greet(given):
    return says(text(f"Greet {given['who']} in a {given.get('tone', 'plain')} tone."))


def echo(given):
    return {"content": [text(given["words"])], "structuredContent": {"words": given["words"]}}


def fail(_input):
    raise RuntimeError("deliberately broken")


def changer(worker):
    """Changes the registry on a tool call, so that clients know when to expect the change."""
    tools = {}

    def change(given):
        kind, name, body = given["kind"], given["id"], given.get("body")
        if kind == "skill":
            if body:
                worker.skill(name, body)
            else:
                worker.call("skills::unregister", {"id": name})
        elif kind == "prompt":
            if body:
                worker.register_prompt(name, "fixture::prompt-interop-greet", arguments=GREET_ARGUMENTS)
            else:
                worker.call("prompts::unregister", {"name": name})
        elif body:
            tools[name] = worker.tool(name, echo, body, ECHO_SCHEMA)
        else:
            tools.pop(name).unregister()
        return "changed"

    return change


serve(register)
