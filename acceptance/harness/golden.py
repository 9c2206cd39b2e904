"""Golden files of what leaves the gateway for a preset (acceptance/presets/wire), and a server that refuses anything else.

A file has the parameters (`with`), variables (`environment`), `files` and `programs` of the preset, its `login` where a person has to
log in, and `exchanges`: what a client sends to a route, with which `headers` where a dummy will not do, and the requests that leave the
gateway for it, in order. A value of `any` is not compared, also in the query of a request. `sigv4` is the region and service of a
signature of AWS.
"""

import base64
import dataclasses
import datetime
import hashlib
import hmac
import http.server
import json
import pathlib
import re
import ssl
import threading
import time
import urllib.parse

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

from . import sigv4
from .gateway import ROOT

FOLDER = pathlib.Path(__file__).parents[1] / "presets" / "wire"
PRESETS = ROOT / "Sources/CPresets/presets"

#: Fields of the connection and the message, and those of the test's client. Any other field has to be in the golden file.
COMMON = {"host", "via", "connection", "content-length", "accept", "accept-encoding", "user-agent"}


class Golden:
    def __init__(self, path):
        self.name = path.stem
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        self.parameters = content.get("with", {})
        self.environment = content.get("environment", {})
        self.files = content.get("files", {})
        self.programs = content.get("programs", {})
        self.login = content.get("login")
        self.exchanges = content["exchanges"]

    def __repr__(self):
        return self.name

    @property
    def steps(self):
        """Every request that leaves the gateway."""
        login = self.login["wire"] if self.login else []
        return login + [step for exchange in self.exchanges for step in exchange["wire"]]

    def route(self, exchange):
        """The name that `authgateway add` gives the route."""
        return f"{self.name}-{exchange['route']}" if "route" in exchange else self.name

    def configuration(self, routes):
        """What `authgateway add` writes. `routes` are the preset's."""
        used = {"with": self.parameters} if self.parameters else {}
        own = {}
        for index, (route, content) in enumerate(routes.items()):
            name, preset = (self.name, self.name) if index == 0 else (f"{self.name}-{route}", f"{self.name}/{route}")
            own[name] = {"preset": preset, **(used if "${" in json.dumps(content) else {}), "auth": self.name}
        return {self.name: {"preset": self.name, **used}}, own


def goldens():
    return [Golden(path) for path in sorted(FOLDER.glob("*.yaml"), key=lambda path: path.stem)]


def presets():
    """What the files of the presets say, by name. Every scalar is a text, also one that looks like a date."""
    files = [yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader) for path in sorted(PRESETS.glob("*.yaml"))]
    return {name: preset for file in files for name, preset in file.items()}


class Keys:
    """A key pair of each kind, and a certificate. In golden files these words stand for them:

    - PRIVATE KEY, PRIVATE KEY P-256 and CERTIFICATE (of the first) for their text in PEM,
    - FINGERPRINT for the digest of the public RSA key, as Snowflake writes it,
    - THUMBPRINT for the digest of the certificate (RFC 7515 section 4.1.8).
    """

    def __init__(self):
        self.rsa = rsa.generate_private_key(65537, 2048)
        self.ec = ec.generate_private_key(ec.SECP256R1())
        form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        self.texts = {name: key.private_bytes(*form).decode() for name, key in (("PRIVATE KEY", self.rsa), ("PRIVATE KEY P-256", self.ec))}

        public = self.rsa.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        certificate = self_signed(self.rsa)
        self.texts["CERTIFICATE"] = certificate.public_bytes(serialization.Encoding.PEM).decode()
        self.words = {
            "FINGERPRINT": "SHA256:" + base64.b64encode(hashlib.sha256(public).digest()).decode(),
            "THUMBPRINT": base64.urlsafe_b64encode(certificate.fingerprint(hashes.SHA256())).decode().rstrip("="),
        }

    def fill(self, value):
        if isinstance(value, dict):
            return {name: self.fill(own) for name, own in value.items()}
        return self.texts.get(value, value)

    def spelt(self, value):
        """A claim or a member of a header with the digests in it."""
        if isinstance(value, str):
            for word, digest in self.words.items():
                value = value.replace(word, digest)
        return value

    def environment(self, value):
        filled = self.fill(value)
        return filled if isinstance(filled, str) else json.dumps(filled)

    def verify(self, token, algorithm):
        signed, _, signature = token.rpartition(".")
        raw = decoded(signature)
        if algorithm == "ES256":
            half = len(raw) // 2
            raw = utils.encode_dss_signature(int.from_bytes(raw[:half], "big"), int.from_bytes(raw[half:], "big"))
            self.ec.public_key().verify(raw, signed.encode(), ec.ECDSA(hashes.SHA256()))
        else:
            salted = padding.PSS(padding.MGF1(hashes.SHA256()), 32)
            form = salted if algorithm == "PS256" else padding.PKCS1v15()
            self.rsa.public_key().verify(raw, signed.encode(), form, hashes.SHA256())


def self_signed(key):
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "golden")])
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=90))
    return builder.sign(key, hashes.SHA256())


def decoded(part):
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


@dataclasses.dataclass
class Arrived:
    """A request as the server has read it."""

    method: str
    url: str
    target: str
    fields: list
    body: str


