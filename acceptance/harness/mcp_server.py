"""An MCP server behind a login, by the SDK's own server and authorization server (RFC 7591, 8414, 9728), on loopback.

Usage: python mcp_server.py PORT LIFETIME_SECONDS

Prints a line when it listens. The resource is `/mcp`, and its tool `add` adds two numbers. Whoever opens the page of the login has logged
in. Codes and refresh tokens work once; a refresh token that comes again ends its login. `POST /change` with a JSON object sets what the
server does:

- `forget`: forgets all clients, as a server does that has lost its registrations.
- `revoke`: forgets all access tokens. Refresh tokens stay valid.
- `token_delay`: how long a renewal takes, in seconds.
- `needs`: a scope without which a call of a tool is refused, as the specification says; null for none.
- `wild`: how the server answers where a path has a certain word: `{"oauth-authorization-server": "endless"}`; see `Watched`.
- `forget_at_exchange`: how many of the next exchanges of a code do that first.
- `metadata`: members that replace those of the metadata of the authorization server; null removes one.
- `resource`: the same for the metadata of the resource.
- `iss`: what the answer to a login names as its issuer; null for nothing.

`GET /seen` has the registrations, the addresses of login pages, the forms of `/token`, the calls of `/mcp`, how often a refresh token came
again, and the paths that only a redirect leads to, so far.
"""

import asyncio
import json
import secrets
import sys
import time
import urllib.parse

import uvicorn
from mcp.server.auth.provider import AccessToken, AuthorizationCode, RefreshToken, TokenError, construct_redirect_uri
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthToken
from starlette.responses import JSONResponse, Response

PORT, LIFETIME = int(sys.argv[1]), int(sys.argv[2])
URL = f"http://127.0.0.1:{PORT}"
#: A scope that nothing asks for before a challenge names it.
MORE = "multiply"
#: More than the gateway reads of an answer.
HUGE = 2 << 20


class Logins:
    """Keeps clients, codes and tokens."""

    def __init__(self):
        self.clients, self.codes, self.access, self.refresh = {}, {}, {}, {}
        self.spent = set()
        self.forget_at_exchange = 0
        self.token_delay = 0
        self.iss = None

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client_info):
        # The SDK refuses scopes that a client has not registered, although a challenge may name them later.
        client_info.scope = f"{client_info.scope} {MORE}"
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client, params):
        code = AuthorizationCode(
            code=secrets.token_urlsafe(32),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state, iss=self.iss)

    async def load_authorization_code(self, client, authorization_code):
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client, authorization_code):
        del self.codes[authorization_code.code]
        return self._issue(client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client, refresh_token):
        if refresh_token in self.spent:
            seen["reuses"] += 1
            self.access.clear()
            self.refresh.clear()
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        if self.refresh.pop(refresh_token.token, None) is None:
            raise TokenError("invalid_grant")
        self.spent.add(refresh_token.token)
        await asyncio.sleep(self.token_delay)
        return self._issue(client, scopes, refresh_token.resource)

    def _issue(self, client, scopes, resource):
        if resource != f"{URL}/mcp":
            raise TokenError("invalid_target")
        access, refresh = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        common = {"client_id": client.client_id, "scopes": scopes, "resource": resource}
        self.access[access] = AccessToken(token=access, expires_at=int(time.time()) + LIFETIME, **common)
        self.refresh[refresh] = RefreshToken(token=refresh, **common)
        return OAuthToken(access_token=access, expires_in=LIFETIME, scope=" ".join(scopes), refresh_token=refresh)

    async def load_access_token(self, token):
        found = self.access.get(token)
        return found if found and found.expires_at > time.time() else None

    async def revoke_token(self, token):
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)


logins = Logins()
seen = {"registrations": [], "pages": [], "tokens": [], "calls": [], "reuses": 0, "followed": []}
changes = {"metadata": {}, "resource": {}, "needs": None, "wild": {}}
server = MCPServer(
    "calculator",
    auth_server_provider=logins,
    auth=AuthSettings(
        issuer_url=URL,
        resource_server_url=f"{URL}/mcp",
        validate_token_resource=True,
        required_scopes=["calculate"],
        client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["calculate", "offline_access", MORE]),
        revocation_options=RevocationOptions(enabled=True),
    ),
)


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.custom_route("/change", methods=["POST"])
async def change(request):
    wanted = await request.json()
    if wanted.pop("forget", False):
        logins.clients.clear()
    if wanted.pop("revoke", False):
        logins.access.clear()
    for name in ("forget_at_exchange", "token_delay", "iss"):
        if name in wanted:
            setattr(logins, name, wanted.pop(name))
    changes.update(wanted)
    return Response(status_code=204)


