"""Model of what clients wrote, and its comparison with the log and the contents of the database.

Each skill has one writer, which waits for an answer before it writes the skill again, and every body is written once. So
the log shows for each body whether it was stored, how often, and in which order.
"""

import json
import threading
import time
from dataclasses import dataclass

STORED, REFUSED, UNKNOWN = "stored", "refused", "unknown"
# Codes that the clients of the tests give to a connection that broke before the answer.
NO_ANSWER = ("gone", "no answer", "sent")
# A write without an answer may wait for the lock of a server that hangs, and happen when that lock ends.
LATE_SECONDS = 10


@dataclass
class Write:
    """A registration of a body, or a removal if there is none, and its answer."""

    body: str | None
    outcome: str
    started: float
    ended: float
    removed: bool = False  # the answer of a removal: whether there was something to remove


def is_unknown(error):
    """Returns whether a write may have happened: no answer came, or the server says that it does not know."""
    if error.get("code") in NO_ANSWER or error.get("code") == "outcome_unknown":
        return True
    return error.get("details") == {"outcome": "unknown"}


def outcome_of(error):
    return STORED if error is None else UNKNOWN if is_unknown(error) else REFUSED


class Model:
    """All writes with their answers."""

    def __init__(self):
        self.lock = threading.Lock()
        self.writes = {}            # writes of each skill, in the order in which they were sent
        self.counters = {}          # number of increments by outcome
        self.outcomes = {STORED: 0, REFUSED: 0, UNKNOWN: 0}
        self.codes = {}             # number of certain failures by code
        self.late = 0               # writes without an answer that happened after a later one

    def record(self, skill, body, started, error, removed=False):
        outcome = outcome_of(error)
        write = Write(body, outcome, started, time.monotonic(), removed)
        with self.lock:
            self.writes.setdefault(skill, []).append(write)
            self.outcomes[outcome] += 1
            if outcome == REFUSED:
                self.codes[error.get("code")] = self.codes.get(error.get("code"), 0) + 1

    def record_increment(self, error):
        with self.lock:
            self.counters[outcome_of(error)] = self.counters.get(outcome_of(error), 0) + 1

    @property
    def acknowledged(self):
        return self.outcomes[STORED]

    def check(self, database):
        """Compares the database with all writes. Returns problems."""
        problems = []
        (revision, count), = database.sql("SELECT head.revision, (SELECT count(*) FROM change) FROM head")
        if revision != count:
            problems.append(f"revision {revision}, but {count} changes")
        doubled = database.sql("SELECT kind, id, version, count(*) FROM change WHERE action = 'put' "
                               "GROUP BY 1, 2, 3 HAVING count(*) > 1")
        problems += [f"written twice: {row}" for row in doubled]

        bodies = {bytes.fromhex(row[0]).decode() for row in database.sql("SELECT encode(bytes, 'hex') FROM blob")}
        for skill, writes in self.writes.items():
            problems += [f"lost: {write.body!r}" for write in writes
                         if write.body and write.outcome == STORED and write.body not in bodies]
            problems += [f"stored although refused: {write.body!r}" for write in writes
                         if write.body and write.outcome == REFUSED and write.body in bodies]

        logged, served = logged_bodies(database), served_bodies(database)
        for skill in logged.keys() | served.keys() | self.writes.keys():
            log = logged.get(skill, [])
            problems += [f"{skill}: {problem}" for problem in self.check_skill(self.writes.get(skill, []), log)]
            last = log[-1] if log else None
            if served.get(skill) != last:
                problems.append(f"{skill} is {served.get(skill)!r}, but the log ends with {last!r}")

        value = database.sql("SELECT value FROM state WHERE scope = 'counters' AND key = 'all'")
        number = json.loads(value[0][0])["n"] if value else 0
        least = self.counters.get(STORED, 0)
        most = least + self.counters.get(UNKNOWN, 0)
        if not least <= number <= most:
            problems.append(f"the counter is {number}, not {least} to {most}")
        return problems

    def check_skill(self, writes, log):
        """Compares the log of one skill, a body or None for a removal each, with its writes. Returns problems."""
        problems, places = check_removals(writes), {}
        for place, body in enumerate(log):
            places.setdefault(body, []).append(place)
        removals = places.pop(None, [])
        last = -1     # place of the newest acknowledged write
        unclear = []  # places and times of answers of writes without a clear answer
        for write in writes:
            if write.body is None:
                # The earliest place, because a removal without an answer may have any later one.
                found = [place for place in removals if place > last][:1] if write.removed else []
                removals = [place for place in removals if place not in found]
                is_expected = write.removed
            else:
                found = places.pop(write.body, [])
                is_expected = write.outcome == STORED
            if is_expected and not found:
                problems.append(f"acknowledged, but not in the log: {write}")
            if len(found) > (write.outcome != REFUSED):
                problems.append(f"{len(found)} times in the log: {write}")
            if found and found[0] < last:
                problems.append(f"in the log before a write that was acknowledged earlier: {write}")
            if found and write.outcome == UNKNOWN:
                unclear.append((found[0], write.ended))
            elif found:
                last = found[0]
                waits = [write.started - ended for place, ended in unclear if place > last]
                self.late += len(waits)
                problems += [f"{wait:.0f} s after its answer, a write happened after {write}"
                             for wait in waits if wait > LATE_SECONDS]
        problems += [f"nobody wrote {body!r}" for body in places]
        unknown = sum(write.body is None and write.outcome == UNKNOWN for write in writes)
        if len(removals) > unknown:
            problems.append(f"{len(removals)} removals without an acknowledgement, but {unknown} without an answer")
        return problems


def check_removals(writes):
    """Compares the answers of removals with what was there, up to the first write without a clear answer."""
    problems, is_present = [], False
    for write in writes:
        if write.outcome == UNKNOWN:
            break
        if write.outcome == STORED:
            if write.body is None and write.removed != is_present:
                problems.append(f"the skill was there: {is_present}, but the answer is {write}")
            is_present = write.body is not None
    return problems


def logged_bodies(database):
    """Returns the log of each skill: a body for each registration, None for each removal."""
    rows = database.sql(
        "SELECT c.id, c.served IS NULL, encode(b.bytes, 'hex') FROM change c LEFT JOIN entry e ON e.kind = c.kind AND "
        "e.tier = c.tier AND e.owner = c.owner AND e.id = c.id LEFT JOIN blob_use u ON u.entry = e.number AND u.version = "
        "c.version LEFT JOIN blob b ON b.digest = u.digest WHERE c.kind = 'skill' ORDER BY c.revision")
    logged = {}
    for skill, is_removal, body in rows:
        logged.setdefault(skill, []).append(None if is_removal == "t" else bytes.fromhex(body).decode())
    return logged


def served_bodies(database):
    """Returns the body of each skill that is served."""
    return {row[0]: bytes.fromhex(row[1]).decode() for row in database.sql(
        "SELECT e.id, encode(b.bytes, 'hex') FROM entry e JOIN blob_use u ON u.entry = e.number AND u.version = "
        "e.served JOIN blob b ON b.digest = u.digest WHERE e.kind = 'skill'")}
