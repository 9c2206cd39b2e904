"""An upstream and a client for bodies that are larger than any buffer."""

import fcntl
import socket
import socketserver
import struct
import sys
import termios
import threading
import time
import zlib

from .bytes import noise
from .processes import wait_until
from .wire import END_OF_HEAD, Reader

BLOCK = noise(1 << 20)
#: What of a stream may be with the gateway, and in no buffer of the kernel's, while the other end takes nothing.
WINDOW = 1 << 20
#: Of linux/netlink.h and linux/sock_diag.h.
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST = 4, 20, 1


class Flow:
    """Counts and sums what went through, cheaply enough for gigabytes."""

    def __init__(self):
        self.bytes = 0
        self.checksum = 0

    def add(self, data):
        self.bytes += len(data)
        self.checksum = zlib.crc32(data, self.checksum)


def blocks(count):
    flow = Flow()
    for _ in range(count):
        flow.add(BLOCK)
    return flow


def receive(read_into, length, flow):
    """Through what reads into a buffer, as a socket and a pipe can."""
    buffer = bytearray(1 << 20)
    view = memoryview(buffer)
    while flow.bytes < length:
        received = read_into(view[: min(len(buffer), length - flow.bytes)])
        if not received:
            break
        flow.add(view[:received])


def read_head(connection):
    """Reads one byte at a time, so that the content stays in the socket."""
    head = Reader(lambda: connection.recv(1)).head()
    if not head.endswith(END_OF_HEAD):
        raise OSError(f"closed after {head!r}")
    return head


class StreamingOrigin:
    """GET /N sends N blocks; POST counts what arrives. Who has not exactly this `authorization` gets a 401.

    `reads` is cleared by a test that wants bodies to wait.
    """

    def __init__(self, authorization):
        self.authorization = authorization
        self.received = []
        #: What the kernel took of the bodies.
        self.sent = 0
        self.reads = threading.Event()
        self.reads.set()
        origin = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                try:
                    origin.serve(self.request)
                except OSError:
                    pass

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def serve(self, connection):
        while True:
            head = read_head(connection).decode("latin-1")
            if not self.is_allowed(head):
                connection.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            if head.startswith("GET"):
                count = int(head.split(" ")[1].rsplit("/", 1)[1])
                connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {count << 20}\r\n\r\n".encode())
                for _ in range(count):
                    self.send(connection, BLOCK)
            else:
                length = next(
                    int(line.split(":")[1]) for line in head.split("\r\n") if line.lower().startswith("content-length:")
                )
                flow = Flow()
                self.reads.wait(60)
                receive(connection.recv_into, length, flow)
                self.received.append(flow)
                connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    def is_allowed(self, head):
        fields = [line.partition(":") for line in head.split("\r\n")]
        return [value.strip() for name, _, value in fields if name.lower() == "authorization"] == [self.authorization]

    def send(self, connection, block):
        # With a deadline it takes what there is room for, and what it took is known when it takes no more.
        connection.settimeout(60)
        rest = memoryview(block)
        while rest:
            count = connection.send(rest)
            self.sent += count
            rest = rest[count:]

    def stop(self):
        self.reads.set()
        self.server.shutdown()
        self.server.server_close()


def queues():
    """Of each end of a connection its port, the other's, and what waits: sent and not taken, and come and not read."""
    listening = "0A"
    with open("/proc/net/tcp", encoding="ascii") as table:
        for _, local, remote, state, waiting, *_ in map(str.split, list(table)[1:]):
            if state != listening:
                here, there = (int(end.partition(":")[2], 16) for end in (local, remote))
                untaken, unread = (int(queue, 16) for queue in waiting.split(":"))
                yield here, there, untaken, unread


def in_the_kernel(*ports):
    """What waits in all connections to and from these ports."""
    return sum(untaken + unread for here, there, untaken, unread in queues() if {here, there} & set(ports))


def stands_still(look):
    """Waits until what others change stays the same; returns it."""
    last, since = None, 0

    def has_stood():
        nonlocal last, since
        if (now := look()) != last:
            last, since = now, time.monotonic()
        return time.monotonic() - since > 0.7

    wait_until(has_stood, 60, "it stands still")
    return last


def stuck(sent, *ports):
    """Waits until nothing moves any more. Returns how much was sent, and how much of that is in no buffer of the kernel's."""
    total, waits = stands_still(lambda: (sent(), in_the_kernel(*ports)))
    return total, total - waits


def waiting(here, there):
    """What waits at one end of a connection: sent and not taken, and come and not read.

    Asks for this one connection (sock_diag(7)): the table of all grows to tens of thousands of rows.
    """
    anything = 0xFFFFFFFF
    address = socket.inet_aton("127.0.0.1").ljust(16, b"\0")
    query = struct.pack("=BBBxI", socket.AF_INET, socket.IPPROTO_TCP, 0, anything)
    query += struct.pack("!HH", here, there) + address * 2 + struct.pack("=III", 0, anything, anything)
    header = struct.pack("=IHHII", 16 + len(query), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.send(header + query)
        found = kernel.recv(4096)
    assert struct.unpack_from("=H", found, 4)[0] == SOCK_DIAG_BY_FAMILY, f"no connection from {here} to {there}"
    unread, untaken = struct.unpack_from("=II", found, 16 + 56)
    return untaken, unread


def unsent(connection):
    """What waits on this side of a connection: sent, and not acknowledged."""
    return int.from_bytes(fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)), sys.byteorder)


def connect(port, seconds=60):
    return socket.create_connection(("127.0.0.1", port), seconds)
