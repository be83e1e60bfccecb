"""Hostile clients on raw sockets: HTTP, WebSocket, the bus, live clients and MCP.

Nothing here is polite or complete: a request is sent byte for byte as the attack wants it, and an answer is read as
far as a check looks at it. No SDK and no HTTP library stands in between.
"""

import base64
import contextlib
import itertools
import json
import os
import socket
import struct
import threading
import time

SECONDS = 60
STATELESS = "2026-07-28"


class Gone(Exception):
    """Raised when the peer closes the connection."""


class Response:
    """Status, headers (lower-case names, in order) and body of an HTTP response."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def header(self, name):
        return next((value for key, value in self.headers if key == name.lower()), None)

    def json(self):
        try:
            return json.loads(self.body)
        except ValueError:
            return {}

    def code(self):
        """Returns the error code, in the format of the HTTP surface or of the gateway."""
        said = self.json()
        error = said.get("error") if isinstance(said, dict) else None
        return error.get("code") if isinstance(error, dict) else said.get("code") if isinstance(said, dict) else None


def split(url):
    """Returns host and port of `http://host:port` or `ws://host:port`."""
    host, port = url.split("://", 1)[1].rstrip("/").rsplit(":", 1)
    return host, int(port)


def connect(url, source=None, seconds=SECONDS):
    """Opens a TCP connection; `source` is another loopback address to connect from."""
    connection = socket.create_connection(split(url), seconds, (source, 0) if source else None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def head(url, method, target, headers=(), body=None):
    """Returns the bytes of a request line and its headers."""
    host, port = split(url)
    lines = [f"{method} {target} HTTP/1.1"]
    named = {name.lower() for name, _ in headers}
    if "host" not in named:
        lines.append(f"Host: {host}:{port}")
    if body is not None and not named & {"content-length", "transfer-encoding"}:
        lines.append(f"Content-Length: {len(body)}")
    lines += [f"{name}: {value}" for name, value in headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape")


def http(url, method, target, headers=(), body=None, source=None, seconds=SECONDS):
    """Sends a request on its own connection and reads the whole response."""
    with connect(url, source, seconds) as connection:
        data = head(url, method, target, [("Connection", "close"), *headers], body) + (body or b"")
        # A server that refuses a body answers and closes before all of it is sent.
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
        return parse(read_all(connection))


def raw(url, data, source=None, seconds=SECONDS):
    """Sends bytes and parses the response until the peer closes; None without one."""
    with connect(url, source, seconds) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
        said = read_all(connection)
        return parse(said) if said else None


def read_all(connection):
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


def parse(said):
    top, _, body = said.partition(b"\r\n\r\n")
    lines = top.decode("latin-1").split("\r\n")
    if not lines[0].startswith("HTTP/1."):
        raise Gone(f"no response: {said[:80]!r}")
    headers = [(name.strip().lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines[1:])]
    response = Response(int(lines[0].split()[1]), headers, body)
    if (response.header("transfer-encoding") or "").lower() == "chunked":
        response.body = dechunk(body)
    return response


def dechunk(body):
    parts = []
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size.split(b";")[0] or b"0", 16)
        if length == 0:
            break
        parts.append(body[:length])
        body = body[length + 2:]
    return b"".join(parts)


def bearer(credential):
    return [("Authorization", f"Bearer {credential}")] if credential else []


class WebSocket:
    """WebSocket of either side: a client that `dial`ed, or a connection that a fake server accepted."""

    def __init__(self, connection, is_client, rest=b""):
        self.connection = connection
        self.is_client = is_client
        self.buffer = rest
        self.lock = threading.Lock()

    @classmethod
    def dial(cls, url, target="/", headers=(), source=None, seconds=SECONDS):
        """Returns a connection, or the `Response` that refused it."""
        connection = connect(url, source, seconds)
        key = base64.b64encode(os.urandom(16)).decode()
        upgrade = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"),
                   ("Sec-WebSocket-Key", key)]
        connection.sendall(head(url, "GET", target, [*upgrade, *headers]))
        said = b""
        while b"\r\n\r\n" not in said:
            part = connection.recv(1 << 16)
            if not part:
                break
            said += part
        top, _, rest = said.partition(b"\r\n\r\n")
        if b" 101 " in top.split(b"\r\n")[0]:
            return cls(connection, True, rest)
        connection.settimeout(0.2)
        with contextlib.suppress(OSError):
            said += connection.recv(1 << 16) if len(said) == said.find(b"\r\n\r\n") + 4 else b""
        connection.close()
        return parse(said)

    def send(self, message):
        text = message if isinstance(message, bytes) else json.dumps(message, separators=(",", ":")).encode()
        self.send_frame(0x1, text)

    def send_frame(self, opcode, data, final=True):
        first = (0x80 if final else 0) | opcode
        mask = 0x80 if self.is_client else 0
        if len(data) < 126:
            top = struct.pack("!BB", first, mask | len(data))
        elif len(data) < 1 << 16:
            top = struct.pack("!BBH", first, mask | 126, len(data))
        else:
            top = struct.pack("!BBQ", first, mask | 127, len(data))
        # A zero mask leaves the payload unchanged.
        with self.lock:
            self.connection.sendall(top + (b"\0\0\0\0" if mask else b"") + data)

    def exactly(self, count):
        while len(self.buffer) < count:
            part = self.connection.recv(1 << 18)
            if not part:
                raise Gone("closed without a close frame")
            self.buffer += part
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def frame(self):
        first, second = self.exactly(2)
        length = second & 0x7F
        if length == 126:
            (length,) = struct.unpack("!H", self.exactly(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", self.exactly(8))
        mask = self.exactly(4) if second & 0x80 else None
        data = self.exactly(length)
        if mask and any(mask):
            pad = (mask * (length // 4 + 1))[:length]
            data = (int.from_bytes(data, "big") ^ int.from_bytes(pad, "big")).to_bytes(length, "big")
        return first & 0x0F, bool(first & 0x80), data

    def next(self, seconds=SECONDS):
        """Returns the next JSON message. Raises `Gone` at the end, and `TimeoutError` if none arrives."""
        self.connection.settimeout(seconds)
        text = b""
        while True:
            try:
                opcode, final, data = self.frame()
            except ConnectionError as error:
                raise Gone(str(error)) from None
            if opcode == 0x8:
                code = struct.unpack("!H", data[:2])[0] if len(data) >= 2 else None
                raise Gone(f"{code} {data[2:].decode(errors='replace')}")
            if opcode == 0x9:
                with contextlib.suppress(OSError):
                    self.send_frame(0xA, data)
            elif opcode in (0x0, 0x1, 0x2):
                text += data
                if final:
                    return json.loads(text)

    def wait_closed(self, seconds):
        """Returns whether the peer closes within a number of seconds, ignoring messages."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                self.next(left)
            except Gone:
                return True
            except TimeoutError:
                return False
        return False

    def close(self):
        # Closing alone would wait for a thread that is still reading.
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()


