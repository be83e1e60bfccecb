"""Subscribers of one server: to `skills::on-change` on the bus, and to notifications of MCP.

A server that is killed loses its subscribers, which subscribe again when it is back. The time of one subscription is an
epoch. What a subscriber saw in an epoch is compared with the log of the database:

- it is a part of the log without gaps, each change once and in order, which begins after the last change that was
  acknowledged before the subscription and not after the first one that was sent later
- it has the marker of each round whose end the epoch saw, and so every change before it
- unless the server was killed, it ends with the log
"""

import contextlib
import json
import threading

from attack.client import Gone, Mcp, connect, head

from postgres.server import wait_for
from postgres.traffic import Client

NEWS = "news"
NEWS_URI = f"skill://{NEWS}/SKILL.md"


class Epoch:
    """Changes that one subscription to `skills::on-change` received."""

    def __init__(self, server, client):
        self.server, self.is_killed, self.seen, self.ids = server, False, [], set()
        self.before = client.register_new(f"before-{server.number}")
        self.worker = server.subscribe(self.take)
        self.first = client.register_new(f"first-{server.number}")
        self.wait_for(self.first)

    def take(self, change):
        self.seen.append((change["op"], change["id"]))
        self.ids.add(change["id"])

    def wait_for(self, skill):
        wait_for(f"the subscriber of server {self.server.number} saw {skill}", lambda: skill in self.ids)

    def check(self, log):
        """Compares what it saw with the log. Returns problems."""
        name = f"server {self.server.number}, {self.before}"
        if self.worker.is_gone and not self.is_killed:
            return [f"{name}: the subscription ended, but the server ran"]
        if not {("register", self.before), ("register", self.first)} <= set(log):
            return [f"{name}: the log has not both {self.before} and {self.first}"]
        start = log.index(("register", self.first)) - self.seen.index(("register", self.first))
        if start <= log.index(("register", self.before)):
            return [f"{name}: it saw changes from before the subscription, or more than once: {self.seen[:5]}"]
        expected = log[start:start + len(self.seen)] if self.is_killed else log[start:]
        if self.seen == expected:
            return []
        at = next((at for at, pair in enumerate(zip(self.seen, expected)) if pair[0] != pair[1]), len(expected))
        return [f"{name}: it saw {len(self.seen)} changes, {len(expected)} expected, and they differ from number {at}: "
                f"{self.seen[at:at + 3]} for {expected[at:at + 3]}"]


class NewsListener:
    """Stream of `subscriptions/listen`, on which a server notifies of each update of one skill."""

    def __init__(self, server):
        self.server, self.is_killed, self.is_gone, self.updates = server, False, False, 0
        self.accepted = threading.Event()
        url = f"http://{server.http}"
        headers, body = Mcp(url).stateless("subscriptions/listen", {
            "notifications": {"resourcesListChanged": True, "resourceSubscriptions": [NEWS_URI]}})
        self.connection = connect(url, seconds=600)
        self.connection.sendall(head(url, "POST", "/mcp", headers, body) + body)
        threading.Thread(target=self.listen, daemon=True).start()
        assert self.accepted.wait(30), f"server {server.number} does not accept subscriptions/listen"

    def listen(self):
        with contextlib.suppress(Gone, OSError), self.connection.makefile("rb") as lines:
            for line in lines:
                if not line.startswith(b"data:") or not line[5:].strip():
                    continue
                message = json.loads(line[5:])
                if message.get("method") == "notifications/subscriptions/acknowledged":
                    self.accepted.set()
                elif message.get("method") == "notifications/resources/updated":
                    assert message["params"]["uri"] == NEWS_URI, message
                    self.updates += 1
        self.is_gone = True

    def wait_for_update(self, after):
        wait_for(f"server {self.server.number} notified of an update", lambda: self.updates > after)


class Subscribers:
    """Subscribers of all servers, each of its server alone."""

    def __init__(self, servers, model, front):
        self.model, self.client = model, Client(front, model)
        self.clients = {server: Client(server, model) for server in servers}
        self.current, self.listeners, self.epochs, self.streams = {}, {}, [], []
        self.rounds = 0
        self.update_news()
        for server in servers:
            self.subscribe(server)

    def subscribe(self, server):
        self.current[server] = Epoch(server, self.clients[server])
        self.listeners[server] = NewsListener(server)
        self.epochs.append(self.current[server])
        self.streams.append(self.listeners[server])

    def end(self, server):
        """Ends the epoch of a server that is about to be killed."""
        self.current.pop(server).is_killed = True
        self.listeners.pop(server).is_killed = True

    def update_news(self):
        while self.client.register(NEWS) is not None:
            pass

    def end_round(self):
        """Writes once more and waits until all subscribers saw that."""
        before = {listener: listener.updates for listener in self.listeners.values()}
        self.update_news()
        marker = self.client.register_new(f"round-{self.rounds}")
        self.rounds += 1
        for epoch in self.current.values():
            epoch.wait_for(marker)
        for listener, updates in before.items():
            listener.wait_for_update(updates)

    def check(self, database):
        """Compares all epochs with the log. Returns problems."""
        log = [tuple(row) for row in database.sql(
            "SELECT CASE WHEN served IS NULL THEN 'unregister' ELSE 'register' END, id FROM change "
            "WHERE kind = 'skill' ORDER BY revision")]
        problems = [problem for epoch in self.epochs for problem in epoch.check(log)]
        problems += [f"server {stream.server.number}: its stream of notifications ended, but it ran"
                     for stream in self.streams if stream.is_gone and not stream.is_killed]
        for client in (self.client, *self.clients.values()):
            problems += client.problems
        return problems
