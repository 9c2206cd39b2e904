"""A real OAuth 2.0 server with a resource server beside it: django-oauth-toolkit on a free loopback port.

Usage: python oauth_server.py DATABASE LIFETIME_SECONDS TOKEN_DELAY_SECONDS

Prints the port it listens on. `/o/token/` and `/o/revoke_token/` are django-oauth-toolkit's own; `/api/` wants one of its
tokens and answers with what arrived. The client `cc` (client credentials) has the secret `s3cret-of-cc`.
"""

import json
import socketserver
import sys
import time

sys.modules["oauth_server"] = sys.modules["__main__"]

import django
from django.conf import settings

DATABASE, LIFETIME, DELAY = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
CLIENT_ID, CLIENT_SECRET = "cc", "s3cret-of-cc"

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
            "OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL"},
        }
    },
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "oauth2_provider"],
    MIDDLEWARE=["oauth_server.slow_token_endpoint"],
    OAUTH2_PROVIDER={"SCOPES": {"read": "r", "write": "w"}, "ACCESS_TOKEN_EXPIRE_SECONDS": LIFETIME},
)
django.setup()

from django.core.servers.basehttp import WSGIRequestHandler, WSGIServer
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse, JsonResponse
from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt
from oauth2_provider.oauth2_backends import get_oauthlib_core


def slow_token_endpoint(get_response):
    def respond(request):
        if DELAY and request.path == "/o/token/":
            time.sleep(DELAY)
        return get_response(request)

    return respond


@csrf_exempt
def api(request, rest):
    valid, _ = get_oauthlib_core().verify_request(request, scopes=["read"])
    if not valid:
        return HttpResponse(status=401, headers={"WWW-Authenticate": 'Bearer realm="api", error="invalid_token"'})
    return JsonResponse({"method": request.method, "path": rest, "length": len(request.body)})


urlpatterns = [
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
    from django.core.management import call_command
    from oauth2_provider.models import Application

    call_command("migrate", verbosity=0)
    application, created = Application.objects.get_or_create(
        client_id=CLIENT_ID,
        defaults={"client_type": "confidential", "authorization_grant_type": "client-credentials"},
    )
    if created:
        application.client_secret = CLIENT_SECRET
        application.save()
    server = Server(("127.0.0.1", 0), QuietHandler)
    server.set_app(get_wsgi_application())
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