class Worker:
    """Worker on the bus: calls functions and serves its own in a thread."""

    def __init__(self, url, headers=(), source=None):
        opened = WebSocket.dial(url, headers=headers, source=source)
        if isinstance(opened, Response):
            raise Gone(f"the bus refused with {opened.status}")
        self.socket = opened
        self.numbers = itertools.count(1)
        self.handlers = {}
        self.invoked = []
        self.answers = {}
        self.arrived = threading.Condition()
        self.is_gone = False
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        with contextlib.suppress(Gone, OSError, ValueError):
            while True:
                self.take(self.socket.next(600))
        with self.arrived:
            self.is_gone = True
            self.arrived.notify_all()

    def take(self, frame):
        if frame.get("type") == "invokefunction":
            name, data = frame["function_id"], frame.get("data")
            self.invoked.append((name, data))
            result = self.handlers.get(name, lambda _: None)(data)
            answer = {"type": "invocationresult", "invocation_id": frame["invocation_id"], "function_id": name}
            self.socket.send(answer | {"result": result})
        elif frame.get("type") == "invocationresult":
            with self.arrived:
                self.answers[frame["invocation_id"]] = frame
                self.arrived.notify_all()

    def call(self, function, data=None, seconds=SECONDS):
        """Returns the result of a call and None, or None and the error."""
        number = f"00000000-0000-4000-8000-{next(self.numbers):012}"
        data = {} if data is None else data
        self.socket.send({"type": "invokefunction", "invocation_id": number, "function_id": function, "data": data})
        with self.arrived:
            self.arrived.wait_for(lambda: number in self.answers or self.is_gone, seconds)
            frame = self.answers.pop(number, None)
        if frame is None:
            return None, {"code": "gone" if self.is_gone else "no answer", "message": function}
        return frame.get("result"), frame.get("error")

    def serve(self, function, handler, **registration):
        self.handlers[function] = handler
        self.socket.send({"type": "registerfunction", "id": function, **registration})
        self.call("engine::workers::list")

    def register(self, skill, text, files=None):
        _, error = self.call("skills::register", {"id": skill, "skill": text, **({"files": files} if files else {})})
        return error

    def close(self):
        self.socket.close()


