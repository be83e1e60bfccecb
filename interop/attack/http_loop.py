"""A live client over the HTTP loop: plain requests instead of a WebSocket."""

import json

from .client import bearer, http


class LoopClient:
    """Session of the HTTP loop; `session` is None if it was refused."""

    def __init__(self, url, headers=(), credential=None, source=None):
        self.url, self.source = url, source
        self.headers = [*headers, ("Content-Type", "application/json"), *bearer(credential)]
        response = http(url, "POST", "/mdp/http-loop/connect", self.headers, b"{}", source)
        self.status = response.status
        self.session = response.json().get("sessionId") if response.status == 200 else None

    def send(self, message):
        body = json.dumps({"message": message}).encode()
        headers = [*self.headers, ("X-Mdp-Session-Id", self.session)]
        return http(self.url, "POST", "/mdp/http-loop/send", headers, body, self.source)

    def register(self, name, paths, auth=None, **client):
        message = {"type": "registerClient", "client": {"id": name, "name": name, "paths": paths, **client}}
        return self.send(message | ({"auth": auth} if auth else {}))

    def poll(self, wait_ms=1, seconds=30):
        target = f"/mdp/http-loop/poll?sessionId={self.session}&waitMs={wait_ms}"
        return http(self.url, "GET", target, self.headers, None, self.source, seconds)
