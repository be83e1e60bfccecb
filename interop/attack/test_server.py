"""A server under attack, and commands run beside it."""

import contextlib
import itertools
import os
import shlex
import subprocess

ADMIN_KEY = "an-administrators-secret-0123456789"
INTERNAL_API_SECRET = "another-secret-of-insiders-0123456789"
MASTER_ENCRYPTION_KEY = "00112233445566778899aabbccddeeff" * 2
ENVIRONMENT = {
    "ADMIN_KEY": ADMIN_KEY,
    "INTERNAL_API_SECRET": INTERNAL_API_SECRET,
    "MASTER_ENCRYPTION_KEY": MASTER_ENCRYPTION_KEY,
}

COMMAND_SECONDS = 120


class TestServer:
    """Running server with its own data. `bus` and `http` are its addresses, `folder` is free for files."""

    numbers = itertools.count(1)

    def __init__(self, bench, arguments=(), config=None, limits=None, **env):
        self.bench = bench
        self.binary = bench.server_binary
        self.name = f"server{next(TestServer.numbers)}"
        self.folder = bench.folder / self.name
        self.folder.mkdir()
        self.data = self.folder / "data"
        if config is not None:
            path = self.folder / "config.yaml"
            path.write_text(config)
            arguments = [*arguments, "--config", str(path)]
        data = f"{self.name}/data"
        with self.limited(limits):
            self.process, self.bus = bench.start_server(arguments=arguments, data=data, **(ENVIRONMENT | env))
        self.http = bench.http

    def another(self, arguments=(), config=None, limits=None, **env):
        """Starts a second server; `limits` are shell commands that run before it, such as `ulimit -n 200`."""
        return TestServer(self.bench, arguments, config, limits, **env)

    @contextlib.contextmanager
    def limited(self, limits):
        """Makes the bench start the binary through a script that applies the limits."""
        if limits:
            script = self.folder / "limited"
            script.write_text(f'#!/bin/sh\n{limits}\nexec {shlex.quote(str(self.binary))} "$@"\n')
            script.chmod(0o755)
            self.bench.server_binary = str(script)
        yield
        self.bench.server_binary = self.binary

    @property
    def pid(self):
        return self.process.child.pid

    def stop(self):
        """Ends the server, so that it does not influence later measurements."""
        self.process.kill()

    def log(self):
        return self.process.stderr()

    def fault(self):
        """Returns the fault of the server after an attack; None if it still serves."""
        if self.process.child.poll() is not None:
            return f"the server ended with status {self.process.child.returncode}"
        return "the server panicked" if "panicked at" in self.log() else None

    def command(self, *arguments, cwd=None, home=None, input=None, **env):
        """Runs `skills …` with a clean environment."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(home or self.folder), **env}
        return subprocess.run([self.binary, *arguments], cwd=cwd or self.folder, env=environment, input=input,
                              timeout=COMMAND_SECONDS, capture_output=True, text=True, errors="replace")
