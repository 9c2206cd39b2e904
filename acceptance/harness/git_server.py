"""Git over smart HTTP for gunicorn: `git http-backend` behind Basic authentication."""

import base64
import os
import subprocess

USER, PASSWORD = os.environ.get("GIT_USER", ""), os.environ.get("GIT_PASSWORD", "")
EXPECTED = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
BACKEND = os.path.join(subprocess.run(["git", "--exec-path"], check=True, capture_output=True, text=True).stdout.strip(), "git-http-backend")


def application(request, start_response):
    if request.get("HTTP_AUTHORIZATION") != EXPECTED:
        start_response("401 Unauthorized", [("WWW-Authenticate", 'Basic realm="git"'), ("Content-Length", "0")])
        return [b""]
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_PROJECT_ROOT": os.environ["GIT_PROJECT_ROOT"],
        "GIT_HTTP_EXPORT_ALL": "1",
        "REMOTE_USER": USER,
        "REQUEST_METHOD": request["REQUEST_METHOD"],
        "PATH_INFO": request["PATH_INFO"],
        "QUERY_STRING": request.get("QUERY_STRING", ""),
        "CONTENT_TYPE": request.get("CONTENT_TYPE", ""),
        "HTTP_CONTENT_ENCODING": request.get("HTTP_CONTENT_ENCODING", ""),
        "GIT_PROTOCOL": request.get("HTTP_GIT_PROTOCOL", ""),
    }
    # The body may be chunked; the end of standard input is its end.
    backend = subprocess.Popen([BACKEND], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    while part := request["wsgi.input"].read(65536):
        backend.stdin.write(part)
    backend.stdin.close()
    status, fields = "200 OK", []
    while (line := backend.stdout.readline().strip()) != b"":
        name, _, value = line.decode("latin-1").partition(": ")
        if name.lower() == "status":
            status = value
        else:
            fields.append((name, value))
    start_response(status, fields)
    return iter(lambda: backend.stdout.read(65536), b"")
