"""Three servers on one PostgreSQL under faults, with a model that knows every acknowledged write.

Writers register and remove skills and increment counters over the bus and HTTP, on all servers at once. Every body is
unique. Meanwhile connections are cut, delayed and swallowed, backends and servers are killed, and PostgreSQL is
killed and restarted. In the end:

- every acknowledged write is there, and no write that failed with certainty
- no write is there twice, and revisions have no gap
- all servers list the same
- a subscriber saw every change once and in the order of the log
- reads never failed on a server that ran
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from attack.client import Gone, Mcp, Worker, http  # noqa: E402
from ports import free_port  # noqa: E402
from postgres.database import INSTALL, Database, Proxy, programs  # noqa: E402

SERVERS = 3
WAIT_SECONDS = 60
ADMIN = "an-administrator-of-the-interop-tests"


def wait_for(what, condition, seconds=WAIT_SECONDS):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if condition():
                return
        except (OSError, Gone, ValueError):
            pass
        time.sleep(0.05)
    raise AssertionError(f"it never came true: {what}")


class Server:
    """One of the servers, behind a proxy of its own."""

    def __init__(self, program, database, number, folder, store=None, config=None):
        self.program, self.number, self.config = program, number, config
        self.bus, self.http = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self.proxy = Proxy(free_port(), database.port)
        self.store = store or database.url(self.proxy.port)
        self.dir = os.path.join(folder, f"server-{number}")
        self.log = open(os.path.join(folder, f"server-{number}.log"), "ab")
        self.process = None

    def start(self):
        command = [self.program, "serve", "--bus", self.bus, "--http", self.http, "--data-dir", self.dir]
        if self.config:
            path = self.dir + ".yaml"
            with open(path, "w") as file:
                file.write(self.config)
            command += ["--config", path]
        environment = {**os.environ, "SKILLS_STORE": self.store, "ADMIN_KEY": ADMIN}
        self.process = subprocess.Popen(command, stderr=self.log, env=environment, cwd=os.path.dirname(self.dir))
        wait_for(f"server {self.number} is ready", self.is_ready)

    def ready(self):
        return http(f"http://{self.http}", "GET", "/readyz", seconds=5)

    def is_ready(self):
        return self.ready().json().get("status") == "ready"

    def kill(self):
        self.process.kill()
        self.process.wait()

    def worker(self):
        return Worker(f"ws://{self.bus}")


class Model:
    """Contents that an entry may have, and counters."""

    def __init__(self):
        self.lock = threading.Lock()
        self.allowed = {}      # id: contents that it may have now; None for none
        self.stored = set()    # bodies that were acknowledged
        self.refused = set()   # bodies that were certainly not stored
        self.counted, self.unsure = 0, 0
        self.acknowledged, self.failed, self.unknown = 0, 0, 0
        self.codes = {}        # number of certain failures by code

    def result(self, skill, body, error):
        with self.lock:
            if error is None:
                self.allowed[skill] = {body}
                self.acknowledged += 1
                self.stored.update([body] if body else [])
            elif is_unknown(error):
                self.allowed.setdefault(skill, {None}).add(body)
                self.unknown += 1
            else:
                self.failed += 1
                self.codes[error.get("code")] = self.codes.get(error.get("code"), 0) + 1
                self.refused.update([body] if body else [])


def is_unknown(error):
    """Returns whether a write may have happened: the server died, or says that it does not know."""
    said = json.dumps(error)
    return error.get("code") in ("gone", "no answer", "outcome_unknown", "sent") or "may or may not" in said \
        or "unknown" in said


class Writer(threading.Thread):
    """Writes to entries of its own through one server, and to a counter that all share."""

    def __init__(self, server, number, model, stop):
        super().__init__(daemon=True)
        self.server, self.number, self.model, self.stop = server, number, model, stop
        self.worker, self.count = None, 0
        self.random = random.Random(number)

    def run(self):
        while not self.stop.is_set():
            try:
                if self.worker is None or self.worker.is_gone:
                    self.worker = self.server.worker()
                before = self.model.failed
                self.write()
                if self.model.failed > before:
                    time.sleep(0.05)
            except (OSError, Gone):
                self.worker = None
                time.sleep(0.05)

    def write(self):
        self.count += 1
        skill = f"w{self.number}-{self.random.randrange(6)}"
        body = f"# {skill}\n\nNumber {self.count} of writer {self.number}."
        kind = self.random.randrange(10)
        if kind < 5:
            self.model.result(skill, body, self.call("skills::register", {"id": skill, "skill": body}))
        elif kind < 6:
            self.model.result(skill, None, self.call("skills::unregister", {"id": skill}))
        elif kind < 8:
            self.model.result(f"{skill}-http", body, self.publish(f"{skill}-http", body))
        else:
            update = [{"type": "increment", "path": "n", "by": 1}]
            error = self.call("state::update", {"scope": "counters", "key": "all", "ops": update})
            with self.model.lock:
                if error is None:
                    self.model.counted += 1
                elif is_unknown(error):
                    self.model.unsure += 1

    def call(self, function, data):
        try:
            return self.worker.call(function, data, seconds=40)[1]
        except OSError:
            return {"code": "sent"}

    def publish(self, skill, body):
        request = json.dumps({"user_uid": "ann", "skill_name": skill, "status": "official", "manifest": body}).encode()
        headers = [("Authorization", f"Bearer {ADMIN}"), ("Content-Type", "application/json")]
        try:
            answer = http(f"http://{self.server.http}", "POST", "/v1/admin/sync_skill", headers, request, seconds=40)
        except ConnectionRefusedError:
            return {"code": "refused"}
        except (OSError, Gone, ValueError, IndexError):
            return {"code": "sent"}
        return None if answer.status == 200 else answer.json() or {"code": "sent"}


class Reader(threading.Thread):
    """Reads a skill over MCP and HTTP, which must work whatever the database does."""

    def __init__(self, server, stop):
        super().__init__(daemon=True)
        self.server, self.stop = server, stop
        self.reads, self.degraded, self.problems = 0, 0, []

    def run(self):
        while not self.stop.is_set():
            try:
                answer = Mcp(f"http://{self.server.http}").read("skill://always/SKILL.md")
                if answer.status != 200:
                    self.problems.append((answer.status, answer.body[:200]))
                self.degraded += answer.header("x-skills-catalog-age") is not None
                self.reads += 1
            except (OSError, Gone, ValueError, IndexError):
                pass  # The server is being killed.
            time.sleep(0.02)


def subscribe(server):
    """Subscribes to the changes of skills. Returns the list that they are added to."""
    seen = []
    worker = server.worker()
    worker.serve("interop::changes", lambda change: seen.append((change["op"], change["id"])))
    worker.socket.send({"type": "registertrigger", "id": "interop", "trigger_type": "skills::on-change",
                        "function_id": "interop::changes", "config": {}})
    worker.call("engine::workers::list")
    return worker, seen


def fault(database, servers, chance):
    """Causes one fault and repairs it. Returns its name."""
    server = chance.choice(servers)
    kind = chance.choice(["cut", "cut", "delay", "blackhole", "terminate", "terminate", "kill server", "restart",
                          "kill database"])
    if kind == "cut":
        server.proxy.cut()
        time.sleep(chance.uniform(0.1, 1))
        server.proxy.heal()
    elif kind == "delay":
        server.proxy.mode = "delay"
        time.sleep(chance.uniform(0.2, 1))
        server.proxy.heal()
    elif kind == "blackhole":
        server.proxy.mode = "blackhole"
        time.sleep(chance.uniform(0.2, 1.5))
        # What was swallowed is lost with its connections.
        server.proxy.cut()
        server.proxy.heal()
    elif kind == "terminate":
        database.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                     "AND backend_type = 'client backend'")
    elif kind == "kill server":
        server = chance.choice(servers[1:])  # The subscriber of the first one sees everything.
        server.kill()
        server.start()
    elif kind == "restart":
        database.restart_immediately()
    else:
        database.kill()
    return kind


def check(database, servers, model, seen, readers):
    """Compares the database, the catalogs, the subscriber and the readers with the model."""
    problems = []
    wait_for("all servers are ready", lambda: all(server.is_ready() for server in servers))
    # Commits in flight when a server was killed are over when its sessions are.
    (revision, count), = database.sql("SELECT head.revision, (SELECT count(*) FROM change) FROM head")
    if revision != count:
        problems.append(f"revision {revision}, but {count} changes")
    doubled = database.sql("SELECT kind, id, version, count(*) FROM change WHERE action = 'put' "
                           "GROUP BY 1, 2, 3 HAVING count(*) > 1")
    problems += [f"written twice: {row}" for row in doubled]

    bodies = database.sql("SELECT encode(b.bytes, 'hex') FROM blob b")
    bodies = {bytes.fromhex(row[0]).decode() for row in bodies}
    problems += [f"lost: {body!r}" for body in model.stored - bodies]
    problems += [f"stored although refused: {body!r}" for body in model.refused & bodies]

    served = {row[0]: bytes.fromhex(row[1]).decode() for row in database.sql(
        "SELECT e.id, encode(b.bytes, 'hex') FROM entry e JOIN blob_use u ON u.entry = e.number AND u.version = "
        "e.served JOIN blob b ON b.digest = u.digest WHERE e.kind = 'skill'")}
    for skill, allowed in model.allowed.items():
        if served.get(skill) not in allowed:
            problems.append(f"{skill} is {served.get(skill)!r}, not one of {allowed}")

    value = database.sql("SELECT value FROM state WHERE scope = 'counters' AND key = 'all'")
    number = json.loads(value[0][0])["n"] if value else 0
    if not model.counted <= number <= model.counted + model.unsure:
        problems.append(f"the counter is {number}, not {model.counted} to {model.counted + model.unsure}")

    def listing(server):
        rows, error = server.worker().call("skills::list", {})
        assert error is None, error
        return {row["id"]: row for row in rows["skills"]}

    wait_for("all servers list the same", lambda: len({json.dumps(listing(s), sort_keys=True) for s in servers}) == 1)
    if set(listing(servers[0])) != set(served):
        problems.append("the servers list other skills than the database has")

    log = database.sql("SELECT CASE WHEN served IS NULL THEN 'unregister' ELSE 'register' END, id FROM change "
                       "WHERE kind = 'skill' AND id <> 'always' ORDER BY revision")
    log = [tuple(row) for row in log]
    wait_for("the subscriber saw all changes", lambda: len(seen) >= len(log))
    if seen != log:
        at = next((i for i, pair in enumerate(zip(seen, log)) if pair[0] != pair[1]), min(len(seen), len(log)))
        problems.append(f"the subscriber saw {len(seen)} of {len(log)} changes, and differs from number {at}: "
                        f"{seen[at:at + 3]} for {log[at:at + 3]}")
    for number, reader in enumerate(readers):
        problems += [f"server {number} did not answer a read: {problem}" for problem in reader.problems[:3]]
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SKILLS_TEST_SEED", time.time())))
    options = parser.parse_args()
    if not programs():
        sys.exit(f"interop needs PostgreSQL 15 or newer. On Debian:\n\n    {INSTALL}\n")
    print(f"faults: seed {options.seed}")
    chance = random.Random(options.seed)
    folder = tempfile.mkdtemp(prefix="skills-replicas-")
    database = Database(free_port())
    servers = [Server(options.server, database, number, folder) for number in range(SERVERS)]
    counts, stop, model = {}, threading.Event(), Model()
    is_good = False
    try:
        for server in servers:
            server.start()
        worker = servers[0].worker()
        assert worker.register("always", "# Always\n\nThere.") is None
        for server in servers:
            wait_for("the skill is everywhere", lambda s=server: s.worker().call("skills::show", {"id": "always"})[1]
                     is None or Mcp(f"http://{s.http}").read("skill://always/SKILL.md").status == 200)
        subscriber, seen = subscribe(servers[0])
        readers = [Reader(server, stop) for server in servers]
        writers = [Writer(server, 2 * server.number + i, model, stop) for server in servers for i in range(2)]
        for thread in readers + writers:
            thread.start()
        started = time.monotonic()
        rounds = 0
        while rounds < options.rounds and time.monotonic() - started < options.seconds:
            before = model.acknowledged
            kind = fault(database, servers, chance)
            counts[kind] = counts.get(kind, 0) + 1
            wait_for("writes go on", lambda: model.acknowledged > before + 3)
            rounds += 1
        stop.set()
        for thread in readers + writers:
            thread.join(60)
        problems = check(database, servers, model, seen, readers)
        print(f"faults: {rounds} rounds in {time.monotonic() - started:.0f} s: "
              + ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items())))
        print(f"faults: {model.acknowledged} writes acknowledged, {model.failed} refused {model.codes}, {model.unknown} unknown; "
              f"{sum(reader.reads for reader in readers)} reads, {sum(reader.degraded for reader in readers)} degraded; "
              f"{len(seen)} changes seen by the subscriber")
        for problem in problems[:20]:
            print(f"faults: {problem}")
        is_good = not problems and rounds >= options.rounds
        if rounds < options.rounds:
            print(f"faults: only {rounds} of {options.rounds} rounds in {options.seconds} s")
    finally:
        for server in servers:
            if server.process:
                server.process.kill()
        database.stop()
        if is_good:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"faults: logs in {folder}")
    sys.exit(not is_good)


if __name__ == "__main__":
    main()
