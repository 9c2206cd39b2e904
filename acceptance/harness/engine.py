"""Another proxy that asks the gateway which fields a request needs, as bytes on a connection of its own."""

import http.client
import socket

from . import processes
from .configs import CANARY
from .gateway import SocketConnection

#: What the engine proves itself with.
TOKEN = CANARY + "-engine-token"

#: Names of the fields by contract: method, target, host and scheme.
FIELDS = {
    "nginx": ("X-Original-Method", "X-Original-URI", "X-Original-Host", "X-Original-Proto"),
    "forward_auth": ("X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-Host", "X-Forwarded-Proto"),
}


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def generation(self):
        return self.headers["X-Gw-Generation"]


class Engine:
    """An entry of `listeners.authz`, and what asks there."""

    def __init__(self, name="edge", contract="nginx", token=TOKEN, unix=None, **more):
        self.name, self.contract, self.token, self.unix = name, contract, token, unix
        self.port = None if unix else processes.free_port()
        place = {"unix": str(unix)} if unix else {"address": f"127.0.0.1:{self.port}"}
        self.entry = {**place, "engine": name, "contract": contract, **({"token": token} if token else {}), **more}

    def connect(self, timeout=20):
        if self.unix:
            return SocketConnection(self.unix, timeout)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def fields(self, method="GET", target="/api/x", host="shop.example", scheme=None):
        if self.contract == "envoy":
            return {}
        names = FIELDS[self.contract]
        values = (method, target, host, scheme)
        return {name: value for name, value in zip(names, values, strict=True) if value is not None}

    def ask(self, method="GET", target="/api/x", host="shop.example", scheme=None, headers=None, proof=True,
            body=None, connection=None):
        """Asks about a request. A value of None in `headers` takes a field away."""
        fields = {"Host": host if self.contract == "envoy" else "gateway.example"}
        fields |= self.fields(method, target, host, scheme)
        if proof and self.token:
            fields["X-Gw-Engine-Token"] = self.token
        fields |= headers or {}
        fields = {name: value for name, value in fields.items() if value is not None}
        mine = connection or self.connect()
        line = (method, target) if self.contract == "envoy" else ("GET", "/ask")
        mine.request(*line, body=body, headers=fields)
        answer = Answer(mine.getresponse())
        if connection is None:
            mine.close()
        return answer

    def lines(self, *lines):
        """Sends lines as they are, and returns all that comes back."""
        with socket.create_connection(("127.0.0.1", self.port), 20) as connection:
            connection.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode())
            received = b""
            while part := connection.recv(65536):
                received += part
        return received.decode()
