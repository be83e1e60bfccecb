"""Three servers on one PostgreSQL under faults, behind a round-robin balancer, with a model that knows every write.

Writers register and remove skills and increment counters over the bus and HTTP, others create and revoke keys and set
secrets over HTTP; readers read over MCP, HTTP and the bus. All connect to the balancer alone. Meanwhile connections to the database are cut, delayed and swallowed, backends
and servers are killed, servers hang, and PostgreSQL is killed and restarted. In the end:

- every acknowledged write is there, once and in its order, and no write that failed with certainty (`model.py`)
- no write is there twice, and revisions have no gap
- every server accepts the keys that were created, refuses those that were revoked, and has the same secrets (`accounts.py`)
- all servers list the same on the bus, over HTTP and over MCP, with equal ETags, and that is what the database has
  (`catalogs.py`)
- a subscriber of each server saw every change once and in the order of the log, while its server lived
  (`subscribers.py`)
- no read was refused, and no connection broke but those to a server that was killed at that moment (`traffic.py`)
- no server that hung kept another one from writing for longer than the time limit of its lock
"""

import argparse
import concurrent.futures
import os
import random
import shutil
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from attack.client import http  # noqa: E402
from ports import free_port  # noqa: E402
from postgres.accounts import AccountWriter, check_accounts  # noqa: E402
from postgres.balancer import Balancer  # noqa: E402
from postgres.catalogs import check_catalogs  # noqa: E402
from postgres.database import INSTALL, Database, programs  # noqa: E402
from postgres.model import Model, served_bodies  # noqa: E402
from postgres.server import Server, wait_for  # noqa: E402
from postgres.servers import MASTER  # noqa: E402
from postgres.subscribers import Subscribers  # noqa: E402
from postgres.traffic import DOCUMENT, Client, Reader, Writer  # noqa: E402

SERVERS = 3
WRITERS = 6
ACCOUNT_WRITERS = 2
READERS = 3
KINDS = ["cut", "cut", "delay", "blackhole", "terminate", "terminate", "kill servers", "kill servers", "hang", "restart",
         "kill database", "two at once", "two at once", "two at once"]
# A hanging server loses its lock after five seconds; one more for the write itself.
LOCK_SECONDS = 6


class Cluster:
    """The servers with their database, and the faults that happen to them."""

    def __init__(self, program, folder, seed):
        self.random = random.Random(seed)
        self.database = Database(free_port())
        self.servers = [Server(program, self.database, number, folder) for number in range(SERVERS)]
        self.model, self.counts, self.problems = Model(), {}, []
        self.longest_wait = 0

    def start(self):
        self.start_servers(self.servers)
        self.balancer = Balancer(self.servers)
        started = time.monotonic()
        assert self.servers[0].worker().register("always", DOCUMENT) is None
        self.model.record("always", DOCUMENT, started, None)
        for server in self.servers:
            self.warm_up(server)
        self.subscribers = Subscribers(self.servers, self.model, self.balancer)
        self.probes = {server: Client(server, self.model) for server in self.servers}

    def start_servers(self, servers):
        with concurrent.futures.ThreadPoolExecutor(SERVERS) as pool:
            list(pool.map(Server.start, servers))

    def warm_up(self, server):
        """Waits until a server has the skill of the readers in memory: without the database, it could not read it."""
        path = "/.well-known/agent-skills/always/SKILL.md"
        wait_for("the skill is everywhere", lambda: http(f"http://{server.http}", "GET", path).status == 200)

    def pause(self):
        """Lets clients work, so that the next fault finds them anywhere."""
        time.sleep(self.random.uniform(0, 0.5))

    def fault(self):
        """Causes one fault and repairs it."""
        kind = self.random.choice(KINDS)
        name = getattr(self, kind.replace(" ", "_"))(self.random.choice(self.servers)) or kind
        self.counts[name] = self.counts.get(name, 0) + 1

    def cut(self, server):
        self.break_link("cut", server, self.random.uniform(0.1, 1))

    def delay(self, server):
        self.break_link("delay", server, self.random.uniform(0.2, 1))

    def blackhole(self, server):
        self.break_link("blackhole", server, self.random.uniform(0.2, 1.5))

    def break_link(self, kind, server, seconds):
        """Breaks the connections of a server to the database for some time."""
        if kind == "cut":
            server.proxy.cut()
        else:
            server.proxy.mode = kind
        time.sleep(seconds)
        if kind == "blackhole":
            # What was swallowed is lost with its connections.
            server.proxy.cut()
        server.proxy.heal()

    def two_at_once(self, server):
        """Breaks the connections of one server while the database or other servers fail."""
        link, kind = self.random.choice(["cut", "delay", "blackhole"]), self.random.choice(["terminate", "kill", "restart"])
        seconds = self.random.uniform(0.2, 1.5)
        thread = threading.Thread(target=self.break_link, args=(link, server, seconds))
        thread.start()
        time.sleep(self.random.uniform(0, 0.2))
        if kind == "kill":
            # A server whose connections are broken would start without the database, and refuse reads until it is back.
            self.kill_and_start([other for other in self.servers if other is not server])
        else:
            getattr(self, kind)(server)
        thread.join()
        return f"{link} and {kind}"

    def terminate(self, _):
        self.database.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                          "AND backend_type = 'client backend'")

    def kill_servers(self, _):
        servers = self.random.sample(self.servers, self.random.choice([1, 1, 1, 2, 3]))
        self.kill_and_start(servers)
        return f"kill {len(servers)}"

    def kill_and_start(self, servers):
        for server in servers:
            self.subscribers.end(server)
        for server in servers:
            server.kill()
        self.start_servers(servers)
        for server in servers:
            self.warm_up(server)
            self.subscribers.subscribe(server)

    def hang(self, server):
        """Stops a server. Sometimes for so long that it loses its lock."""
        is_long = self.random.random() < 0.2
        seconds = 7 if is_long else self.random.uniform(0.2, 1.5)
        others = [other for other in self.servers if other is not server]
        server.stop()
        stopped = time.monotonic()
        try:
            with concurrent.futures.ThreadPoolExecutor(SERVERS) as pool:
                waits = list(pool.map(self.measure_write, others))
            time.sleep(max(0, stopped + seconds - time.monotonic()))
        finally:
            server.resume()
        self.longest_wait = max(self.longest_wait, *waits)
        return "long hang" if is_long else "hang"

    def measure_write(self, server):
        """Writes through one server while another one hangs. Returns the time that it took."""
        started = time.monotonic()
        error = self.probes[server].register(f"probe-{server.number}")
        took = time.monotonic() - started
        if error is not None:
            self.problems.append(f"server {server.number} cannot write while another one hangs: {error}")
        if took > LOCK_SECONDS:
            self.problems.append(f"a write of server {server.number} took {took:.1f} s while another one hung")
        return took

    def restart(self, _):
        self.database.restart_immediately()

    def kill_database(self, _):
        self.database.kill()

    def check(self, clients, readers, accounts):
        """Compares the database, the catalogs, the subscribers, the accounts and the clients with the models. Returns
        problems."""
        wait_for("all servers are ready", lambda: all(server.is_ready() for server in self.servers))
        self.subscribers.end_round()
        time.sleep(1)  # A change that is sent twice would be seen by now.
        problems = self.problems + self.model.check(self.database)
        problems += check_catalogs(self.servers, served_bodies(self.database))
        problems += self.subscribers.check(self.database)
        problems += check_accounts(accounts, self.servers, self.database)
        for client in (*clients, *self.probes.values(), *readers):
            problems += client.problems[:5]
        if min(self.balancer.connections) == 0:
            problems.append(f"a server had no connection: {self.balancer.connections}")
        return problems

    def stop(self):
        for server in self.servers:
            if server.process:
                server.process.kill()
        self.database.stop()


