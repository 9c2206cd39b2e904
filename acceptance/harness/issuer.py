"""A token endpoint that hands out token-1, token-2 and so on, and says how often it was asked."""

import http.server
import json
import threading
import time


class Issuer:
    def __init__(self):
        self.count = 0
        #: In seconds.
        self.lifetime = 3600
        #: When it has issued each token.
        self.issued = {}
        #: From now on it has no tokens to give.
        self.fails = False
        self.lock = threading.Lock()
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                if issuer.fails:
                    return self.send_error(503)
                with issuer.lock:
                    issuer.count += 1
                    name = f"token-{issuer.count}"
                    issuer.issued[name] = time.monotonic()
                    token = {"access_token": name, "token_type": "Bearer", "expires_in": issuer.lifetime}
                body = json.dumps(token).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def credential(self):
        return {
            "strategy": "oauth2_client_credentials",
            "token_url": f"http://127.0.0.1:{self.server.server_address[1]}/token",
            "client_id": "id",
            "client_secret": "of-the-issuer",
        }

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
