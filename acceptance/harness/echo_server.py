"""A WSGI application for gunicorn that remembers the path of every request; /seen lists them."""

import json

SEEN = []


def application(request, start_response):
    SEEN.append(request["PATH_INFO"])
    while request["wsgi.input"].read(65536):
        pass
    body = json.dumps(SEEN).encode() if request["PATH_INFO"] == "/seen" else b"ok"
    start_response("200 OK", [("Content-Length", str(len(body))), ("X-Target", request["PATH_INFO"])])
    return [body]
