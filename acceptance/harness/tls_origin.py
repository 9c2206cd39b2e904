"""An origin with TLS that answers by a table of paths, and only who has the credential."""

import http.server
import ssl
import threading

from .configs import CANARY


class TLSOrigin:
    """`answers` maps a path, without its query, to a content type and a body. Other paths are 404.

    Each request is in `seen` with its method, host, path, and whether it had the credential, which is `token`. Paths in `public` need none.
    """

    def __init__(self, certificate, key, port, answers, address="127.0.0.1", token=CANARY, public=()):
        self.answers = answers
        self.seen = []
        #: The fields of each request.
        self.heads = []
        #: The target of each request, with its query.
        self.targets = []
        origin = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                length = int(self.headers.get("Content-Length") or 0)
                self.rfile.read(length)
                path = self.path.split("?")[0]
                proved = self.headers.get_all("Authorization") == [f"Bearer {token}"]
                origin.heads.append(self.headers.items())
                origin.targets.append(self.path)
                origin.seen.append((self.command, self.headers["Host"], path, proved))
                status, (kind, body) = 200, origin.answers.get(path, (None, None))
                if not proved and path not in public:
                    status, kind, body = 401, "text/plain", b"no credential"
                elif body is None:
                    status, kind, body = 404, "text/plain", b"no such path"
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_HEAD = do_POST = do_PUT = answer

            def log_message(self, *_):
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def get_request(self):
                connection, address = super().get_request()
                # The handshake belongs to the thread of the connection.
                return context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

            def handle_error(self, *_):
                pass

        self.server = Server((address, port), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