def run(cluster, options):
    """Runs the rounds. Returns the problems."""
    cluster.start()
    stop = threading.Event()
    readers = [Reader(cluster.balancer, stop) for _ in range(READERS)]
    writers = [Writer(cluster.balancer, number, cluster.model, options.seed, stop) for number in range(WRITERS)]
    accounts = [AccountWriter(cluster.balancer, number, options.seed, stop) for number in range(ACCOUNT_WRITERS)]
    for thread in readers + writers + accounts:
        thread.start()
    started, rounds, model = time.monotonic(), 0, cluster.model
    while rounds < options.rounds and time.monotonic() - started < options.seconds:
        before = model.acknowledged
        cluster.fault()
        wait_for("writes go on", lambda: model.acknowledged > before + 3)
        cluster.subscribers.end_round()
        cluster.pause()
        rounds += 1
    took = time.monotonic() - started
    stop.set()
    for thread in readers + writers + accounts:
        thread.join(60)
    problems = cluster.check([writer.client for writer in writers], readers, accounts)

    def total(field):
        return sum(getattr(reader, field) for reader in readers)

    epochs = cluster.subscribers.epochs
    print(f"faults: {rounds} rounds in {took:.0f} s: "
          + ", ".join(f"{kind} {count}" for kind, count in sorted(cluster.counts.items())))
    print(f"faults: writes: {model.outcomes}, refused with {model.codes}, {model.late} late; counter: {model.counters}; "
          f"the longest while a server hung took {cluster.longest_wait:.1f} s")
    keys = [key for writer in accounts for key in writer.keys]
    print(f"faults: {len(keys)} keys, {sum(key.revocation is not None for key in keys)} revoked; changes of accounts: "
          + ", ".join(f"{outcome} {sum(writer.outcomes[outcome] for writer in accounts)}" for outcome in accounts[0].outcomes))
    print(f"faults: {total('reads')} reads, {total('degraded')} degraded, {total('broken')} broken; "
          f"connections by server: {cluster.balancer.connections}")
    print(f"faults: {sum(len(epoch.seen) for epoch in epochs)} changes seen in {len(epochs)} epochs, "
          f"{sum(stream.updates for stream in cluster.subscribers.streams)} updates over MCP")
    if rounds < options.rounds:
        problems.append(f"only {rounds} of {options.rounds} rounds in {options.seconds} s")
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
    print(f"faults: seed {options.seed}", flush=True)
    os.environ["MASTER_ENCRYPTION_KEY"] = MASTER
    folder = tempfile.mkdtemp(prefix="skills-replicas-")
    cluster = Cluster(options.server, folder, options.seed)
    is_good = False
    try:
        problems = run(cluster, options)
        for problem in problems[:20]:
            print(f"faults: {problem}")
        is_good = not problems
    finally:
        cluster.stop()
        if is_good:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"faults: logs in {folder}")
    sys.exit(not is_good)


if __name__ == "__main__":
    main()
