"""A client and an origin that send and read bytes as a test tells them, for what happens in the middle of a message."""

import contextlib
import select
import socket
import socketserver
import struct
import threading
import time

from .processes import wait_until


class Wire:
    """One end of a connection. Reads have a deadline; `received` keeps everything that ever came."""

    #: What a read may fail with, and what that says of the connection; the first that fits.
    ENDINGS = {ConnectionResetError: "reset"}

    def __init__(self, connection, seconds=15):
        self.connection = connection
        self.connection.settimeout(seconds)
        if connection.family != socket.AF_UNIX:
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.all_bytes = bytearray()
        self.buffer = b""
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

    def more(self):
        if self.ended:
            return False
        try:
            data = self.connection.recv(65536)
        except tuple(self.ENDINGS) as failure:
            self.ended = next(ending for kind, ending in self.ENDINGS.items() if isinstance(failure, kind))
            return False
        if not data:
            self.ended = "end"
        self.all_bytes += data
        self.buffer += data
        return bool(data)

    def take(self, has_enough):
        """All that there is once `has_enough` says so of its size, or at the end. In pieces: joining many bytes each time is slow."""
        pieces, size = [self.buffer], len(self.buffer)
        self.buffer = b""
        try:
            while not has_enough(size) and self.more():
                pieces.append(self.buffer)
                size += len(self.buffer)
                self.buffer = b""
        except BaseException:
            self.buffer = b"".join(pieces)
            raise
        return b"".join(pieces)

    def until(self, mark):
        """Up to and with `mark`; what there is when the connection ends first."""
        while mark not in self.buffer and self.more():
            pass
        before, found, self.buffer = self.buffer.partition(mark)
        return before + found

    def head(self):
        return self.until(b"\r\n\r\n")

    def exactly(self, count):
        taken = self.take(lambda size: size >= count)
        self.buffer = taken[count:]
        return taken[:count]

    def chunked(self):
        """The content of a chunked body; what there is of it when the connection ends first."""
        content = b""
        while line := self.until(b"\r\n").removesuffix(b"\r\n"):
            size = int(line, 16)
            content += self.exactly(size)
            self.exactly(2)
            if size == 0:
                break
        return content

    def to_end(self):
        return self.take(lambda size: False)

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
