"""A WSGI application for gunicorn that remembers of every request the path and what its body was; /seen lists them."""

import hashlib
import json

SEEN = []


def application(request, start_response):
    content = request["wsgi.input"].read()
    SEEN.append([request["PATH_INFO"], hashlib.sha256(content).hexdigest()])
    body = json.dumps(SEEN).encode() if request["PATH_INFO"] == "/seen" else b"ok"
    start_response("200 OK", [("Content-Length", str(len(body))), ("X-Target", request["PATH_INFO"])])
    return [body]
