"""A network and a name server of a test's own, so that it says which names lead where. Needs root."""

import contextlib
import ctypes
import os
import socket
import socketserver
import struct
import subprocess
import threading

NETWORK = 0x40000000  # CLONE_NEWNET
LIBC = ctypes.CDLL(None, use_errno=True)


def system(call, *arguments):
    if call(*arguments) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@contextlib.contextmanager
def private_network():
    """This thread and all that it starts are in a network with nothing but a loopback interface."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        system(LIBC.unshare, NETWORK)
        try:
            ip("link", "set", "lo", "up")
            yield
        finally:
            system(LIBC.setns, home, NETWORK)
    finally:
        os.close(home)


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def add_address(address):
    """An address of this machine, as far as the private network goes."""
    length, words = (128, ["nodad"]) if ":" in address else (32, [])
    ip("address", "add", f"{address}/{length}", "dev", "lo", *words)


class NameServer:
    """Answers for the names in `addresses`, and never for those in `silent`, nor of IPv6 for those in `silent_v6`. What it says is
    good for a second only."""

    def __init__(self, folder):
        self.folder = folder
        self.addresses = {}
        self.silent = set()
        self.silent_v6 = set()
        #: More lines of the resolver's configuration.
        self.options = ""
        #: The names that were asked for, once for each lookup of both kinds of addresses.
        self.asked = []
        owner = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                query, connection = self.request
                if answer := owner.answer(query):
                    connection.sendto(answer, self.client_address)

        class Server(socketserver.UDPServer):
            max_packet_size = 4096

        self.server = Server(("127.0.0.1", 53), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def answer(self, query):
        labels, at = [], 12
        while size := query[at]:
            labels.append(query[at + 1 : at + 1 + size].decode())
            at += 1 + size
        name, question, kind = ".".join(labels), query[12 : at + 5], query[at + 1 : at + 3]
        if kind == b"\0\1":
            self.asked.append(name)
        if name in self.silent or kind == b"\0\x1c" and name in self.silent_v6:
            return None
        family = {b"\0\1": socket.AF_INET, b"\0\x1c": socket.AF_INET6}.get(kind)
        found = [
            socket.inet_pton(family, address)
            for address in self.addresses.get(name, [])
            if family == (socket.AF_INET6 if ":" in address else socket.AF_INET)
        ]
        code = 0 if name in self.addresses else 3
        records = b"".join(b"\xc0\x0c" + kind + struct.pack(">HIH", 1, 1, len(data)) + data for data in found)
        return query[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, len(found), 0, 0) + question + records

    def wrapper(self):
        """Starts a program that asks this server only."""
        files = {
            "hosts": "127.0.0.1 localhost\n",
            "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
            "resolv.conf": "nameserver 127.0.0.1\n" + self.options,
        }
        for name, text in files.items():
            (self.folder / name).write_text(text)
        mounts = "".join(f'mount --bind "$0/{name}" /etc/{name}\n' for name in files)
        return ["unshare", "--mount", "sh", "-ec", mounts + 'exec "$@"', str(self.folder)]

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