@server.custom_route("/seen", methods=["GET"])
async def show(request):
    return JSONResponse(seen)


class Watched:
    """Notes requests, changes what metadata say, and answers wildly: with a redirect (`redirect`), a document of 2 MiB (`huge`), one that
    never ends (`endless`), or one that comes a byte at a time (`slow`)."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        path = scope.get("path", "")
        if path.startswith("/followed"):
            seen["followed"].append(path)
        if wild := next((how for word, how in changes["wild"].items() if word in path), None):
            return await self._wild(wild, send)
        if path in ("/register", "/token", "/mcp") and scope["method"] == "POST":
            body, more = b"", True
            while more:
                message = await receive()
                body, more = body + message.get("body", b""), message.get("more_body", False)
            own, first = receive, True

            async def receive():
                nonlocal first
                if not first:
                    return await own()
                first = False
                return {"type": "http.request", "body": body, "more_body": False}

            if path == "/mcp":
                return await self._call(scope, receive, send, body)
            self._note(path, body)

        elif path == "/authorize":
            seen["pages"].append(dict(urllib.parse.parse_qsl(scope["query_string"].decode())))
        kind = {"oauth-authorization-server": "metadata", "oauth-protected-resource": "resource"}
        changed = next((changes[name] for word, name in kind.items() if path.startswith(f"/.well-known/{word}")), None)
        await self.app(scope, receive, self._changing(send, changed) if changed else send)

    async def _call(self, scope, receive, send, body):
        fields = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        message = json.loads(body)
        call = {"method": message.get("method"), "session": fields.get("mcp-session-id"), "status": None}
        seen["calls"].append(call)
        token = logins.access.get(fields.get("authorization", "").removeprefix("Bearer "))
        if token and changes["needs"] and call["method"] == "tools/call" and changes["needs"] not in token.scopes:
            call["status"] = 403
            metadata = f"{URL}/followed/resource-metadata"
            challenge = f'Bearer error="insufficient_scope", scope="{changes["needs"]}", resource_metadata="{metadata}"'
            await send({"type": "http.response.start", "status": 403, "headers": [(b"www-authenticate", challenge.encode())]})
            return await send({"type": "http.response.body", "body": b"{}"})

        async def noting(message):
            if message["type"] == "http.response.start":
                call["status"] = message["status"]
            await send(message)

        await self.app(scope, receive, noting)

    @staticmethod
    async def _wild(how, send):
        fields = [(b"content-type", b"application/json")]
        if how == "redirect":
            fields.append((b"location", f"{URL}/followed".encode()))
            await send({"type": "http.response.start", "status": 302, "headers": fields})
            return await send({"type": "http.response.body", "body": b""})
        await send({"type": "http.response.start", "status": 200, "headers": fields})
        # Longer than the gateway reads, and longer than it waits; not without end, because nobody tells that it has gone.
        part, pause, count = {"huge": (b" " * HUGE, 0, 0), "endless": (b" " * 65536, 0.01, 500), "slow": (b" ", 0.2, 150)}[how]
        for _ in range(count):
            await send({"type": "http.response.body", "body": part, "more_body": True})
            await asyncio.sleep(pause)
        await send({"type": "http.response.body", "body": part})

    def _note(self, path, body):
        if path == "/register":
            seen["registrations"].append(json.loads(body))
            return
        form = dict(urllib.parse.parse_qsl(body.decode()))
        seen["tokens"].append({name: form.get(name) for name in ("grant_type", "resource", "client_id", "redirect_uri")})
        if form["grant_type"] == "authorization_code" and logins.forget_at_exchange > 0:
            logins.forget_at_exchange -= 1
            logins.clients.clear()

    @staticmethod
    def _changing(send, changed):
        started = []

        async def changing(message):
            if message["type"] == "http.response.start":
                started.append(message)
                return
            document = {**json.loads(message["body"]), **changed}
            body = json.dumps({name: value for name, value in document.items() if value is not None}).encode()
            start = started.pop()
            fields = [field for field in start["headers"] if field[0].lower() != b"content-length"]
            await send({**start, "headers": [*fields, (b"content-length", str(len(body)).encode())]})
            await send({**message, "body": body})

        return changing


class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print("listening", flush=True)


if __name__ == "__main__":
    Server(uvicorn.Config(Watched(server.streamable_http_app()), port=PORT, log_level="warning")).run()
