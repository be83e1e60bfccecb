"""Round-robin load balancer on TCP in front of several servers."""

import asyncio
import contextlib
import itertools
import threading

from ports import free_port


async def pump(source, sink):
    with contextlib.suppress(OSError):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
    sink.close()


class Balancer:
    """One address for the bus and one for HTTP. Each new connection goes to the next server that accepts connections.

    It knows nothing of the protocols. A connection that breaks on one side is closed on the other, so that its client
    has to connect again. Clients are told apart by the loopback address that they connect from.
    """

    def __init__(self, servers):
        self.servers = servers
        self.bus, self.http = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self.routes = {}  # (surface, address of a client): server of its newest connection; None if none accepted it
        self.connections = [0] * len(servers)
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()
        for surface in ("bus", "http"):
            asyncio.run_coroutine_threadsafe(self.listen(surface), loop).result()

    async def listen(self, surface):
        turns = itertools.count()

        async def accept(reader, writer):
            source = writer.get_extra_info("peername")[0]
            number, upstream = await self.dial(surface, next(turns))
            self.routes[surface, source] = number
            if number is None:
                writer.transport.abort()
                return
            self.connections[number] += 1
            await asyncio.gather(pump(reader, upstream[1]), pump(upstream[0], writer))

        await asyncio.start_server(accept, *getattr(self, surface).split(":"))

    async def dial(self, surface, turn):
        """Returns the number of the first server, from a turn on, that accepts a connection, and the connection."""
        for number in ((turn + skipped) % len(self.servers) for skipped in range(len(self.servers))):
            with contextlib.suppress(OSError):
                return number, await asyncio.open_connection(*getattr(self.servers[number], surface).split(":"))
        return None, None

    def may_break(self, surface, source, since):
        """Returns whether the newest connection of a client may have broken since then: its server was killed, or no
        server ran."""
        number = self.routes.get((surface, source))
        servers = self.servers if number is None else [self.servers[number]]
        return all(server.was_killed(since) for server in servers)
