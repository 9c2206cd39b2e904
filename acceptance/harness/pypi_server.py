"""A package index for gunicorn: pypiserver behind Basic authentication."""

import base64
import os

import pypiserver

EXPECTED = "Basic " + base64.b64encode(f"{os.environ['INDEX_USER']}:{os.environ['INDEX_PASSWORD']}".encode()).decode()
INDEX = pypiserver.app(roots=[os.environ["INDEX_FOLDER"]], disable_fallback=True)


def application(request, start_response):
    if request.get("HTTP_AUTHORIZATION") != EXPECTED:
        start_response("401 Unauthorized", [("WWW-Authenticate", 'Basic realm="index"'), ("Content-Length", "0")])
        return [b""]
    return INDEX(request, start_response)
