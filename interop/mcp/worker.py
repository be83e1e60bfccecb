"""Shared by the fixture workers: one connection to the bus, and helpers to register on it.

    worker_*.py URL

prints `ready` when everything is registered, and ends when its standard input does.
"""

import sys

from iii import register_worker

TIMEOUT_MS = 10_000


class Worker:
    def __init__(self, url):
        self.connection = register_worker(url)

    def call(self, function_id, payload):
        return self.connection.trigger({"function_id": function_id, "payload": payload, "timeout_ms": TIMEOUT_MS})

    def function(self, function_id, handler):
        self.connection.register_function(function_id, handler)

    def tool(self, function_id, handler, description="A function of the fixture.", schema=None):
        """Registers a function that MCP clients see as a tool; `unregister()` of the result removes it."""
        return self.connection.register_function(
            function_id,
            handler,
            description=description,
            metadata={"mcp": {"expose": True}},
            request_format=schema or {"type": "object", "properties": {}},
        )

    def skill(self, skill_id, body, files=None):
        self.call("skills::register", {"id": skill_id, "skill": body, "files": files or {}})

    def prompt(self, name, handler, description="A prompt of the fixture.", arguments=()):
        function_id = f"fixture::prompt-{name}"
        self.function(function_id, handler)
        self.register_prompt(name, function_id, description, arguments)

    def register_prompt(self, name, function_id, description="A prompt of the fixture.", arguments=()):
        prompt = {"name": name, "description": description, "arguments": list(arguments), "function_id": function_id}
        self.call("prompts::register", prompt)


def serve(register):
    worker = Worker(sys.argv[1])
    register(worker)
    print("ready", flush=True)
    sys.stdin.read()
    worker.connection.shutdown()


def text(words):
    return {"type": "text", "text": words}


def says(*contents):
    return {"messages": [{"role": "user", "content": content} for content in contents]}
