"""A server of this registry on a database, which checks start, kill, stop and continue."""

import os
import signal
import subprocess
import time

from attack.client import Gone, Worker, http
from ports import free_port

from postgres.database import Proxy

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
    """One of the servers, with a proxy of its own between it and the database."""

    def __init__(self, program, database, number, folder, store=None, config=None):
        self.program, self.number, self.config = program, number, config
        self.bus, self.http = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self.proxy = Proxy(free_port(), database.port)
        self.store = store or database.url(self.proxy.port)
        self.dir = os.path.join(folder, f"server-{number}")
        self.log = open(os.path.join(folder, f"server-{number}.log"), "ab")
        self.process = None
        self.downtimes = []  # [time of the kill, time at which it was ready again or None]

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
        if self.downtimes:
            self.downtimes[-1][1] = time.monotonic()

    def ready(self):
        return http(f"http://{self.http}", "GET", "/readyz", seconds=5)

    def is_ready(self):
        return self.ready().json().get("status") == "ready"

    def kill(self):
        self.downtimes.append([time.monotonic(), None])
        self.process.kill()
        self.process.wait()

    def was_killed(self, since):
        """Returns whether it was killed or down at any time since then."""
        return any(end is None or end >= since for _, end in self.downtimes)

    def may_break(self, _surface, _source, since):
        """Returns whether a connection to it may have broken since then."""
        return self.was_killed(since)

    def stop(self):
        """Makes the process hang until it is continued."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def worker(self):
        return Worker(f"ws://{self.bus}")

    def subscribe(self, take):
        """Calls `take` with each change of a skill. Returns the worker that subscribed."""
        worker = self.worker()
        worker.serve("interop::changes", take)
        worker.socket.send({"type": "registertrigger", "id": "interop", "trigger_type": "skills::on-change",
                            "function_id": "interop::changes", "config": {}})
        worker.call("engine::workers::list")
        return worker
