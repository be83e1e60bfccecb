"""Changes of accounts under faults, and a model of them: keys that are created and revoked, and secrets.

Each writer has users of its own and waits for an answer before it goes on. In the end:

- a key whose creation was acknowledged is accepted by every server, unless its revocation was sent
- a key whose revocation was acknowledged is refused by every server, and one whose revocation was refused is accepted
- a key whose revocation has no clear answer is accepted by all servers or by none
- no other key exists but at most one for each creation without a clear answer
- the secrets of a user are those of the last acknowledged write, or of one without a clear answer that was not long before
"""

import concurrent.futures
import itertools
import random
import threading
import time
from dataclasses import dataclass

from attack.client import bearer, http

from postgres.model import LATE_SECONDS, REFUSED, STORED, UNKNOWN, outcome_of
from postgres.traffic import Client

# A user has at most 1000 active keys.
KEYS_PER_USER = 100
# Time between two writes of a writer, so that entries remain the main traffic.
PAUSE_SECONDS = 0.05
PARALLEL = 12


@dataclass
class Key:
    """A key whose creation was acknowledged, and the outcome of its revocation if one was sent."""

    uid: str
    key: str
    key_id: str
    revocation: str | None = None


@dataclass
class Secrets:
    """A write that replaces the secrets of a user by one of this name."""

    name: str
    outcome: str
    started: float
    ended: float


class AccountWriter(threading.Thread):
    """Creates and revokes keys and sets secrets, as an administrator over HTTP."""

    def __init__(self, front, number, seed, stop):
        super().__init__(daemon=True)
        # Without a model of entries: it writes none.
        self.client, self.number, self.stop = Client(front, None), number, stop
        self.random = random.Random(f"accounts {number} of {seed}")
        self.keys, self.unknown_creations, self.secrets = [], 0, {}
        self.outcomes = {STORED: 0, REFUSED: 0, UNKNOWN: 0}
        self.names = itertools.count(1)

    @property
    def uid(self):
        return f"user-{self.number}-{len(self.keys) // KEYS_PER_USER}"

    def run(self):
        while not self.stop.is_set():
            kind = self.random.randrange(10)
            revocable = [key for key in self.keys if key.revocation in (None, REFUSED)]
            if kind < 5 or not revocable:
                error = self.create(self.uid)
            elif kind < 8:
                error = self.revoke(self.random.choice(revocable))
            else:
                error = self.set_secret(self.uid)
            self.outcomes[outcome_of(error)] += 1
            time.sleep(PAUSE_SECONDS)

    def create(self, uid):
        said, error = self.client.send("POST", "/v1/admin/keys", {"user_uid": uid})
        if error is None:
            self.keys.append(Key(uid, said["key"], said["key_id"]))
        self.unknown_creations += outcome_of(error) == UNKNOWN
        return error

    def revoke(self, key):
        said, error = self.client.send("DELETE", f"/v1/admin/keys/{key.key_id}")
        key.revocation = outcome_of(error)
        if error is None and not (said["revoked"] and said["stored"]):
            self.client.problems.append(f"the revocation of an active key was answered with {said}")
        return error

    def set_secret(self, uid):
        name, started = f"S{next(self.names)}", time.monotonic()
        _, error = self.client.send("POST", "/v1/admin/sync_cache",
                                    {"user_uid": uid, "type": "secrets_sync", "secrets": {name: "value"}})
        self.secrets.setdefault(uid, []).append(Secrets(name, outcome_of(error), started, time.monotonic()))
        return error


def possible_secrets(writes):
    """Returns the names that a user may have after some writes, None for no secret."""
    stored = [write for write in writes if write.outcome == STORED]
    since = stored[-1].started - LATE_SECONDS if stored else 0
    return {stored[-1].name if stored else None} | {
        write.name for write in writes if write.outcome == UNKNOWN and write.ended > since}


def ask(server, path, key):
    return http(f"http://{server.http}", "GET", path, bearer(key.key))


def check_accounts(writers, servers, database):
    """Compares what every server says of keys and secrets with the model. Returns problems."""
    problems, keys = [], [key for writer in writers for key in writer.keys]
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        statuses = list(pool.map(lambda key: [ask(server, "/v1/auth/verify", key).status for server in servers], keys))
    for key, seen in zip(keys, statuses):
        expected = {STORED: [401], None: [200], REFUSED: [200], UNKNOWN: [200, 401]}[key.revocation]
        if seen[0] not in expected or len(set(seen)) > 1:
            problems.append(f"key {key.key_id} of {key.uid}, revocation {key.revocation}: the servers answer {seen}")

    count = int(database.sql("SELECT count(*) FROM vault_key")[0][0])
    most = len(keys) + sum(writer.unknown_creations for writer in writers)
    if not len(keys) <= count <= most:
        problems.append(f"{count} keys are stored, not {len(keys)} to {most}")

    active = {key.uid: key for key, seen in zip(keys, statuses) if set(seen) == {200}}
    for uid, writes in (pair for writer in writers for pair in writer.secrets.items()):
        stored = {row[0] for row in database.sql(f"SELECT name FROM vault_secret WHERE owner = '{uid}'") if row != [""]}
        if not {*(stored or [None])} <= possible_secrets(writes) or len(stored) > 1:
            problems.append(f"{uid} has the secrets {stored}, not one of {possible_secrets(writes)}")
        if uid in active:
            for server in servers:
                listed = {secret["name"] for secret in ask(server, "/v1/secrets", active[uid]).json()["data"]}
                if listed != stored:
                    problems.append(f"server {server.number} lists the secrets {listed} of {uid}, which has {stored}")
    for writer in writers:
        problems += writer.client.problems[:5]
        if not all((writer.keys, writer.secrets, any(key.revocation == STORED for key in writer.keys))):
            problems.append(f"the writer {writer.number} of accounts wrote too little")
    return problems
