"""A token endpoint for signed assertions on a free loopback port: Authlib verifies, in Box's limits and Box's words.

Usage: python jwt_server.py PUBLIC_KEY_FILE LIFETIME_SECONDS CLOCK_OFFSET_SECONDS

Prints the port it listens on. `/oauth2/token` knows the assertion grant (RFC 7523 §2.1) for the issuers `box-app` (audience:
Box's literal one) and `robot` (audience: its own URL), and client credentials for the client `signer`, who proves itself
with private_key_jwt. `/oauth2/revoke` is RFC 7009 for the same clients. `/api/` wants one of its tokens. `/calls` lists what happened. The whole process lives
CLOCK_OFFSET_SECONDS away from the real time, `Date` fields included.
"""

import os
import pathlib
import sys
import time

PUBLIC_KEY = pathlib.Path(sys.argv[1]).read_text(encoding="ascii")
LIFETIME, OFFSET = int(sys.argv[2]), int(sys.argv[3])
real_time = time.time
time.time = lambda: real_time() + OFFSET

os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"

import logging

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2 import rfc6749, rfc7009, rfc7523
from flask import Flask, jsonify, request
from joserfc.jws import JWSRegistry
from werkzeug.serving import make_server

logging.getLogger("werkzeug").setLevel(logging.ERROR)
# Left to itself Authlib takes only what it recommends.
JWSRegistry.recommended += ["RS384", "RS512", "PS256", "ES384", "ES512"]
app = Flask("jwt_server")
BOX_AUDIENCE = "https://api.box.com/oauth2/token"
issued, used, calls = {}, set(), []


def own_url():
    return f"http://127.0.0.1:{server.server_port}/oauth2/token"


class Client(rfc6749.ClientMixin):
    def __init__(self, name, secret=None):
        self.client_id, self.client_secret = name, secret

    def get_client_id(self):
        return self.client_id

    def get_default_redirect_uri(self):
        return None

    def get_allowed_scope(self, scope):
        return scope or ""

    def check_redirect_uri(self, uri):
        return False

    def check_client_secret(self, secret):
        return self.client_secret is not None and secret == self.client_secret

    def check_endpoint_auth_method(self, method, endpoint):
        return self.client_id != "signer" or method == AssertionAuthentication.CLIENT_AUTH_METHOD

    def check_response_type(self, kind):
        return False

    def check_grant_type(self, grant):
        return True


CLIENTS = {"box-app": Client("box-app", "s3cret-of-box-app"), "robot": Client("robot"), "signer": Client("signer")}


def refuse(text):
    raise rfc6749.errors.InvalidGrantError(text)


def use_once(identifier):
    if not identifier or not 16 <= len(identifier) <= 128 or identifier in used:
        return False
    used.add(identifier)
    return True


class AssertionGrant(rfc7523.JWTBearerGrant):
    CLAIMS_OPTIONS = {name: {"essential": True} for name in ("iss", "sub", "aud", "exp")}

    def resolve_issuer_client(self, issuer):
        return CLIENTS.get(issuer)

    def resolve_client_public_key(self, client):
        return PUBLIC_KEY

    def get_audiences(self):
        return [BOX_AUDIENCE, own_url()]

    def authenticate_user(self, subject):
        return {"id": subject}

    def has_granted_permission(self, client, user):
        return True

    def verify_claims(self, claims):
        calls.append({"claims": dict(claims), "form": dict(request.form)})
        now = time.time()
        for name in ("iat", "nbf"):
            if claims.get(name, 0) > now:
                refuse(
                    "Current date/time MUST be after or equal to the not-before date/time listed in the 'nbf' or 'iat' claim"
                )
        if claims["exp"] <= now:
            refuse("Current date/time MUST be before the expiration date/time listed in the 'exp' claim")
        if claims["exp"] > now + 60:
            refuse("The 'exp' value exceeds the maximum value of 60 seconds beyond the issue time")
        if not use_once(claims.get("jti")):
            refuse("A unique 'jti' value is required")
        if claims["iss"] == "box-app":
            if claims["aud"] != BOX_AUDIENCE or claims.get("box_sub_type") not in ("enterprise", "user"):
                refuse("Please check the 'aud' claim.")
            if request.form.get("client_secret") != CLIENTS["box-app"].client_secret:
                raise rfc6749.errors.InvalidClientError("The client credentials are invalid")
            if claims["sub"] not in ("12345", "42"):
                refuse("Please check the 'sub' claim. The 'sub' specified is invalid.")
        super().verify_claims(claims)


class AssertionAuthentication(rfc7523.JWTBearerClientAssertion):
    def validate_jti(self, claims, jti):
        return use_once(jti)

    def resolve_client_public_key(self, client):
        return PUBLIC_KEY

    def get_audiences(self):
        return [own_url()]


class Issued:
    def __init__(self, value, client):
        self.value, self.client, self.end = value, client, time.time() + LIFETIME

    def check_client(self, client):
        return self.client is client


def save(token, context):
    issued[token["access_token"]] = Issued(token["access_token"], context.client)


class Revocation(rfc7009.RevocationEndpoint):
    CLIENT_AUTH_METHODS = [AssertionAuthentication.CLIENT_AUTH_METHOD, "client_secret_post", "none"]

    def query_token(self, text, hint):
        return issued.get(text)

    def revoke_token(self, token, request):
        del issued[token.value]


def make_token(grant_type, client, user=None, scope=None, expires_in=None, include_refresh_token=True):
    from authlib.common.security import generate_token

    token = {"access_token": generate_token(42), "token_type": "Bearer", "expires_in": LIFETIME}
    return {**token, "scope": scope} if scope else token


authority = AuthorizationServer(app, query_client=CLIENTS.get, save_token=save)
authority.register_token_generator("default", make_token)
authority.register_grant(AssertionGrant)


class ClientCredentials(rfc6749.ClientCredentialsGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = [AssertionAuthentication.CLIENT_AUTH_METHOD]


authority.register_grant(ClientCredentials)
authority.register_endpoint(Revocation)


@app.post("/oauth2/token")
def token():
    return authority.create_token_response()


@app.post("/oauth2/revoke")
def revoke():
    return authority.create_endpoint_response("revocation")


@app.get("/api/<path:rest>")
def api(rest):
    value = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if value in issued and issued[value].end > time.time():
        return jsonify(path=rest)
    return "", 401, {"WWW-Authenticate": 'Bearer realm="Service", error="invalid_token"'}


@app.get("/calls")
def list_calls():
    return jsonify(calls=calls, issued=len(issued))


@app.post("/forget")
def forget():
    issued.clear()
    return "", 204


server = make_server("127.0.0.1", 0, app, threaded=True)
authority.register_client_auth_method(
    AssertionAuthentication.CLIENT_AUTH_METHOD, AssertionAuthentication()
)
print(server.server_port, flush=True)
server.serve_forever()
