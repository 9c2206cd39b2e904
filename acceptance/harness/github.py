"""GitHub's API for apps, and what takes the tokens: the API and git over HTTPS. It refuses any other wire form.

"Authenticating as a GitHub App installation" and "REST API endpoints for GitHub Apps".
"""

import base64
import datetime
import json
import time

import jwt

from .origin import RecordingOrigin, response

APP_ID = "123456"


class GitHub(RecordingOrigin):
    def __init__(self, keys):
        self.keys = keys
        #: Installations by the path where they are looked up.
        self.installed = {"/orgs/acme/installation": 42, "/users/ada/installation": 43}
        #: The body of each request for a token.
        self.asked = []
        self.tokens, self.lifetime = set(), 3600
        super().__init__(self.serve_github)

    def serve_github(self, request):
        kind = (request.value("authorization") or "").split(" ")[0]
        if request.target.startswith("/git/"):
            return response(200, b"welcome") if kind == "Basic" and self.password(request) in self.tokens else response(401)
        if request.target.startswith("/repos/"):
            return response(200, b"welcome") if kind == "Bearer" and self.bearer(request) in self.tokens else response(401)
        assert request.value("accept") == "application/vnd.github+json", request.fields
        assert request.value("x-github-api-version") == "2022-11-28", request.fields
        if (request.method, request.target) == ("DELETE", "/installation/token"):
            self.tokens.remove(self.bearer(request))
            return response(204)
        if (complaint := self.complaint(self.bearer(request))) is not None:
            return answer(401, {"message": complaint})
        return self.serve_app(request)

    def bearer(self, request):
        return request.value("authorization").removeprefix("Bearer ")

    def password(self, request):
        name, _, password = base64.b64decode(request.value("authorization").removeprefix("Basic ")).decode().partition(":")
        assert name == "x-access-token"
        return password

    def complaint(self, token):
        """What is wrong with the token of the app."""
        if jwt.get_unverified_header(token) != {"alg": "RS256", "typ": "JWT"}:
            return "A JSON web token could not be decoded"
        try:
            claims = jwt.decode(token, self.keys.public.read_text(), ["RS256"], options={"require": ["iat", "exp", "iss"]})
        except jwt.InvalidTokenError as error:
            return str(error)
        if set(claims) != {"iat", "exp", "iss"} or claims["iss"] != APP_ID:
            return "'Issuer' claim ('iss') must be an Integer"
        if claims["iat"] > time.time() - 30:
            return "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"
        if claims["exp"] > time.time() + 600:
            return "'Expiration time' claim ('exp') is too far in the future"
        return None

    def serve_app(self, request):
        if request.method == "GET":
            found = self.installed.get(request.target)
            return answer(200, {"id": found}) if found else answer(404, {"message": "Not Found"})
        parts = request.target.split("/")
        if request.method != "POST" or parts[:3] != ["", "app", "installations"] or parts[4:] != ["access_tokens"]:
            return answer(404, {"message": "Not Found"})
        if int(parts[3]) not in self.installed.values():
            return answer(404, {"message": "Not Found"})
        body = json.loads(request.body) if request.body else None
        if body is not None:
            assert request.value("content-type") == "application/json"
            assert set(body) <= {"repositories", "permissions"}
        self.asked.append(body)
        token = f"ghs_{len(self.asked):036}"
        self.tokens.add(token)
        end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=self.lifetime)
        return answer(201, {"token": token, "expires_at": end.strftime("%Y-%m-%dT%H:%M:%SZ"), "permissions": {"contents": "read"}})


def answer(status, content):
    return response(status, json.dumps(content).encode())
