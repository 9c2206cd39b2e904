"""An origin that speaks HTTP/2, with TLS and ALPN or by prior knowledge, and answers as a test says."""

import contextlib
import socket
import ssl
import threading

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
import hpack


def server_context(certificate, key, *protocols):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


class Stream:
    """One request, and what is sent for it."""

    def __init__(self, connection, number, fields):
        self.connection = connection
        self.number = number
        self.fields = [(field[0], field[1]) for field in fields]
        self.never_indexed = {field[0] for field in fields if isinstance(field, hpack.NeverIndexedHeaderTuple)}
        self.body = bytearray()
        self.trailers = None
        self.is_complete = False
        self.is_reset = False
        self.is_over = False
        self.waiting = bytearray()
        self.end = None

    def values(self, name):
        return [value for known, value in self.fields if known == name]

    def value(self, name):
        [value] = self.values(name)
        return value

    @property
    def path(self):
        return self.value(":path")

    def head(self, status, *fields, end=False):
        self.connection.h2.send_headers(self.number, [(":status", str(status)), *fields], end_stream=end)
        if end:
            self.ended()

    def answer(self, status=200, body=b"", fields=(), trailers=None):
        """Sends the body as the windows allow."""
        self.head(status, *fields, end=not body and trailers is None)
        if body or trailers is not None:
            self.send(body, end=True, trailers=trailers)

    def send(self, body, end=False, trailers=None):
        self.waiting += body
        if end:
            self.end = trailers or []
        self.pump()

    def pump(self):
        connection = self.connection.h2
        while self.waiting and not self.is_reset:
            room = min(connection.local_flow_control_window(self.number), connection.max_outbound_frame_size)
            if room <= 0:
                return
            part = bytes(self.waiting[:room])
            # From the front, which copies nothing.
            del self.waiting[:room]
            is_last = not self.waiting and self.end == []
            connection.send_data(self.number, part, end_stream=is_last)
            if is_last:
                self.ended()
        if not self.waiting and self.end is not None and not self.is_reset:
            if self.end:
                connection.send_headers(self.number, self.end, end_stream=True)
            else:
                connection.end_stream(self.number)
            self.ended()

    def ended(self):
        self.end = None
        if not self.is_over:
            self.is_over = True
            self.connection.open -= 1

    def reset(self, code):
        self.connection.h2.reset_stream(self.number, code)
        self.ended()


class Connection:
    def __init__(self, origin, sock, protocol):
        self.origin = origin
        self.sock = sock
        self.protocol = protocol
        self.lock = threading.RLock()
        self.streams = {}
        self.open = 0
        self.most_open = 0
        self.pings = 0
        self.goaways = 0
        self.ended = threading.Event()
        settings = h2.config.H2Configuration(client_side=False, header_encoding="utf-8", **origin.checks)
        self.h2 = h2.connection.H2Connection(config=settings)

    def run(self):
        with self.lock:
            # In the first SETTINGS, not behind it.
            self.h2.local_settings = h2.settings.Settings(client=False, initial_values=self.origin.settings)
            self.h2.initiate_connection()
            self.origin.connected(self)
            self.flush()
        with contextlib.suppress(OSError, h2.exceptions.ProtocolError):
            while data := self.sock.recv(65536):
                with self.lock:
                    for event in self.h2.receive_data(data):
                        self.handle(event)
                    self.flush()
        with contextlib.suppress(OSError):
            self.sock.close()
        self.ended.set()

    def flush(self):
        with self.lock, contextlib.suppress(OSError):
            self.sock.sendall(self.h2.data_to_send())

    def raw(self, data):
        """Bytes that the library would not send."""
        with self.lock, contextlib.suppress(OSError):
            self.sock.sendall(data)

    def handle(self, event):
        match event:
            case h2.events.RequestReceived():
                stream = Stream(self, event.stream_id, event.headers)
                self.streams[event.stream_id] = stream
                self.open += 1
                self.most_open = max(self.most_open, self.open)
                with self.origin.lock:
                    self.origin.requests.append(stream)
                self.origin.began(stream)
            case h2.events.DataReceived():
                stream = self.streams[event.stream_id]
                stream.body += event.data
                if self.origin.takes:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                self.origin.came(stream)
            case h2.events.TrailersReceived():
                self.streams[event.stream_id].trailers = list(event.headers)
            case h2.events.StreamEnded():
                stream = self.streams[event.stream_id]
                stream.is_complete = True
                # The client may have reset it in the same read; other streams go on.
                with contextlib.suppress(h2.exceptions.StreamClosedError):
                    self.origin.respond(stream)
            case h2.events.StreamReset():
                stream = self.streams[event.stream_id]
                stream.is_reset = True
                stream.ended()
                self.origin.resets.append((event.stream_id, event.error_code))
            case h2.events.WindowUpdated() | h2.events.RemoteSettingsChanged():
                number = getattr(event, "stream_id", 0)
                for stream in [self.streams[number]] if number else list(self.streams.values()):
                    if stream.waiting:
                        stream.pump()
            case h2.events.PingReceived():
                self.pings += 1
            case h2.events.ConnectionTerminated():
                self.goaways += 1

    def stop(self):
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self.sock.close()


class HTTP2Origin:
    """`respond(stream)` is called for each complete request, `began(stream)` for each head, `came(stream)` for content,
    `connected(connection)` for each connection. Without TLS it speaks HTTP/2 at once."""

    def __init__(self, tls=None, settings=None, **checks):
        self.tls = tls
        self.settings = settings or {}
        #: Of the library: `validate_outbound_headers=False` and the like.
        self.checks = checks
        self.respond = lambda stream: stream.answer(200, b"ok")
        self.began = lambda stream: None
        self.came = lambda stream: None
        self.connected = lambda connection: None
        #: Content is acknowledged, so that more may come.
        self.takes = True
        self.requests = []
        self.connections = []
        self.resets = []
        #: Connections that spoke something else, with the first bytes.
        self.others = []
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def url(self):
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        protocol = None
        if self.tls:
            try:
                sock = self.tls.wrap_socket(sock, server_side=True)
            except OSError:
                return
            protocol = sock.selected_alpn_protocol()
            if protocol != "h2":
                return self.serve_http1(sock, protocol)
        connection = Connection(self, sock, protocol)
        with self.lock:
            self.connections.append(connection)
        connection.run()

    def serve_http1(self, sock, protocol):
        with contextlib.suppress(OSError):
            data = b""
            while b"\r\n\r\n" not in data:
                part = sock.recv(65536)
                if not part:
                    return
                data += part
            self.others.append((protocol, data))
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nh1")
            sock.close()

    def stop(self):
        self.listener.close()
        for connection in list(self.connections):
            connection.stop()