class LiveClient:
    """A live client over a WebSocket."""

    def __init__(self, url, headers=(), source=None):
        self.socket = WebSocket.dial(url.replace("http://", "ws://"), "/mdp/ws", headers, source)
        self.refused = self.socket if isinstance(self.socket, Response) else None

    def register(self, name, paths, auth=None, **client):
        message = {"type": "registerClient", "client": {"id": name, "name": name, "paths": paths, **client}}
        self.socket.send(message | ({"auth": auth} if auth else {}))
        self.sync()

    def sync(self):
        """Waits until the server has handled all previous messages."""
        self.socket.send({"type": "ping", "timestamp": 1})
        while self.socket.next().get("type") != "pong":
            pass

    def serve(self, answer):
        """Answers every call in a thread; returns the list to which it adds the calls."""
        calls = []

        def run():
            with contextlib.suppress(Gone, OSError):
                while True:
                    message = self.socket.next(600)
                    if message.get("type") == "callClient":
                        calls.append(message)
                        self.socket.send(answer(message))

        threading.Thread(target=run, daemon=True).start()
        return calls

    def close(self):
        if not self.refused:
            self.socket.close()


class Mcp:
    """MCP client: sessions of an older revision, or single requests of the newest."""

    def __init__(self, url, credential=None, source=None, version="2025-11-25"):
        self.url, self.credential, self.source, self.version = url, credential, source, version
        self.session = None
        self.numbers = itertools.count(1)

    def headers(self):
        headers = [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream"),
                   ("MCP-Protocol-Version", self.version), *bearer(self.credential)]
        return headers + ([("Mcp-Session-Id", self.session)] if self.session else [])

    def open(self):
        params = {"protocolVersion": self.version, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        response = self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        self.session = response.header("mcp-session-id")
        if self.session:
            self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return response

    def post(self, message, extra=(), seconds=SECONDS):
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return http(self.url, "POST", "/mcp", [*self.headers(), *extra], body, self.source, seconds)

    def stateless(self, method, params, named=None):
        """Returns headers and body of a request of the newest revision."""
        meta = {"io.modelcontextprotocol/protocolVersion": STATELESS,
                "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {}}
        message = {"jsonrpc": "2.0", "id": next(self.numbers), "method": method, "params": params | {"_meta": meta}}
        headers = [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream"),
                   ("MCP-Protocol-Version", STATELESS), ("Mcp-Method", method), *bearer(self.credential)]
        return headers + ([("Mcp-Name", named)] if named else []), json.dumps(message).encode()

    def ask(self, method, params, named=None, seconds=SECONDS):
        """Sends a request of the newest revision and reads the whole response."""
        headers, body = self.stateless(method, params, named)
        return http(self.url, "POST", "/mcp", headers, body, self.source, seconds)

    def read(self, uri):
        return self.ask("resources/read", {"uri": uri}, uri)

    def tool(self, name, arguments, seconds=SECONDS):
        return self.ask("tools/call", {"name": name, "arguments": arguments}, name, seconds)
