"""A token server of one's own, as `delegated` asks it: a token for each user, and a record of who asked and how."""

import base64
import http.server
import json
import ssl
import threading

from .origin import response


class Asked:
    """One request for a token."""

    def __init__(self, handler, body):
        self.method = handler.command
        self.target = handler.path
        self.headers = handler.headers
        self.body = body
        certificate = handler.connection.getpeercert() if isinstance(handler.connection, ssl.SSLSocket) else None
        #: The common name of the client's certificate.
        self.client = dict(pair for name in certificate["subject"] for pair in name)["commonName"] if certificate else None

    @property
    def user(self):
        return self.target.rpartition("id=")[2]


class TokenServer:
    """Answers with `answer(asked, token)`: a status, header fields and a body; `token` is a new one for that user."""

    def __init__(self, tls=None):
        self.answer = lambda asked, token: (200, {}, json.dumps({"access_token": token, "expires_in": 3600}))
        self.requests = []
        self.lock = threading.Lock()
        #: Cleared by a test that wants to see somebody wait.
        self.open = threading.Event()
        self.open.set()
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                owner.serve(self, Asked(self, body))

            do_POST = do_PUT = do_GET

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *_):
                """A client that left, or whose certificate is none of ours."""

            def finish_request(self, connection, address):
                # On the thread of the connection: a handshake that never ends holds up nobody else.
                if tls:
                    connection = tls.wrap_socket(connection, server_side=True)
                super().finish_request(connection, address)

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def serve(self, handler, asked):
        with self.lock:
            self.requests.append(asked)
            token = f"token-{len(self.requests)}-of-{asked.user}"
        self.open.wait(30)
        status, fields, body = self.answer(asked, token)
        handler.send_response(status)
        for name, value in fields.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body.encode())

    def count(self):
        with self.lock:
            return len(self.requests)

    def users(self):
        with self.lock:
            return [asked.user for asked in self.requests]

    def stop(self):
        self.open.set()
        self.server.shutdown()
        self.server.server_close()


def unsigned_jwt(**claims):
    """An access token that names its own expiration, as some authorities issue them."""
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({"alg": "none"}, claims)]
    return ".".join([*parts, "c2ln"])


def who(request):
    """For an origin: says which token came."""
    return response(200, (request.value("authorization") or "nobody").encode())


def server_context(authority, certificate, key):
    """TLS that wants a certificate of `authority` from its clients."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    return context
