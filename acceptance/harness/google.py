"""The token endpoint of Google for service accounts, and an API that takes its tokens. It refuses any other wire form.

"Using OAuth 2.0 for Server to Server Applications": the form has `grant_type` and `assertion` and nothing else, and scopes are
a claim.
"""

import json
import time
import urllib.parse

import jwt

from .origin import RecordingOrigin, response
from .token_server import unsigned_jwt

EMAIL = "robot@project.iam.gserviceaccount.com"
KEY_ID = "1f2e3d4c"


class Google(RecordingOrigin):
    def __init__(self, keys):
        self.keys = keys
        #: The claims of each assertion that was accepted.
        self.claims = []
        self.tokens = set()
        super().__init__(self.serve_google)

    def key_file(self, **changes):
        """The JSON key that the console hands out."""
        return json.dumps(
            {
                "type": "service_account",
                "project_id": "project",
                "private_key_id": KEY_ID,
                "private_key": self.keys.private("plain"),
                "client_email": EMAIL,
                "client_id": "1234567890",
                "token_uri": self.url + "/token",
                **changes,
            }
        )

    def serve_google(self, request):
        if request.target.startswith("/api"):
            known = (request.value("authorization") or "").removeprefix("Bearer ") in self.tokens
            return response(200, b"welcome") if known else response(401)
        try:
            return response(200, json.dumps(self.token(request)).encode())
        except (AssertionError, jwt.InvalidTokenError) as error:
            return response(400, json.dumps({"error": "invalid_grant", "error_description": f"Invalid JWT: {error}"}).encode())

    def token(self, request):
        assert (request.method, request.target) == ("POST", "/token")
        assert request.value("content-type") == "application/x-www-form-urlencoded"
        assert request.value("authorization") is None
        form = urllib.parse.parse_qs(request.body.decode(), strict_parsing=True)
        assert set(form) == {"grant_type", "assertion"}, sorted(form)
        assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
        (assertion,) = form["assertion"]
        assert jwt.get_unverified_header(assertion) == {"alg": "RS256", "typ": "JWT", "kid": KEY_ID}
        claims = jwt.decode(assertion, self.keys.public.read_text(), ["RS256"], audience=self.url + "/token")
        assert claims["iss"] == EMAIL
        assert 0 < claims["exp"] - claims["iat"] <= 3600
        common = {"iss", "aud", "iat", "exp"}
        if "target_audience" in claims:
            assert set(claims) == common | {"target_audience"}, sorted(claims)
            token = unsigned_jwt(exp=time.time() + 3600, aud=claims["target_audience"])
            answer = {"id_token": token}
        else:
            assert set(claims) - {"sub"} == common | {"scope"}, sorted(claims)
            token = f"ya29.{len(self.claims)}"
            answer = {"access_token": token, "expires_in": 3599, "token_type": "Bearer"}
        self.claims.append(claims)
        self.tokens.add(token)
        return answer
