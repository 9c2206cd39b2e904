"""A strict HTTP proxy, as a company has one before the internet: CONNECT, absolute form, a login, and bad manners on request."""

import base64
import contextlib
import select
import socket
import socketserver
import threading

from .origin import Request
from .wire import END_OF_HEAD, StrictReader

REFUSED = b"HTTP/1.1 %d Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class ParentProxy:
    """Leads `names` (`host:port`) to ports of this machine, and every other address of this machine to itself.

    `login` is `user:password`, or the whole value of Proxy-Authorization. `answer(request)` returns the bytes that are sent instead
    of serving a request, their pieces, or None.
    """

    def __init__(self, names=None, login=None, answer=None, tls=None):
        self.names, self.login, self.answer, self.tls = names or {}, login, answer, tls
        #: Heads that arrived from the gateway; nothing from inside a tunnel.
        self.requests = []
        self.lock = threading.Lock()
        self.connections = set()
        #: What opens a tunnel, in pieces.
        self.established = [b"HTTP/1.1 200 Connection established\r\n\r\n"]
        #: Set by a test that has waited long enough.
        self.may_answer = threading.Event()
        self.may_answer.set()
        owner = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                with contextlib.suppress(OSError, ValueError), contextlib.ExitStack() as stack:
                    connection = owner.tls.wrap_socket(self.request, server_side=True) if owner.tls else self.request
                    stack.callback(connection.close)
                    with owner.lock:
                        owner.connections.add(connection)
                    owner.serve(connection, stack)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self):
        return f"http{'s' if self.tls else ''}://{'localhost' if self.tls else '127.0.0.1'}:{self.port}"

    def lines(self):
        with self.lock:
            return [request.line for request in self.requests]

    def values(self, name):
        with self.lock:
            return [request.value(name) for request in self.requests]

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self.drop()

    def drop(self):
        with self.lock:
            for connection in self.connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    @property
    def expected(self):
        if self.login is None or " " in self.login:
            return self.login
        return "Basic " + base64.b64encode(self.login.encode()).decode()

    def serve(self, connection, stack):
        reader = StrictReader(lambda: connection.recv(65536))
        while head := reader.head().removesuffix(END_OF_HEAD):
            request = Request(head, reader.exactly(self.length(head)), "length")
            with self.lock:
                self.requests.append(request)
            self.may_answer.wait(60)
            other = self.answer and self.answer(request)
            if other is not None:
                for piece in [other] if isinstance(other, bytes) else other:
                    connection.sendall(piece)
                return
            if request.value("proxy-authorization") != self.expected:
                fields = b"\r\nProxy-Authenticate: Basic realm=company\r\nContent-Length: 0\r\n\r\n"
                connection.sendall(b"HTTP/1.1 407 Login" + fields)
                continue
            if request.method == "CONNECT":
                if request.value("host") != request.target:
                    connection.sendall(REFUSED % 400)
                    return
                server = self.reach(request.target)
                if server is None:
                    connection.sendall(REFUSED % 403)
                    return
                stack.callback(server.close)
                for piece in self.established:
                    connection.sendall(piece)
                return self.forward(connection, server)
            scheme, _, rest = request.target.partition("://")
            if scheme != "http":
                connection.sendall(REFUSED % 400)
                return
            authority, _, path = rest.partition("/")
            server = self.reach(authority if ":" in authority else authority + ":80")
            if server is None:
                connection.sendall(REFUSED % 503)
                return
            with server:
                kept = [line for line in head.split(b"\r\n")[1:] if not line.lower().startswith((b"proxy-", b"connection:"))]
                line = f"{request.method} /{path} HTTP/1.1".encode()
                server.sendall(b"\r\n".join([line, *kept, b"", b""]) + request.body)
                answers = StrictReader(lambda server=server: server.recv(65536))
                head = answers.head()
                # The upstreams of these tests send a length, so the connection can stay.
                connection.sendall(head + answers.exactly(self.length(head)))

    @staticmethod
    def length(head):
        return next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)

    def reach(self, authority):
        host, _, port = authority.rpartition(":")
        if authority in self.names:
            host, port = "127.0.0.1", self.names[authority]
        elif host not in ("127.0.0.1", "localhost"):
            return None
        try:
            return socket.create_connection((host, int(port)), timeout=20)
        except OSError:
            return None

    def forward(self, one, other):
        if self.tls:
            one.setblocking(True)
        pairs = {one: other, other: one}
        while True:
            ready = [end for end in pairs if getattr(end, "pending", lambda: 0)()] or select.select(pairs, [], [], 60)[0]
            if not ready:
                return
            for end in ready:
                data = end.recv(65536)
                if not data:
                    return
                pairs[end].sendall(data)
