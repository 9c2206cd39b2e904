"""An HTTP/2 client whose frames a test writes itself, where it wants to."""

import collections
import socket
import ssl
import struct

import h2.config
import h2.connection
import h2.events
import h2.exceptions


class Response:
    """What has come on one stream."""

    def __init__(self):
        self.informational = []
        self.status = None
        self.fields = []
        self.body = bytearray()
        self.trailers = None
        self.has_ended = False
        #: The code of a RST_STREAM.
        self.reset = None

    def value(self, name):
        values = [value for found, value in self.fields if found == name]
        assert len(values) <= 1, f"{name} came {len(values)} times"
        return values[0] if values else None


class Client:
    """One connection. Content that comes is credited at once, but for that of the streams in `held`."""

    def __init__(self, connection, seconds=15):
        self.connection = connection
        connection.settimeout(seconds)
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(
                client_side=True,
                header_encoding="utf-8",
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        # The library takes nothing more behind a GOAWAY, although streams that were begun go on (RFC 9113 section 6.8).
        is_open, goaway = h2.connection.ConnectionState.CLIENT_OPEN, h2.connection.ConnectionInputs.RECV_GOAWAY
        machine = self.h2.state_machine
        machine._transitions = {**machine._transitions, (is_open, goaway): (None, is_open)}
        self.responses = collections.defaultdict(Response)
        self.held = set()
        self.settings = None
        #: The code of a GOAWAY that is not NO_ERROR; "end" or "reset" when the connection has ended.
        self.goaways = []
        self.ended = None
        self.h2.initiate_connection()
        self.flush()

    def close(self):
        self.connection.close()

    def flush(self):
        self.send(self.h2.data_to_send())

    def send(self, data):
        try:
            self.connection.sendall(data)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self.ended = self.ended or "reset"

    @staticmethod
    def frame(kind, flags, stream, payload=b""):
        return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload

    # Requests

    @staticmethod
    def fields(path="/api/x", method="GET", authority="localhost", scheme="http", more=()):
        pseudo = [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path)]
        return [*pseudo, *more]

    def begin(self, *more, end=True, fields=None, **pseudo):
        """Sends a head; returns the stream."""
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, fields or self.fields(more=more, **pseudo), end_stream=end)
        self.flush()
        return stream

    def content(self, stream, data, end=True):
        """Sends content as the windows of the gateway allow."""
        rest = memoryview(data)
        while rest:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size, len(rest))
            if room == 0:
                self.receive()
                continue
            last = end and room == len(rest)
            self.h2.send_data(stream, bytes(rest[:room]), end_stream=last)
            self.flush()
            rest = rest[room:]
        if end and not data:
            self.h2.end_stream(stream)
            self.flush()

    def ask(self, *more, body=None, **pseudo):
        """One request and its whole response."""
        stream = self.begin(*more, end=body is None, **pseudo)
        if body is not None:
            self.content(stream, body)
        return self.finish(stream)

    # Responses

    def finish(self, *streams):
        """Reads until these streams have ended; returns the response of the first."""
        self.until(lambda: all(self.responses[one].has_ended or self.responses[one].reset is not None for one in streams))
        return self.responses[streams[0]]

    def until(self, holds):
        while not holds():
            assert not self.ended, f"the connection has ended: {self.ended}, {self.goaways}"
            self.receive()

    def until_end(self):
        """Reads until the gateway closes; returns the codes of its GOAWAY frames."""
        while not self.ended:
            self.receive()
        return self.goaways

    def receive(self):
        try:
            data = self.connection.recv(262_144)
        except (ConnectionResetError, ssl.SSLError):
            self.ended = "reset"
            return
        if not data:
            self.ended = "end"
            return
        try:
            events = self.h2.receive_data(data)
        except h2.exceptions.ProtocolError:
            if not self.ended and not self.goaways:
                raise
            return
        for event in events:
            self.take(event)
        self.flush()

    def take(self, event):
        match event:
            case h2.events.InformationalResponseReceived():
                self.responses[event.stream_id].informational.append(dict(event.headers)[":status"])
            case h2.events.ResponseReceived():
                response = self.responses[event.stream_id]
                response.status = int(dict(event.headers)[":status"])
                response.fields = [(name, value) for name, value in event.headers if not name.startswith(":")]
            case h2.events.DataReceived():
                self.responses[event.stream_id].body += event.data
                if event.stream_id not in self.held:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                else:
                    self.h2.increment_flow_control_window(max(1, event.flow_controlled_length))
            case h2.events.TrailersReceived():
                self.responses[event.stream_id].trailers = dict(event.headers)
            case h2.events.StreamEnded():
                self.responses[event.stream_id].has_ended = True
            case h2.events.StreamReset():
                self.responses[event.stream_id].reset = event.error_code
            case h2.events.RemoteSettingsChanged():
                self.settings = {key: change.new_value for key, change in event.changed_settings.items()}
            case h2.events.ConnectionTerminated():
                self.goaways.append(event.error_code)


def connect(port, seconds=15):
    """By prior knowledge."""
    return Client(socket.create_connection(("127.0.0.1", port), seconds), seconds)


def connect_over_tls(port, ca, name="localhost", seconds=15, connection=None):
    """By ALPN."""
    context = ssl.create_default_context(cafile=str(ca))
    context.set_alpn_protocols(["h2", "http/1.1"])
    plain = connection or socket.create_connection(("127.0.0.1", port), seconds)
    secured = context.wrap_socket(plain, server_hostname=name)
    assert secured.selected_alpn_protocol() == "h2"
    return Client(secured, seconds)
