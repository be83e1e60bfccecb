"""Small HTTP servers that tools call: they record requests and give set answers."""

import contextlib
import socket
import threading


class Upstream:
    """Answers every request with the result of `answer(path)`: a body, or a redirect as `(302, location)`."""

    def __init__(self, answer):
        self.answer = answer
        self.paths = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection, contextlib.suppress(OSError):
            top = b""
            while b"\r\n\r\n" not in top:
                part = connection.recv(1 << 16)
                if not part:
                    return
                top += part
            path = top.split(b" ")[1].decode()
            self.paths.append(path)
            said = self.answer(path)
            if isinstance(said, tuple):
                text = f"HTTP/1.1 {said[0]} Found\r\nLocation: {said[1]}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            else:
                text = ("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                        f"Content-Length: {len(said)}\r\nConnection: close\r\n\r\n{said}")
            connection.sendall(text.encode())
