"""Ports for servers that start later, or stop and start again."""

import itertools
import os
import socket
import time

WAIT_SECONDS = 60

# Below the range from which the system picks ports: a port that is free stays free until it is used.
_PORTS = itertools.cycle(range(10_000, 20_000))
for _ in range(os.getpid() % 10_000):
    next(_PORTS)


def is_free(host, port):
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError:
            return False
    return True


def free_port():
    """Returns a port of the loopback interface that no other program is given meanwhile."""
    return next(port for port in itertools.islice(_PORTS, 10_000) if is_free("127.0.0.1", port))


def wait_until_free(address):
    """Waits for an address that is fixed. Any connection of the machine may have its port for a moment."""
    host, port = address.split(":")
    end = time.monotonic() + WAIT_SECONDS
    while not is_free(host, int(port)) and time.monotonic() < end:
        time.sleep(0.1)
