"""An issuer of signed tokens for clients: its keys, its tokens, and its key set over HTTP."""

import base64
import hmac
import http.server
import json
import threading
import time
import warnings

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

ALGORITHMS = ["RS256", "PS256", "ES256", "EdDSA"]


class TokenIssuer:
    name = "https://issuer.example.com"

    def __init__(self):
        self.keys = {
            "RS256": RSAKey.generate_key(2048, {"kid": "rsa"}),
            "ES256": ECKey.generate_key("P-256", {"kid": "ec"}),
            "EdDSA": OKPKey.generate_key("Ed25519", {"kid": "ed"}),
        }
        self.keys["PS256"] = self.keys["RS256"]
        #: What the key set is answered with; None closes the connection.
        self.status = 200
        self.asked = 0
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                issuer.asked += 1
                body = json.dumps(issuer.key_set()).encode()
                self.send_response(issuer.status)
                self.send_header("Content-Type", "application/jwk-set+json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}/jwks"

    def key_set(self):
        return KeySet({key.kid: key for key in self.keys.values()}.values()).as_dict(private=False)

    def token(self, algorithm="ES256", key=None, kid=True, **changes):
        """A token for the subject `ci`; a claim that is None is left out."""
        now = int(time.time())
        claims = {"iss": self.name, "aud": "authgateway", "sub": "ci", "iat": now, "exp": now + 300, **changes}
        key = key or self.keys[algorithm]
        head = {"alg": algorithm, **({"kid": key.kid} if kid and key.kid else {})}
        registry = JWSRegistry(algorithms=ALGORITHMS)
        kept = {name: value for name, value in claims.items() if value is not None}
        with warnings.catch_warnings():
            # That the name of EdDSA is an old one.
            warnings.simplefilter("ignore")
            return jwt.encode(head, kept, key, algorithms=ALGORITHMS, registry=registry)

    def forged(self):
        """Signed with the public key as a shared secret: what a verifier would take that lets the token choose."""

        def encoded(data):
            return base64.urlsafe_b64encode(data).rstrip(b"=")

        head = encoded(json.dumps({"alg": "HS256", "kid": "rsa"}).encode())
        signed = head + b"." + self.token().split(".")[1].encode()
        secret = self.keys["RS256"].as_pem(private=False)
        return (signed + b"." + encoded(hmac.digest(secret, signed, "sha256"))).decode()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
