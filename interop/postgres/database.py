"""PostgreSQL in a temporary folder, as an unprivileged user, and a TCP proxy in front of it that can fail."""

import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

INSTALL = "sudo apt-get install postgresql"


def programs():
    """Returns the folder of the newest PostgreSQL from 15 on, or None."""
    found = [(float(path.split("/")[4]), path) for path in glob.glob("/usr/lib/postgresql/*/bin")
             if os.path.exists(f"{path}/initdb") and os.path.exists(f"{path}/postgres")]
    found = [(version, path) for version, path in found if version >= 15]
    if found:
        return max(found)[1]
    path = shutil.which("initdb")
    return os.path.dirname(os.path.realpath(path)) if path and shutil.which("postgres") else None


class Database:
    """A server of PostgreSQL that can be killed and restarted."""

    def __init__(self, port, primary=None, settings=""):
        self.bin, self.port = programs(), port
        self.folder = tempfile.mkdtemp(prefix="skills-postgres-")
        self.user = None
        if os.geteuid() == 0:
            self.user = "postgres" if self.has_user("postgres") else "nobody"
            entry = pwd.getpwnam(self.user)
            os.chown(self.folder, entry.pw_uid, entry.pw_gid)
        self.data = os.path.join(self.folder, "data")
        if primary:
            # A standby, which follows the primary until it is promoted.
            self.run("pg_basebackup", "-h", "127.0.0.1", "-p", str(primary.port), "-U", "skills", "-D", self.data, "-R",
                     "--checkpoint=fast", "--no-sync")
            with open(os.path.join(self.data, "postgresql.conf"), "a") as file:
                file.write(f"port = {port}\nunix_socket_directories = '{self.folder}'\n")
            self.start()
            return
        self.run("initdb", "-D", self.data, "-A", "trust", "-U", "skills", "-E", "UTF8", "--no-sync")
        with open(os.path.join(self.data, "postgresql.conf"), "a") as file:
            file.write(f"listen_addresses = '127.0.0.1'\nport = {port}\nmax_connections = 100\n"
                       f"unix_socket_directories = '{self.folder}'\nlogging_collector = off\n{settings}")
        self.start()
        self.run("createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "skills", "skills")

    @staticmethod
    def has_user(name):
        try:
            pwd.getpwnam(name)
            return True
        except KeyError:
            return False

    def run(self, program, *arguments, check=True):
        account = {"user": self.user, "group": pwd.getpwnam(self.user).pw_gid, "extra_groups": []} if self.user else {}
        return subprocess.run([f"{self.bin}/{program}", *arguments], cwd=self.folder, check=check, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **account).stdout

    def start(self):
        for _ in range(20):
            log = os.path.join(self.folder, "log")
            done = self.run("pg_ctl", "-D", self.data, "-l", log, "-w", "-t", "60", "start", check=False)
            if "server started" in done:
                return
            time.sleep(0.2)
        raise RuntimeError(f"PostgreSQL does not start: {done}")

    def restart_immediately(self):
        self.run("pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop", check=False)
        self.start()

    def kill(self):
        with open(os.path.join(self.data, "postmaster.pid")) as file:
            pid = int(file.readline())
        os.kill(pid, signal.SIGKILL)
        time.sleep(0.3)
        self.start()

    def reconfigure(self, settings="", access=None):
        """Adds settings and replaces the access rules, and restarts."""
        with open(os.path.join(self.data, "postgresql.conf"), "a") as file:
            file.write(settings)
        if access is not None:
            with open(os.path.join(self.data, "pg_hba.conf"), "w") as file:
                file.write(access)
        self.restart_immediately()

    def shut_down(self):
        self.run("pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop", check=False)

    def create_database(self, name):
        self.run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "skills", name)

    def sql(self, *texts):
        """Runs statements on the database itself, past all proxies, each text in a transaction of its own. Returns rows
        of texts."""
        arguments = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "skills", "-d", "skills", "-AtF", "\t"]
        statements = [word for text in ("SET search_path TO skills", *texts) for word in ("-c", text)]
        said = self.run("psql", "-qX", *arguments, *statements)
        return [line.split("\t") for line in said.splitlines()]

    def url(self, port=None):
        return f"postgres://skills@127.0.0.1:{port or self.port}/skills"

    def stop(self):
        self.run("pg_ctl", "-D", self.data, "-m", "immediate", "stop", check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


class Proxy:
    """TCP proxy: passes, delays, swallows, or cuts connections."""

    def __init__(self, port, target):
        self.port, self.target, self.mode, self.pairs = port, target, "pass", []
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", port), backlog=64)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            if self.mode == "cut":
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self.target), 5)
            except OSError:
                client.close()
                continue
            for side in (client, server):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.pairs.append((client, server))
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self.pump, args=(source, sink), daemon=True).start()

    def pump(self, source, sink):
        try:
            while data := source.recv(65536):
                while self.mode == "blackhole":
                    time.sleep(0.02)
                if self.mode == "delay":
                    time.sleep(0.05)
                sink.sendall(data)
        except OSError:
            pass
        for side in (source, sink):
            try:
                side.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        self.mode = "cut"
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for side in pair:
                try:
                    side.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def heal(self):
        self.mode = "pass"
