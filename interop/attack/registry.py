"""A hostile registry: a bus that speaks the worker protocol and gives the answers of an attack."""

import base64
import contextlib
import hashlib
import json
import os
import socket
import threading

from .client import Gone, WebSocket

MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Refused(Exception):
    """Error answer with a code."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class HostileRegistry:
    """Serves functions from a table of `name -> function(data)` until it is closed.

    The head of every request that reaches it is kept in `heads`, so a check can look for credentials.
    """

    def __init__(self, functions, port=0):
        self.functions = functions
        self.heads = []
        self.calls = []
        self.listener = socket.create_server(("127.0.0.1", port))
        self.url = "ws://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # Otherwise the thread that waits for connections keeps the port.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with contextlib.suppress(OSError, Gone, ValueError):
            top = b""
            while b"\r\n\r\n" not in top:
                part = connection.recv(1 << 16)
                if not part:
                    return
                top += part
            text = top.partition(b"\r\n\r\n")[0].decode("latin-1")
            self.heads.append(text)
            keys = [line.split(":", 1)[1].strip() for line in text.split("\r\n")
                    if line.lower().startswith("sec-websocket-key:")]
            accept = base64.b64encode(hashlib.sha1((keys[0] + MAGIC).encode()).digest()).decode()
            connection.sendall(("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                                f"Sec-WebSocket-Accept: {accept}\r\n\r\n").encode())
            self.converse(WebSocket(connection, False, top.partition(b"\r\n\r\n")[2]))

    def converse(self, peer):
        peer.send({"type": "workerregistered", "worker_id": "11111111-1111-4111-8111-111111111111"})
        while True:
            frame = peer.next(60)
            if frame.get("type") == "ping":
                peer.send({"type": "pong"})
            if frame.get("type") != "invokefunction" or not frame.get("invocation_id"):
                continue
            self.calls.append((frame["function_id"], frame.get("data")))
            peer.send({"type": "invocationresult", "invocation_id": frame["invocation_id"],
                       "function_id": frame["function_id"]} | self.answer(frame))

    def answer(self, frame):
        function = self.functions.get(frame["function_id"])
        if function is None:
            return {"error": {"code": "function_not_found", "message": frame["function_id"]}}
        try:
            return {"result": function(frame.get("data") or {})}
        except Refused as refused:
            return {"error": {"code": refused.code, "message": str(refused)}}


class StrangersRegistry:
    """A hostile registry in a process of another user; needs root. `heads` and `calls` are known when it has ended."""

    USER = 65534

    def __init__(self, functions, port):
        self.heads, self.calls = [], []
        self.answer, write = os.pipe()
        wait, self.stop = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            os.close(self.stop)
            try:
                os.setgroups([])
                os.setgid(self.USER)
                os.setuid(self.USER)
                registry = HostileRegistry(functions, port)
                os.write(write, b"\n")
                os.read(wait, 1)
                os.write(write, json.dumps([registry.heads, registry.calls]).encode())
            finally:
                os._exit(0)
        os.close(write)
        os.close(wait)
        if not os.read(self.answer, 1):
            self.end()
            raise OSError(f"port {port} cannot be listened on")

    def end(self):
        os.close(self.stop)
        with open(self.answer, "rb") as answer:
            said = answer.read()
        os.waitpid(self.child, 0)
        return said

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.heads, self.calls = json.loads(self.end())


def content(text):
    return {"contents": [{"uri": "iii://x", "mimeType": "text/markdown", "text": text}]}


def contract_registry(ids, text="# A\n\nText.\n"):
    """Third-party registry: the eleven functions, with skills of the given ids."""
    rows = [{"id": name, "bytes": len(text), "registered_at": "2026-01-01T00:00:00.000000Z"} for name in ids]
    resources = [{"uri": f"iii://{name}", "name": name, "title": "A", "description": "Text.",
                  "mimeType": "text/markdown"} for name in ids]
    return {
        "skills::list": lambda _: {"skills": rows},
        "skills::resources-list": lambda _: {"resources": resources},
        "skills::resources-read": lambda _: content(text),
        "prompts::list": lambda _: {"prompts": []},
        "prompts::mcp-list": lambda _: {"prompts": []},
    }


def bundle_registry(bundles, uri_text="# A\n\nText.\n"):
    """Registry of this project: `bundles` is `{id: {path: text}}`, with correct digests."""

    def file(path, text):
        data = text.encode()
        return {"path": path, "size": len(data), "digest": f"sha256:{hashlib.sha256(data).hexdigest()}"}

    def row(name, files):
        agent = {"name": name, "description": "Text."}
        return {"id": name, "tier": "official", "title": "A", "description": "Text.", "agent": agent,
                "registered_at": "2026-01-01T00:00:00.000000Z", "files": [file(*item) for item in files.items()]}

    def read(data):
        uri = data.get("uri", "")
        for name, files in bundles.items():
            for path, text in files.items():
                if uri.endswith(f"{name}/{path}"):
                    return content(text)
            if uri.endswith(f"://{name}") or uri.endswith(f"/{name}"):
                return content(files["SKILL.md"])
        return content(uri_text)

    rows = [row(*item) for item in bundles.items()]
    functions = ["skills::catalog", "skills::files", "skills::resolve", "skills::available"]
    wanted = lambda data: next((one for one in rows if one["id"] == data.get("id")), rows[0])  # noqa: E731
    return contract_registry(list(bundles)) | {
        "skills::capabilities": lambda _: {"name": "skills", "version": "0.1.0", "functions": functions, "prefix": ""},
        "skills::catalog": lambda data: {"skills": [one for one in rows if one["id"] in data.get("ids", [one["id"]])]},
        "skills::files": lambda data: {"id": wanted(data)["id"], "files": wanted(data)["files"]},
        "skills::resolve": lambda data: wanted(data) | {"uri": f"iii://{data.get('id')}", "bytes": 1},
        "skills::resources-read": read,
    }
