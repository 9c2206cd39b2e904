"""An API that accepts one form of self-signed token (RFC 7519) and answers 401 to every other."""

import time

import jwt

from .origin import RecordingOrigin, response


class SignedAPI(RecordingOrigin):
    """`header` and `claims` are exact; of `iat`, `exp` and `jti` only `lifetime` and `has_id` are known before."""

    def __init__(self, key, algorithm, claims, lifetime, header=None, has_id=False, field=("authorization", "Bearer ")):
        self.key, self.algorithm, self.claims, self.lifetime = key, algorithm, claims, lifetime
        self.header = {"alg": algorithm, "typ": "JWT", **(header or {})}
        self.has_id, self.field = has_id, field
        #: In order of arrival, each once.
        self.tokens, self.revoked, self.complaints = [], set(), []
        super().__init__(self.serve_token)

    def serve_token(self, request):
        complaint = self.complaint(request)
        if complaint is None:
            return response(200, b"welcome")
        self.complaints.append(complaint)
        return response(401, complaint.encode(), 'WWW-Authenticate: Bearer error="invalid_token"')

    def complaint(self, request):
        name, prefix = self.field
        value = request.value(name) or ""
        if not value.startswith(prefix):
            return "no token"
        token = value.removeprefix(prefix)
        if jwt.get_unverified_header(token) != self.header:
            return f"header {jwt.get_unverified_header(token)}"
        try:
            claims = jwt.decode(token, self.key, [self.algorithm], options={"verify_aud": False, "require": ["iat", "exp"]})
        except jwt.InvalidTokenError as error:
            return str(error)
        iat, exp, own = claims.pop("iat"), claims.pop("exp"), claims.pop("jti", None)
        if claims != self.claims or (own is not None) != self.has_id:
            return f"claims {claims}"
        if not isinstance(iat, int) or exp - iat != self.lifetime or iat > time.time():
            return f"from {iat} to {exp}"
        if token in self.revoked:
            return "revoked"
        if token not in self.tokens:
            self.tokens.append(token)
        return None
