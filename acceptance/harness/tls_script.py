"""The clients and origins of `script.py` over TLS, where an end may come with close_notify or without."""

import contextlib
import functools
import os
import select
import socket
import ssl

from . import processes
from .configs import BEARER
from .script import Wire, connect, get


class TLSWire(Wire):
    """`ended` is "end" after close_notify, "cut" when the connection ends without it, "reset" when it is reset."""

    ENDINGS = {
        # A close_notify, to a client that has sent its own.
        ssl.SSLZeroReturnError: "end",
        ssl.SSLEOFError: "cut",
        ConnectionResetError: "reset",
        BrokenPipeError: "reset",
    }

    def is_quiet(self, seconds):
        if self.buffer or self.connection.pending():
            return False
        return not select.select([self.connection], [], [], seconds)[0]

    def notify(self):
        """Says that nothing more will come (close_notify), and leaves the connection open."""
        seconds = self.connection.gettimeout()
        self.connection.settimeout(0)
        # It is sent; what the other end says to that is not waited for.
        with contextlib.suppress(OSError, ValueError):
            self.connection.unwrap()
            # The other end had said so already.
            self.ended = self.ended or "end"
        self.connection.settimeout(seconds)

    def end_of_writing(self):
        self.notify()
        # The other end may have reset the connection on that.
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self.connection, socket.SHUT_WR)

    def __exit__(self, *_):
        if self.connection.fileno() >= 0:
            self.notify()
        self.close()

    def cut(self):
        """Ends without close_notify, as whoever cuts a line would."""
        socket.socket.shutdown(self.connection, socket.SHUT_WR)


class MemoryTLS:
    """An origin's TLS whose records leave when they are told to, so that several are in one packet."""

    def __init__(self, context, connection):
        self.connection = connection
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self._until_done(self.tls.do_handshake)
        self.flush()

    def _until_done(self, step):
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                self.flush()
                data = self.connection.recv(65536)
                self.incoming.write(data) if data else self.incoming.write_eof()

    def read(self):
        return self._until_done(lambda: self.tls.read(65536))

    def write(self, data):
        self.tls.write(data)

    def notify(self):
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.unwrap()

    def flush(self):
        self.connection.sendall(self.outgoing.read())


def client_context(certificate_authority):
    context = ssl.create_default_context(cafile=str(certificate_authority.certificate))
    context.check_hostname = False
    return context


def server_context(certificate, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def tls_connect(port, context, connection=None, seconds=15):
    """`connection`: a socket that is not connected yet and is as the client wants it."""
    connection = connection or socket.socket()
    connection.settimeout(seconds)
    connection.connect(("127.0.0.1", port))
    return TLSWire(context.wrap_socket(connection, suppress_ragged_eofs=False), seconds)


def over_tls(context, steps):
    """The same script for an origin that speaks TLS; the connection ends without close_notify unless the script sent one."""

    def whole(wire, number):
        connection = context.wrap_socket(wire.connection, server_side=True, suppress_ragged_eofs=False)
        secure = TLSWire(connection)
        try:
            steps(secure, number)
        finally:
            secure.close()

    return whole


def serving(certificate_authority, name):
    """A certificate for this machine and its key, as paths; the key is for its owner alone."""
    certificate, key = certificate_authority.issue(name, "IP:127.0.0.1,DNS:localhost")
    os.chmod(key, 0o600)
    return certificate, key


def start_secure(make_script, start_gateway, certificate_authority, steps, side, limits):
    """An origin that follows a script, and a gateway before it, whose `dial` connects a client.

    `side` says where TLS is: "origin", "listener", "both", or "none".
    """
    certificate, key = serving(certificate_authority, "both-sides")
    route = {"auth": BEARER}
    if side in ("both", "origin"):
        origin = make_script(over_tls(server_context(certificate, key), steps))
        route |= {"upstream": f"https://127.0.0.1:{origin.port}", "tls": {"ca": str(certificate_authority.certificate)}}
    else:
        origin = make_script(steps)
        route |= {"upstream": origin.url}
    listeners = None
    if side in ("both", "listener"):
        port = processes.free_port()
        tls = {"certificate": str(certificate), "private_key": {"file": str(key)}}
        listeners = [{"address": f"127.0.0.1:{port}", "tls": tls}]
    gateway = start_gateway({"routes": {"api": route}, "limits": limits}, listeners=listeners)
    context = client_context(certificate_authority)
    gateway.dial = functools.partial(tls_connect, port, context) if listeners else functools.partial(connect, gateway.port)
    return gateway, origin


def request_to(gateway, client, *fields, **options):
    """As `get`, with the port of the listener that this client is connected to."""
    port = client.connection.getpeername()[1]
    return get(gateway, *fields, **options).replace(b"Host: 127.0.0.1:%d" % gateway.port, b"Host: 127.0.0.1:%d" % port)
