"""A real OAuth 2.0 server with a resource server beside it: django-oauth-toolkit on loopback.

Usage: python oauth_server.py DATABASE PORT LIFETIME_SECONDS TOKEN_DELAY_SECONDS

Prints a line when it listens. `POST /reset` with `{"lifetime": SECONDS, "token_delay": SECONDS, "grace": SECONDS}` begins a new test
run: calls in progress end without effect, and the database is again as it was at the start. `POST /change` with some of these changes
them within a run. `GET /calls` has the answers of `/o/token/` in this run: how many of each grant and outcome.

`/o/authorize/`, `/o/token/` and `/o/revoke_token/` are django-oauth-toolkit's own. `/api/` requires one of its tokens and describes
the request that it received.

The clients are `cc` (client credentials, secret `s3cret-of-cc`), `pw` (password, `s3cret-of-pw`) and `web` (authorization code with
PKCE, `s3cret-of-web`). The person is `ada` with the password `pw-of-ada`. A refresh token works once. The reuse of a spent refresh
token revokes all tokens of the same login at once. During the seconds of `grace` it gets the same answer again instead.
"""

import collections
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


class TestRuns:
    """The settings of the present test run, and its requests in progress. A reset begins the next run."""

    def __init__(self, lifetime, token_delay):
        self.changed = threading.Condition()
        self.number = self.under_way = 0
        #: A copy of the database after its setup.
        self.fresh = sqlite3.connect(":memory:", check_same_thread=False)
        self.lifetime, self.token_delay = lifetime, token_delay
        self.calls = collections.Counter()

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

    def is_cancelled_during_delay(self, number):
        """Waits for `token_delay`. True if the test run of the request ended meanwhile."""
        with self.changed:
            return self.changed.wait_for(lambda: self.number != number, self.token_delay)

    def count(self, request, response):
        outcome = "ok" if response.status_code == 200 else json.loads(response.content or "{}").get("error", "other")
        with self.changed:
            self.calls[f"{request.POST.get('grant_type')} {outcome}"] += 1

    def reset(self, lifetime, token_delay, grace=0):
        with self.changed:
            self.number += 1
            self.changed.notify_all()
            if not self.changed.wait_for(lambda: self.under_way == 0, 20):
                raise TimeoutError("requests of the previous test run do not end")
            with contextlib.closing(sqlite3.connect(DATABASE, timeout=20)) as database:
                self.fresh.backup(database)
            self.calls.clear()
            self.change(lifetime=lifetime, token_delay=token_delay, grace=grace)

    def change(self, **settings):
        for name, value in settings.items():
            if name == "grace":
                oauth2_settings.REFRESH_TOKEN_GRACE_PERIOD_SECONDS = value
            else:
                setattr(self, name, value)


runs = TestRuns(int(sys.argv[3]), float(sys.argv[4]))
CLIENTS = [
    {"client_id": "cc", "secret": "s3cret-of-cc", "authorization_grant_type": "client-credentials"},
    {"client_id": "pw", "secret": "s3cret-of-pw", "authorization_grant_type": "password"},
    {
        "client_id": "web",
        "secret": "s3cret-of-web",
        "authorization_grant_type": "authorization-code",
        # Any port of loopback (RFC 8252 section 7.3), and two addresses where the gateway has no listener.
        "redirect_uris": "http://127.0.0.1/callback https://apps.example.com/callback boxsdk-web://boxsdkoauth2redirect",
    },
]
LOGIN_PAGE = """<!doctype html><title>Sign in</title>
<form method="post">{% csrf_token %}{{ form.as_p }}<button id="sign-in">Sign in</button></form>"""

settings.configure(
    DEBUG=False,
    SECRET_KEY="only-for-tests",
    # Without it, Django would mail to nobody why it answers 500.
    LOGGING={
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"stderr": {"class": "logging.StreamHandler"}},
        "loggers": {"django.request": {"handlers": ["stderr"], "level": "ERROR", "propagate": False}},
    },
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF="oauth_server",
    USE_TZ=True,
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    # The default hasher takes half a second on purpose. These secrets protect nothing.
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": DATABASE,
            "OPTIONS": {
                "timeout": 20,
                "transaction_mode": "IMMEDIATE",
                # No test reads the database after a crash. On a busy disk each synchronous write takes seconds.
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF",
            },
        }
    },
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "oauth2_provider"],
    MIDDLEWARE=[
        "oauth_server.track_requests",
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
        "ACCESS_TOKEN_EXPIRE_SECONDS": lambda request: runs.lifetime,
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
from oauth2_provider.settings import oauth2_settings


def track_requests(get_response):
    def respond(request):
        if request.path == "/reset":
            runs.reset(**json.loads(request.body))
            return HttpResponse(status=204)
        if request.path == "/change":
            runs.change(**json.loads(request.body))
            return HttpResponse(status=204)
        if request.path == "/calls":
            with runs.changed:
                return JsonResponse(runs.calls)
        with runs.request() as number:
            if runs.token_delay and request.path == "/o/token/" and runs.is_cancelled_during_delay(number):
                return HttpResponse(status=503)
            response = get_response(request)
            if request.path == "/o/token/":
                runs.count(request, response)
            return response

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
    runs.keep()
    server = Server(("127.0.0.1", PORT), QuietHandler)
    server.set_app(get_wsgi_application())
    print("listening", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