class Comparison:
    """What differs between a request and a step of a golden file."""

    def __init__(self, keys):
        self.keys = keys
        self.differences = []

    def of(self, step, arrived):
        request = f"{arrived.method} {arrived.url}"
        for name in re.findall(r"[?&](\w+)=any\b", step["request"]):
            request = re.sub(rf"([?&]{name}=)[^&]+", r"\1any", request)
        self.equal("the request", step["request"], request)
        expected = step.get("headers", {})
        found = [(name, value) for name, value in arrived.fields if name in expected or name.lower() not in COMMON]
        self.equal("the names of fields", sorted(expected), sorted(name for name, _ in found))
        for name, value in found:
            if name in expected and "hmac" in expected[name]:
                self.password(name, expected[name], value, dict(found))
            elif name in expected and "sigv4" in expected[name]:
                self.signature(expected[name], arrived)
            elif name in expected:
                self.value(name, expected[name], value)
        if "form" in step:
            pairs = urllib.parse.parse_qsl(arrived.body, keep_blank_values=True, strict_parsing=True)
            self.equal("the names in the form", list(step["form"]), [name for name, _ in pairs])
            for name, value in pairs:
                self.value(name, step["form"].get(name), value)
        else:
            self.equal("the body", step.get("body", ""), arrived.body)
        return self.differences

    def equal(self, what, expected, found):
        if expected != found:
            self.differences.append(f"{what}: {expected!r} expected, {found!r} found")

    def value(self, what, expected, found):
        if isinstance(expected, dict):
            scheme, _, token = found.rpartition(" ")
            self.equal(f"the scheme of {what}", expected.get("scheme", ""), scheme)
            self.token(what, expected["jwt"], token)
        elif expected != "any":
            self.equal(what, expected, found)

    def password(self, what, expected, found, fields):
        """A signature as the password of a user. In the message, names in braces stand for fields, and `inner` for a digest."""
        inner = hashlib.new(expected["hmac"], expected.get("inner", "").format(**fields).encode()).hexdigest()
        message = expected["message"].format(**fields, inner=inner).encode()
        password = hmac.new(expected["key"].encode(), message, expected["hmac"]).hexdigest()
        self.equal(what, "Basic " + base64.b64encode(f"{expected['user']}:{password}".encode()).decode(), found)

    def signature(self, expected, arrived):
        key, _, *scope = sigv4.part(arrived, "Credential").split("/")
        self.equal("the key of the signature", expected["key"], key)
        self.equal("the scope of the signature", [*expected["sigv4"].split("/"), "aws4_request"], scope)
        self.equal("the signature", sigv4.signature(arrived, expected["secret"]), sigv4.part(arrived, "Signature"))

    def token(self, what, expected, found):
        header, claims = (json.loads(decoded(part)) for part in found.split(".")[:2])
        self.equal(f"the header of {what}", {name: self.keys.spelt(value) for name, value in expected["header"].items()}, header)
        self.equal(f"the names of claims of {what}", sorted(expected["claims"]), sorted(claims))
        for name, value in expected["claims"].items():
            self.claim(f"{name} of {what}", value, claims.get(name))
        self.keys.verify(found, header["alg"])

    def claim(self, what, expected, found):
        expected = self.keys.spelt(expected)
        if str(expected).startswith("now"):
            off = int(str(expected)[3:] or 0)
            if not isinstance(found, int) or abs(found - time.time() - off) > 10:
                self.differences.append(f"{what}: {expected} expected, now{found - time.time():+.0f} found")
        elif expected != "any":
            self.equal(what, expected, found)


class ServiceDouble:
    """Stands for all services: it answers the requests that were announced, in their order, and refuses any other with 400."""

    def __init__(self, certificate, key, ports, keys):
        self.keys = keys
        self.announced = []
        self.failures = []
        self.lock = threading.Lock()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        self.servers = [self._serve(port, context) for port in sorted(ports)]

    def _serve(self, port, context):
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self):
                super().handle_one_request()
                # No connection is kept: each exchange is one of its own.
                self.close_connection = True

            def serve(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                url = f"https://{self.headers['Host']}{self.path}"
                status, fields, answer = owner.answer(Arrived(self.command, url, self.path, self.headers.items(), body))
                content = json.dumps(answer).encode()
                self.send_response(status)
                for name, value in fields.items():
                    self.send_header(name, value)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = serve

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def finish_request(self, connection, address):
                with context.wrap_socket(connection, server_side=True) as secure:
                    super().finish_request(secure, address)

            def handle_error(self, *_):
                """A client that left."""

        server = Server(("127.0.0.1", port), Handler)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return server

    def announce(self, steps):
        with self.lock:
            self.announced, self.failures = list(steps), []

    def answer(self, arrived):
        with self.lock:
            step = self.announced.pop(0) if self.announced else None
            if step is None:
                self.failures.append(f"{arrived.method} {arrived.url}: nothing was expected any more")
                return 400, {}, {}
            try:
                differences = Comparison(self.keys).of(step, arrived)
            except Exception as error:  # A request that cannot be read is a difference, too.
                differences = [f"{type(error).__name__}: {error}"]
            if differences:
                self.failures += [f"{step['request']}: {difference}" for difference in differences]
                return 400, {}, {}
            return step.get("status", 200), step.get("fields", {}), step.get("answer", {})

    def problems(self):
        """Empty when exactly what was announced has arrived."""
        with self.lock:
            return self.failures + [f"{step['request']} did not arrive" for step in self.announced]

    def stop(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()
