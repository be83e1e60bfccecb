"""Attacks 13: one hostile client on each surface, beside a well-behaved client at another address.

The hostile client has one key and one address and sends as much as it can for some seconds. Meanwhile, and just after,
the other client is answered within a second (p99), and the server stays within 512 MB of what it had when idle.
"""

import base64
import gzip
import io
import multiprocessing
import os
import re
import tarfile
import threading
import time
import urllib.parse
import zipfile

from .client import Mcp, Worker, bearer, connect, head, http
from .keys import admin, create
from .measure import MB, Usage

ATTACKER = "127.0.0.3"
OTHER = "127.0.0.2"
ATTACK_SECONDS = 6
AFTER_SECONDS = 2
THREADS = 16
TOTAL_BYTES = 512 * MB
LATENCY_SECONDS = 1.0
# Answers that a client which sends too much may get. One address has no more than its share of connections.
ANSWERS = {"closed", 200, 204, 303, 400, 401, 404, 409, 413, 422, 429, 503}

COLLECTIONS = 100
DOCUMENT = "---\nname: {name}\ndescription: {name} text.\n---\n\n# {name}\n\nText.\n"
URLS = "http://" * (256 * 1024 // 7)
WANTS = 65_536


def run(report, server):
    for number, name, attack in [
        ("13a", "git requests", git_requests),
        ("13b", "differences", differences),
        ("13c", "pages", pages),
        ("13d", "drafts", drafts),
        ("13e", "uploads", uploads),
        ("13f", "archives", archives),
        ("13g", "marketplaces", marketplaces),
        ("13h", "connections", connections),
        ("13i", "searches", searches),
        ("13j", "listening streams", streams),
    ]:
        other = server.another()
        report.attack(number, name, lambda check, attack=attack, other=other: beside(check, other, attack))
        other.stop()


def beside(check, server, attack):
    """Prepares an attack, then runs it beside the well-behaved client, and checks latency and memory."""
    worker = Worker(server.bus)
    for number in range(50):
        assert worker.register(f"plain-{number}", DOCUMENT.format(name=f"plain-{number}")) is None
    one = attack(server, worker)
    usage = Usage(server.pid)
    idle = usage.settle()
    usage.reset_peak()
    other = Other(server)
    answers = flood(one)
    time.sleep(AFTER_SECONDS)
    count, p99, (longest, slowest), failures = other.stop()
    total = usage.peak() - idle
    check.that(not failures, f"the other client got {failures[:3]} ({len(failures)} of {count})")
    check.that(count > 0 and p99 < LATENCY_SECONDS, f"p99 of the other client: {p99:.2f} s ({slowest})")
    check.that(total < TOTAL_BYTES, f"+{total / MB:.0f} MB")
    odd = sorted({answer for answer in answers if answer not in ANSWERS}, key=str)
    check.that(not odd, f"answers {odd[:5]}")
    check.that(any(answer != "closed" for answer in answers), "the attack got no answer")
    counts = {status: answers.count(status) for status in sorted(set(answers), key=str)}
    check.note(f"+{total / MB:.0f} MB, {count} requests of the other client, p99 {p99 * 1000:.0f} ms, "
               f"at most {longest * 1000:.0f} ms ({slowest}); attack: {counts}")
    worker.close()


def flood(one):
    """Calls `one(number)` in threads for some seconds; returns the statuses, or the errors of the connections."""
    end = time.monotonic() + ATTACK_SECONDS
    answers = []

    def repeat(first):
        number = first
        while time.monotonic() < end:
            try:
                answers.append(getattr(one(number), "status", 200))
            except OSError as error:
                answers.append("closed" if isinstance(error, ConnectionError) else str(error))
                time.sleep(0.05)
            number += THREADS

    threads = [threading.Thread(target=repeat, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


class Other:
    """The well-behaved client, in a process of its own, so that the attack does not take its processor time."""

    def __init__(self, server):
        context = multiprocessing.get_context("fork")
        self.over, (self.result, sender) = context.Event(), context.Pipe(False)
        self.process = context.Process(target=Other.ask, args=(server.http, self.over, sender), daemon=True)
        self.process.start()

    @staticmethod
    def ask(url, over, sender):
        mcp = Mcp(url, source=OTHER)
        requests = [("list", lambda: http(url, "GET", "/v1/skills", source=OTHER)),
                    ("read", lambda: http(url, "GET", "/v1/skills/plain-1", source=OTHER)),
                    ("index", lambda: http(url, "GET", "/.well-known/skills/index.json", source=OTHER)),
                    ("page", lambda: http(url, "GET", "/ui/sign-in", source=OTHER)),
                    ("mcp", lambda: mcp.read("iii://plain-2"))]
        seconds, slowest, failures = [], (0, ""), []
        while not over.is_set():
            for name, request in requests:
                started = time.monotonic()
                try:
                    status = request().status
                except OSError as error:
                    status = str(error)
                seconds.append(time.monotonic() - started)
                slowest = max(slowest, (seconds[-1], name))
                if status != 200:
                    failures.append(f"{name}: {status}")
            time.sleep(0.02)
        seconds.sort()
        sender.send((len(seconds), seconds[max(0, len(seconds) * 99 // 100 - 1)], slowest, failures))

    def stop(self):
        self.over.set()
        result = self.result.recv()
        self.process.join()
        return result


# Each attack prepares the server and returns a function that sends one request.


def pkt(line):
    return b"%04x" % (len(line) + 4) + line


def git_requests(server, _worker):
    """Asks for one commit tens of thousands of times, with a depth, in a few kilobytes of gzip."""
    refs = http(server.http, "GET", "/git/all.git/info/refs?service=git-upload-pack", source=ATTACKER)
    commit = re.search(rb"([0-9a-f]{40}) (?:HEAD|refs/heads/main)", refs.body)[1]
    wants = pkt(b"want " + commit + b"\n") * WANTS
    lines = pkt(b"command=fetch") + b"0001" + wants + pkt(b"deepen 1000\n") + pkt(b"done\n") + b"0000"
    body = gzip.compress(lines)
    headers = [("Content-Type", "application/x-git-upload-pack-request"), ("Content-Encoding", "gzip"),
               ("Git-Protocol", "version=2")]
    return lambda _: http(server.http, "POST", "/git/all.git/git-upload-pack", headers, body, ATTACKER)


def differences(server, worker):
    """Compares two versions of a document that is nothing but beginnings of URLs."""
    files = {f"{number}.md": URLS + str(number) for number in range(3)}
    assert worker.register("urls", DOCUMENT.format(name="urls"), {"a.md": "text"}) is None
    assert worker.register("urls", DOCUMENT.format(name="urls"), files) is None
    key = create(server, "mallory")["key"]
    return lambda _: http(server.http, "GET", "/v1/skills/urls/diff?from=1&to=2", bearer(key), source=ATTACKER)


class Console:
    """Session of the console."""

    def __init__(self, server, credential):
        self.url, self.origin = server.http, [("Origin", server.http)]
        page = http(self.url, "GET", "/ui/sign-in", source=ATTACKER)
        self.cookie = page.header("set-cookie").split(";")[0]
        form = {"token": self.token(page), "credential": credential}
        signed = self.post("/ui/sign-in", urllib.parse.urlencode(form).encode())
        assert signed.status == 303, signed.status
        self.cookie = signed.header("set-cookie").split(";")[0]

    @staticmethod
    def token(page):
        return re.search(rb'name="token"[^>]*value="([0-9a-f]+)"', page.body)[1].decode()

    def get(self, path):
        return http(self.url, "GET", path, [("Cookie", self.cookie)], source=ATTACKER)

    def post(self, path, body, kind="application/x-www-form-urlencoded"):
        headers = [("Cookie", self.cookie), ("Content-Type", kind), *self.origin]
        return http(self.url, "POST", path, headers, body, ATTACKER)


def multipart(fields, files=()):
    boundary = "----attack"
    parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'.encode()
             for name, text in fields.items()]
    for name, data in files:
        parts.append(f'--{boundary}\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n\r\n'.encode()
                     + data + b"\r\n")
    return b"".join(parts) + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def pages(server, worker):
    """Opens the pages of large Markdown files and wide tables."""
    wide = "|" + "a|" * 4000 + "\n|" + "-|" * 4000 + "\n" + ("|" + "b|" * 4000 + "\n") * 27
    files = {"links.md": "[a](b)*c* " * (4 * 1024 * 1024 // 10), "wide.md": wide, "quotes.md": ">" * 500_000}
    error = worker.register("large", DOCUMENT.format(name="large") + wide, files)
    assert error is None, error
    console = Console(server, create(server, "mallory")["key"])
    paths = ["/ui/skills/large", *(f"/ui/skills/large?path={name}" for name in files),
             *(f"/ui/skills/large?tab=files&path={name}" for name in files)]
    return lambda number: console.get(paths[number % len(paths)])


def drafts(server, _worker):
    """Uploads bundles that wait for a confirmation that never comes."""
    console = Console(server, create(server, "mallory")["key"])
    token = Console.token(console.get("/ui/publish"))
    data = base64.b64encode(os.urandom(9 << 20))[:10 << 20]

    def one(number):
        fields = {"token": token, "id": f"draft-{number}", "tier": "private", "text": ""}
        body, kind = multipart(fields, [("SKILL.md", DOCUMENT.format(name=f"draft-{number}").encode()), ("a.txt", data)])
        return console.post("/ui/publish/review", body, kind)

    return one


def overlapping_zip():
    """Returns a zip archive of many entries that share the compressed data of one."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/SKILL.md", DOCUMENT.format(name="a"))
        archive.writestr("a/big.txt", b"\0" * (8 << 20))
        big = archive.getinfo("a/big.txt")
        for number in range(500):
            copy = zipfile.ZipInfo(f"a/big-{number}.txt")
            copy.compress_type, copy.CRC = big.compress_type, big.CRC
            copy.compress_size, copy.file_size, copy.header_offset = big.compress_size, big.file_size, big.header_offset
            archive.filelist.append(copy)
            archive.NameToInfo[copy.filename] = copy
    return packed.getvalue()


def tar_bomb():
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for number in range(100):
            info = tarfile.TarInfo(f"a/{number}.txt")
            info.size = 8 << 20
            archive.addfile(info, io.BytesIO(b"\0" * info.size))
    return packed.getvalue()


def uploads(server, _worker):
    """Uploads archives that expand to much more than their size."""
    console = Console(server, create(server, "mallory")["key"])
    token = Console.token(console.get("/ui/publish"))
    bombs = [("a.zip", overlapping_zip()), ("a.tar.gz", tar_bomb())]

    def one(number):
        body, kind = multipart({"token": token, "id": "bomb", "tier": "private", "text": ""}, [bombs[number % 2]])
        return console.post("/ui/publish/review", body, kind)

    return one


def archives(server, worker):
    """Downloads archives of large bundles without reading them."""
    random = {"base64": base64.b64encode(os.urandom(12 << 20)).decode()}
    for number in range(4):
        error = worker.register(f"archive-{number}", DOCUMENT.format(name=f"archive-{number}"), {"a.bin": random})
        assert error is None, error
    held = []

    def one(number):
        connection = connect(server.http, ATTACKER)
        target = f"/.well-known/agent-skills/archive-{number % 4}.tar.gz"
        connection.sendall(head(server.http, "GET", target))
        said = connection.recv(1 << 12)
        held.append(connection)
        if len(held) > 200:
            held.pop(0).close()
        return type("Answer", (), {"status": int(said.split(b" ")[1]) if said else 503})

    return one


def marketplaces(server, worker):
    """Lists the marketplace, which has a plugin for each of many collections, while skills change."""
    for number in range(COLLECTIONS):
        body = {"title": f"Collection {number}", "skills": [f"plain-{number % 50}"]}
        stored = admin(server, "PUT", f"/v1/collections/c-{number}?tier=official", body)
        assert stored.status in (200, 201), stored.body
    key = create(server, "mallory")["key"]
    targets = ["/.claude-plugin/marketplace.json", "/git/all.git/info/refs?service=git-upload-pack"]

    def one(number):
        if number % (4 * THREADS) == 0:
            worker.register("plain-1", DOCUMENT.format(name="plain-1") + str(number))
        return http(server.http, "GET", targets[number // THREADS % 2], bearer(key), source=ATTACKER)

    return one


def connections(server, _worker):
    """Opens connections in bursts; most never send a request."""
    held = []

    def one(number):
        connection = connect(server.http, ATTACKER)
        if number % 2:
            connection.sendall(b"GET /v1/skills HTTP/1.1\r\nHost: ")
        held.append(connection)
        if len(held) > 3500:
            for old in [held.pop(0) for _ in range(500)]:
                old.close()

    return one


def searches(server, worker):
    """Searches with as many words and exclusions as a query may have."""
    for number in range(20):
        text = DOCUMENT.format(name=f"words-{number}") + " ".join(f"w{index}a" for index in range(20_000))
        assert worker.register(f"words-{number}", text) is None
    query = urllib.parse.quote(" ".join(f"w{index} -x{index}" for index in range(100)))
    return lambda number: http(server.http, "GET", f"/v1/skills?q={query}{number}", source=ATTACKER)


def streams(server, worker):
    """Listens on many streams for resources that never change, while many others do."""
    mcp, held = Mcp(server.http, source=ATTACKER), []

    def one(number):
        if number % THREADS == 0:
            worker.register(f"changing-{number}", DOCUMENT.format(name=f"changing-{number}"))
        params = {"notifications": {"resourceSubscriptions": [f"iii://never-{number}"]}}
        headers, body = mcp.stateless("subscriptions/listen", params)
        connection = connect(server.http, ATTACKER)
        connection.sendall(head(server.http, "POST", "/mcp", headers, body) + body)
        said = connection.recv(1 << 12)
        held.append(connection)
        if len(held) > 2000:
            held.pop(0).close()
        return type("Answer", (), {"status": int(said.split(b" ")[1]) if said else 503})

    return one
