"""A real OAuth 2.0 server with a resource server beside it: django-oauth-toolkit on loopback.

Usage: python oauth_server.py DATABASE PORT LIFETIME_SECONDS TOKEN_DELAY_SECONDS

Prints a line when it listens. `POST /reset` with `{"lifetime": SECONDS, "token_delay": SECONDS}` makes it as new:
calls under way end without effect, and the database is what it was at the start.

`/o/authorize/`, `/o/token/` and `/o/revoke_token/` are django-oauth-toolkit's own; `/api/` wants one of its tokens and
answers with what arrived. The client `cc` (client credentials) has the secret `s3cret-of-cc`,
the client `pw` (password) `s3cret-of-pw`, the client `web` (authorization code, PKCE) `s3cret-of-web`; the person is `ada` with the password `pw-of-ada`.
Refresh tokens count once: the reuse of a spent one ends all that came from the same login, at once.
"""

import contextlib
import json
import socketserver
import sqlite3
import sys
import threading

sys.modules["oauth_server"] = sys.modules["__main__"]

import django
from django.conf import settings

DATABASE, PORT = sys.argv[1], int(sys.argv[2])


class Rounds:
    """How the server answers, and which requests are under way; a reset begins the next round."""

    def __init__(self, lifetime, token_delay):
        self.changed = threading.Condition()
        self.number = self.under_way = 0
        #: A copy of the database as it was when it had been set up.
        self.fresh = sqlite3.connect(":memory:", check_same_thread=False)
        self.lifetime, self.token_delay = lifetime, token_delay

    def keep(self):
        with contextlib.closing(sqlite3.connect(DATABASE, timeout=20)) as database:
            database.backup(self.fresh)

    @contextlib.contextmanager
    def request(self):
        with self.changed:
            self.under_way += 1
            number = self.number
        try:
            yield number
        finally:
            with self.changed:
                self.under_way -= 1
                self.changed.notify_all()

    def waits_in_vain(self, number):
        """Waits as long as a token call takes; true when its round ended meanwhile."""
        with self.changed:
            return self.changed.wait_for(lambda: self.number != number, self.token_delay)

    def reset(self, lifetime, token_delay):
        with self.changed:
            self.number += 1
            self.changed.notify_all()
            if not self.changed.wait_for(lambda: self.under_way == 0, 20):
                raise TimeoutError("requests of an earlier test do not end")
            with contextlib.closing(sqlite3.connect(DATABASE, timeout=20)) as database:
                self.fresh.backup(database)
            self.lifetime, self.token_delay = lifetime, token_delay


rounds = Rounds(int(sys.argv[3]), float(sys.argv[4]))
CLIENTS = [
    {"client_id": "cc", "secret": "s3cret-of-cc", "authorization_grant_type": "client-credentials"},
    {"client_id": "pw", "secret": "s3cret-of-pw", "authorization_grant_type": "password"},
    {
        "client_id": "web",
        "secret": "s3cret-of-web",
        "authorization_grant_type": "authorization-code",
        # Any port of loopback (RFC 8252, 7.3), and two places where no listener of ours is.
        "redirect_uris": "http://127.0.0.1/callback https://apps.example.com/callback boxsdk-web://boxsdkoauth2redirect",
    },
]
LOGIN_PAGE = """<!doctype html><title>Sign in</title>
<form method="post">{% csrf_token %}{{ form.as_p }}<button id="sign-in">Sign in</button></form>"""

settings.configure(
    DEBUG=False,
    SECRET_KEY="only-for-tests",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF="oauth_server",
    USE_TZ=True,
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    # The default hasher takes half a second on purpose; these secrets protect nothing.
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": DATABASE,
            "OPTIONS": {
                "timeout": 20,
                "transaction_mode": "IMMEDIATE",
                # Nobody reads it after a crash, and a disk that is busy elsewhere takes seconds for each change.
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF",
            },
        }
    },
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "oauth2_provider"],
    MIDDLEWARE=[
        "oauth_server.in_rounds",
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
    ],
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "OPTIONS": {
                "context_processors": ["django.template.context_processors.request"],
                "loaders": [
                    ("django.template.loaders.locmem.Loader", {"registration/login.html": LOGIN_PAGE}),
                    "django.template.loaders.app_directories.Loader",
                ],
            },
        }
    ],
    LOGIN_URL="/login/",
    OAUTH2_PROVIDER={
        "SCOPES": {"read": "r", "write": "w"},
        "ACCESS_TOKEN_EXPIRE_SECONDS": lambda request: rounds.lifetime,
        "ALLOWED_REDIRECT_URI_SCHEMES": ["http", "https", "boxsdk-web"],
        "PKCE_REQUIRED": True,
        "ROTATE_REFRESH_TOKEN": True,
        "REFRESH_TOKEN_REUSE_PROTECTION": True,
        "REFRESH_TOKEN_GRACE_PERIOD_SECONDS": 0,
    },
)
django.setup()

from django.core.servers.basehttp import WSGIRequestHandler, WSGIServer
from django.contrib.auth.views import LoginView
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse, JsonResponse
from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt
from oauth2_provider.oauth2_backends import get_oauthlib_core


def in_rounds(get_response):
    def respond(request):
        if request.path == "/reset":
            rounds.reset(**json.loads(request.body))
            return HttpResponse(status=204)
        with rounds.request() as number:
            if rounds.token_delay and request.path == "/o/token/" and rounds.waits_in_vain(number):
                return HttpResponse(status=503)
            return get_response(request)

    return respond


@csrf_exempt
def api(request, rest):
    valid, _ = get_oauthlib_core().verify_request(request, scopes=["read"])
    if not valid:
        return HttpResponse(status=401, headers={"WWW-Authenticate": 'Bearer realm="api", error="invalid_token"'})
    return JsonResponse({"method": request.method, "path": rest, "length": len(request.body)})


urlpatterns = [
    path("login/", LoginView.as_view()),
    path("o/", include("oauth2_provider.urls", namespace="oauth2_provider")),
    path("api/<path:rest>", api),
]


class QuietHandler(WSGIRequestHandler):
    def log_message(self, format, *args):
        pass


class Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 1024


def main():
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from oauth2_provider.models import Application

    call_command("migrate", verbosity=0)
    for client in CLIENTS:
        settings = {"client_type": "confidential", **client}
        secret = settings.pop("secret")
        application, created = Application.objects.get_or_create(client_id=settings.pop("client_id"), defaults=settings)
        if created:
            application.client_secret = secret
            application.save()
    people = get_user_model().objects
    if not people.filter(username="ada").exists():
        people.create_user("ada", password="pw-of-ada")
    rounds.keep()
    server = Server(("127.0.0.1", PORT), QuietHandler)
    server.set_app(get_wsgi_application())
    print("listening", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
