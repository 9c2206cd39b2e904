"""A client and an origin that send and read bytes as a test tells them, for what happens in the middle of a message."""

import contextlib
import select
import socket
import socketserver
import struct
import threading
import time

from .processes import wait_until
from .wire import Reader


class Wire(Reader):
    """One end of a connection. Reads have a deadline. `received` keeps all bytes that arrived."""

    #: Errors of a read, and what each says of the connection. The first that fits counts.
    ENDINGS = {ConnectionResetError: "reset"}

    def __init__(self, connection, seconds=15):
        super().__init__(self._receive)
        self.connection = connection
        self.connection.settimeout(seconds)
        if connection.family != socket.AF_UNIX:
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.all_bytes = bytearray()
        #: None while open, then "end" or "reset".
        self.ended = None

    @property
    def received(self):
        return bytes(self.all_bytes)

    @received.setter
    def received(self, value):
        self.all_bytes = bytearray(value)

    def send(self, data):
        self.connection.sendall(data)

    def _receive(self):
        if self.ended:
            return b""
        try:
            data = self.connection.recv(65536)
        except tuple(self.ENDINGS) as failure:
            self.ended = next(ending for kind, ending in self.ENDINGS.items() if isinstance(failure, kind))
            return b""
        if not data:
            self.ended = "end"
        self.all_bytes += data
        return data

    def chunked(self):
        """Chunked content, or the part of it that arrived before the end of the connection."""
        return self.chunks()[0]

    def is_quiet(self, seconds):
        """Nothing comes for a while; the only way to see that something does not happen."""
        return not self.buffer and not select.select([self.connection], [], [], seconds)[0]

    def end_of_writing(self):
        self.connection.shutdown(socket.SHUT_WR)

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def close(self):
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def connect(port, seconds=15):
    return Wire(socket.create_connection(("127.0.0.1", port), seconds), seconds)


def connect_narrow(port):
    """A client in whose buffer hardly anything fits: the rest waits on the gateway's side."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", port))
    return Wire(connection)


def connect_unix(path, seconds=15):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(path))
    return Wire(connection, seconds)


class ScriptedOrigin:
    """Runs `script(wire, number)` for each connection, the first having number 0, and closes it afterwards."""

    def __init__(self, script, port=0, host="127.0.0.1"):
        self.script = script
        self.host = host
        self.wires = []
        #: What went wrong in a script; a test that ends well looks here.
        self.failures = []
        #: So many scripts are over.
        self.ended = 0
        self.lock = threading.Lock()
        origin = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                wire = Wire(self.request)
                with origin.lock:
                    number = len(origin.wires)
                    origin.wires.append(wire)
                try:
                    origin.script(wire, number)
                except TimeoutError as failure:
                    # An OSError, too, but no end of the connection: the script waited for what did not come.
                    origin.failures.append(failure)
                except OSError:
                    pass
                except Exception as failure:
                    origin.failures.append(failure)
                finally:
                    with origin.lock:
                        origin.ended += 1

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True
            request_queue_size = 1024

        self.server = Server((host, port), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self):
        return f"http://{self.host}:{self.port}"

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class StandingOrigin(ScriptedOrigin):
    """Serves one test after the other, each with a script of its own: none of them meets a connection of the one before."""

    def __init__(self):
        super().__init__(None)

    def begin(self, script):
        with self.lock:
            self.script, self.wires, self.failures, self.ended = script, [], [], 0

    def settle(self):
        """Ends every connection, and waits until all scripts are over."""
        for wire in list(self.wires):
            with contextlib.suppress(OSError):
                wire.connection.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: self.ended == len(self.wires), 20, "every script is over")


def wait(event, seconds, what):
    """Waits for an event of a script and returns how long that took."""
    started = time.monotonic()
    assert event.wait(seconds), f"not within {seconds} s: {what}"
    return time.monotonic() - started


# What most scripts are about

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def get(gateway, *fields, version="1.1", method="GET", path="/api/x"):
    lines = [f"{method} {path} HTTP/{version}", f"Host: 127.0.0.1:{gateway.port}", *fields, "", ""]
    return "\r\n".join(lines).encode()


def answering(*answers):
    """Answers each request, whatever its body, with the next of the answers; the last one repeats."""

    def run(wire, number):
        count = 0
        while wire.head().endswith(b"\r\n\r\n"):
            wire.send(answers[min(count, len(answers) - 1)])
            count += 1

    return run
