"""An upstream that keeps the exact bytes of every request: a proxy is judged by what reached the origin."""

import contextlib
import socket
import socketserver
import threading

from .processes import wait_until
from .wire import END_OF_HEAD, StrictReader


class Request:
    """One request as it arrived: `head` is the raw head without its empty line, `body` is decoded."""

    def __init__(self, head, body, framing):
        self.head = head
        self.body = body
        self.framing = framing
        line, *fields = head.split(b"\r\n")
        self.line = line.decode("latin-1")
        self.method, self.target, self.version = self.line.split(" ", 2)
        self.fields = [
            (name.decode("latin-1").lower(), value.strip().decode("latin-1"))
            for name, _, value in (field.partition(b":") for field in fields)
        ]

    def values(self, name):
        return [value for found, value in self.fields if found == name.lower()]

    def value(self, name):
        values = self.values(name)
        assert len(values) <= 1, f"{name} arrived {len(values)} times"
        return values[0] if values else None


def ok(request):
    return response(200, b"hello from the origin\n")


def response(status, body=b"", *fields):
    head = [f"HTTP/1.1 {status} Status", f"Content-Length: {len(body)}", "Content-Type: text/plain", *fields]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


class RecordingOrigin:
    """Answers with `answer(request)`: bytes, or an iterable of bytes. Closes when the bytes of the connection stop making sense."""

    def __init__(self, answer=ok, port=0, host="127.0.0.1"):
        self.answer = answer
        self.connections = set()
        self.requests = []
        self.streams = []
        self.lock = threading.Lock()
        origin = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                origin.serve(self.request)

        class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            allow_reuse_address = True
            daemon_threads = True
            request_queue_size = 1024

        self.server = Server((host, port), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def raw(self):
        """All bytes that ever arrived, over all connections."""
        with self.lock:
            return b"".join(bytes(stream) for stream in self.streams)

    def last(self):
        with self.lock:
            return self.requests[-1]

    def count(self):
        with self.lock:
            return len(self.requests)

    def forget(self):
        with self.lock:
            self.requests.clear()
            self.streams.clear()

    def serve(self, connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = bytearray()
        with self.lock:
            self.streams.append(stream)
            self.connections.add(connection)

        def receive():
            data = connection.recv(65536)
            stream.extend(data)
            return data

        reader = StrictReader(receive)
        try:
            while True:
                head = reader.head().removesuffix(END_OF_HEAD)
                if not head:
                    return
                if b"\r\nexpect: 100-continue" in head.lower():
                    connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                request = Request(head, *self.read_body(reader, head))
                with self.lock:
                    self.requests.append(request)
                answer = self.answer(request)
                for part in [answer] if isinstance(answer, bytes) else answer:
                    connection.sendall(part)
        except (OSError, ValueError):
            return
        finally:
            with self.lock:
                self.connections.discard(connection)

    def read_body(self, reader, head):
        fields = [line.partition(b":") for line in head.split(b"\r\n")[1:]]
        named = lambda wanted: [value.strip() for name, _, value in fields if name.lower() == wanted]
        if named(b"transfer-encoding"):
            return reader.chunks()[0], "chunked"
        lengths = named(b"content-length")
        if lengths:
            return reader.exactly(int(lengths[0])), "length"
        return b"", "none"

    def drop(self):
        """Ends every open connection, as a machine does that goes away."""
        with self.lock:
            for connection in self.connections:
                connection.shutdown(socket.SHUT_RDWR)

    def renew(self):
        """As if it had just begun: without a connection, a request, or an answer of its own."""
        with self.lock:
            for connection in self.connections:
                # The other end may have reset it.
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: not self.connections, 20, "every connection is over")
        self.answer = ok
        self.forget()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
