"""An upstream that asks for Digest (RFC 7616) and checks it by itself, as strictly as it is told."""

import hashlib
import itertools
import re
import threading

from .origin import RecordingOrigin, response

HASHES = {"MD5": "md5", "SHA-256": "sha256", "SHA-512-256": "sha512_256"}
#: A parameter of a field: a token or a quoted string.
PARAMETER = re.compile(r'([\w*-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))(?:, *|$)')


def parameters(text):
    """Those of a field, without its scheme; every byte of the text must belong to one."""
    found = {}
    while text:
        match = PARAMETER.match(text)
        assert match, text
        name, quoted, token = match.groups()
        assert name not in found, f"{name} stands there twice"
        found[name] = token if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        text = text[match.end() :]
    return found


class DigestServer:
    """Answers with what it was sent. `wrong` counts requests with a wrong response, `stale` those with a nonce that is over."""

    def __init__(self, user, password, algorithm="MD5", qop="auth", realm="test realm", more="", count="any"):
        self.user = user
        self.password = password
        self.algorithm = algorithm
        self.qop = qop
        self.realm = realm
        #: More parameters of the challenge.
        self.more = more
        #: Which counts it takes: any that it has not seen, growing ones, or the next one alone.
        self.count = count
        #: Sends `nextnonce`, and takes each nonce once.
        self.is_once = False
        self.says_stale = True
        self.lock = threading.Lock()
        self.numbers = itertools.count(1)
        #: The counts that each nonce was used with.
        self.nonces = {}
        self.accepted = self.challenged = self.wrong = self.stale = self.misplaced = 0
        self.origin = RecordingOrigin(self.serve)
        self.url = self.origin.url
        self.stop = self.origin.stop

    def expire(self):
        """From now on nobody knows the nonces that were used."""
        with self.lock:
            self.nonces.clear()

    def nonce(self):
        nonce = f"nonce+/={next(self.numbers)}"
        self.nonces[nonce] = []
        return nonce

    def challenge(self, is_stale=False):
        realm = re.sub(r'(["\\])', r"\\\1", self.realm)
        words = [f'realm="{realm}"', f'nonce="{self.nonce()}"', 'opaque="a b,c"']
        words += [f'qop="{self.qop}"'] if self.qop else []
        words += [f"algorithm={self.algorithm}"] if self.algorithm else []
        words += ["stale=true"] if is_stale else []
        words += [self.more] if self.more else []
        return response(401, b"", f"WWW-Authenticate: Digest {', '.join(words)}")

    def hash(self, *parts):
        name = HASHES[(self.algorithm or "MD5").removesuffix("-sess")]
        return hashlib.new(name, ":".join(parts).encode()).hexdigest()

    def serve(self, request):
        with self.lock:
            credentials = request.value("authorization")
            if credentials is None:
                self.challenged += 1
                return self.challenge()
            scheme, _, text = credentials.partition(" ")
            assert scheme == "Digest", credentials
            sent = parameters(text.encode("latin-1").decode())
            if not self.is_right(request, sent):
                self.wrong += 1
                return self.challenge()
            return self.judge(request, sent)

    def is_right(self, request, sent):
        hides = "userhash=true" in self.more
        user = self.hash(self.user, self.realm) if hides else self.user
        assert sent["username"] == user and sent.get("userhash", "false") == str(hides).lower()
        assert (sent["realm"], sent["uri"], sent["opaque"]) == (self.realm, request.target, "a b,c")
        assert sent.get("algorithm") == self.algorithm
        secret = self.hash(self.user, self.realm, self.password)
        wanted = self.hash(request.method, request.target)
        if not self.qop:
            assert not {"qop", "nc", "cnonce"} & set(sent)
            return sent["response"] == self.hash(secret, sent["nonce"], wanted)
        assert sent["qop"] == "auth" and re.fullmatch(r"[0-9a-f]{8}", sent["nc"]) and len(sent["cnonce"]) >= 16
        if (self.algorithm or "").endswith("-sess"):
            secret = self.hash(secret, sent["nonce"], sent["cnonce"])
        return sent["response"] == self.hash(secret, sent["nonce"], sent["nc"], sent["cnonce"], "auth", wanted)

    def judge(self, request, sent):
        used = self.nonces.get(sent["nonce"])
        if used is None:
            self.stale += 1
            return self.challenge(is_stale=self.says_stale)
        number = int(sent.get("nc", "0"), 16)
        assert not self.qop or number not in used, "a count was used twice"
        fits = {"any": True, "growing": number > max(used, default=0), "next": number == len(used) + 1}[self.count]
        used.append(number)
        if not fits:
            self.misplaced += 1
            # As Apache does it: what follows under this nonce is misplaced, too.
            return self.challenge()
        self.accepted += 1
        fields = ['Authentication-Info: qop=auth, rspauth="0123456789abcdef", cnonce="x", nc=00000001']
        if self.is_once:
            del self.nonces[sent["nonce"]]
            fields[0] += f', nextnonce="{self.nonce()}"'
        return response(200, f"{request.method} {request.target} ".encode() + request.body, *fields)
