"""Clients of three servers: writers, whose writes a model knows, and readers, which must never be refused.

Each has a loopback address of its own, by which the balancer knows to which server it is connected. A connection may break
only because that server was killed.
"""

import itertools
import json
import random
import threading
import time

from attack.client import Gone, Mcp, Worker, http

from postgres.server import ADMIN

# Longer than any time limit of the server.
ANSWER_SECONDS = 40
# Clients come and go, so that servers that were restarted get their share.
WRITES_PER_CONNECTION = 40
DOCUMENT = "# Always\n\nThere."
BROKEN = (OSError, Gone, ValueError, IndexError)

SOURCES = (f"127.1.{number >> 8}.{number & 255}" for number in itertools.count(1))


class Client:
    """Writes through a server or a balancer, and records each write in the model."""

    def __init__(self, front, model):
        self.front, self.model, self.source = front, model, next(SOURCES)
        self.worker, self.alive, self.count = None, time.monotonic(), itertools.count(1)
        self.problems = []

    def body(self, skill):
        return f"# {skill}\n\nNumber {next(self.count)} of {self.source}."

    def register(self, skill):
        body, started = self.body(skill), time.monotonic()
        _, error = self.call("skills::register", {"id": skill, "skill": body})
        self.model.record(skill, body, started, error)
        return error

    def unregister(self, skill):
        started = time.monotonic()
        result, error = self.call("skills::unregister", {"id": skill})
        self.model.record(skill, None, started, error, removed=error is None and result["removed"])
        return error

    def increment(self):
        update = [{"type": "increment", "path": "n", "by": 1}]
        _, error = self.call("state::update", {"scope": "counters", "key": "all", "ops": update})
        self.model.record_increment(error)
        return error

    def publish(self, skill):
        body, started = self.body(skill), time.monotonic()
        _, error = self.send("POST", "/v1/admin/sync_skill",
                             {"user_uid": "ann", "skill_name": skill, "status": "official", "manifest": body})
        self.model.record(skill, body, started, error)
        return error

    def send(self, method, path, body=None):
        """Sends a request of the administrator. Returns the answer and None, or None and the error."""
        started, data = time.monotonic(), None if body is None else json.dumps(body).encode()
        headers = [("Authorization", f"Bearer {ADMIN}"), ("Content-Type", "application/json")]
        try:
            answer = http(f"http://{self.front.http}", method, path, headers, data, self.source, ANSWER_SECONDS)
        except BROKEN as problem:
            self.broke("http", started, problem)
            return None, {"code": "sent"}
        # One that a killed server did not finish is none.
        said = answer.json() or {"code": "sent"}
        return (said, None) if answer.status in (200, 201) else (None, said)

    def register_new(self, prefix, seconds=60):
        """Registers a skill that did not exist. Returns its id once that is acknowledged."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            skill = f"{prefix}-{next(self.count)}"
            if self.register(skill) is None:
                return skill
            time.sleep(0.05)
        raise AssertionError(f"{prefix} cannot be registered")

    def call(self, function, data):
        """Calls a function on the bus, on a new connection if there is none."""
        try:
            if self.worker is None or self.worker.is_gone:
                self.alive = time.monotonic()
                self.worker = Worker(f"ws://{self.front.bus}", source=self.source)
            result, error = self.worker.call(function, data, seconds=ANSWER_SECONDS)
        except BROKEN as problem:
            result, error = None, {"code": "gone", "message": str(problem)}
        if error and error.get("code") in ("gone", "no answer"):
            self.broke("bus", self.alive, error)
            self.hang_up()
        self.alive = time.monotonic()
        return result, error

    def broke(self, surface, since, problem):
        is_silent = isinstance(problem, TimeoutError) or "no answer" in str(problem)
        if is_silent or not self.front.may_break(surface, self.source, since):
            self.problems.append(f"{self.source} lost its connection to {surface} of a server that ran: {problem!r}")

    def hang_up(self):
        if self.worker:
            self.worker.close()
        self.worker = None


class Writer(threading.Thread):
    """Writes to entries of its own over the bus and HTTP, and to a counter that all writers share."""

    def __init__(self, front, number, model, seed, stop):
        super().__init__(daemon=True)
        self.client, self.number, self.stop = Client(front, model), number, stop
        self.random = random.Random(f"writer {number} of {seed}")

    def run(self):
        for count in itertools.count(1):
            if self.stop.is_set():
                return
            if self.write() is not None:
                time.sleep(0.05)
            if count % WRITES_PER_CONNECTION == 0:
                self.client.hang_up()

    def write(self):
        skill = f"w{self.number}-{self.random.randrange(6)}"
        kind = self.random.randrange(10)
        if kind < 5:
            return self.client.register(skill)
        if kind < 6:
            return self.client.unregister(skill)
        if kind < 8:
            return self.client.publish(f"{skill}-http")
        return self.client.increment()


class Reader(threading.Thread):
    """Reads over MCP, HTTP and the bus, which must work whatever the database does.

    MCP requests are of the revision without sessions: each may go to another server.
    """

    def __init__(self, front, stop):
        super().__init__(daemon=True)
        self.front, self.stop, self.source = front, stop, next(SOURCES)
        self.reads, self.degraded, self.broken, self.problems = 0, 0, 0, []

    def requests(self):
        """Returns requests with a text that their answers contain."""
        url = f"http://{self.front.http}"
        mcp = Mcp(url, source=self.source)
        yield lambda: mcp.read("skill://always/SKILL.md"), b"There."
        yield lambda: mcp.tool("read_skill", {"uri": "iii://always"}), b"There."
        yield lambda: mcp.ask("resources/list", {}), b"iii://always"
        for path, text in (("/.well-known/agent-skills/always/SKILL.md", b"There."), ("/v1/skills/always", b"There."),
                           ("/v1/skills", b'"always"')):
            yield lambda path=path: http(url, "GET", path, source=self.source), text

    def run(self):
        requests = list(self.requests())
        for number in itertools.count():
            if self.stop.is_set():
                return
            started = time.monotonic()
            try:
                if number % (len(requests) + 1) == len(requests):
                    self.read_on_bus()
                else:
                    ask, text = requests[number % (len(requests) + 1)]
                    self.check(started, ask(), text)
                self.reads += 1
            except BROKEN as problem:
                self.broke("http", started, problem)
            time.sleep(0.02)

    def check(self, started, answer, text):
        self.degraded += answer.header("x-skills-catalog-age") is not None
        if answer.status != 200:
            self.problems.append(f"a read was answered with {answer.status} {answer.body[:300]}")
        elif text not in answer.body:
            # An answer that a killed server did not finish, or a wrong one.
            self.broke("http", started, answer.body[-300:])

    def read_on_bus(self):
        started = time.monotonic()
        try:
            worker = Worker(f"ws://{self.front.bus}", source=self.source)
            result, error = worker.call("skills::resources-read", {"uri": "iii://always"}, seconds=ANSWER_SECONDS)
            worker.close()
        except BROKEN as problem:
            result, error = None, {"code": "gone", "message": str(problem)}
        if error and error.get("code") == "gone":
            self.broke("bus", started, error)
        elif error or result["contents"][0]["text"] != DOCUMENT:
            self.problems.append(f"a read on the bus was answered with {error or result}")

    def broke(self, surface, since, problem):
        self.broken += 1
        if isinstance(problem, TimeoutError) or not self.front.may_break(surface, self.source, since):
            self.problems.append(f"a read over {surface} broke at a server that ran: {problem!r}")
