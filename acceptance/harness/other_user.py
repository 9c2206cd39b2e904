"""What another user of the machine sees of a unix socket."""

import subprocess

CONNECT = """
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.settimeout(10)
try:
    connection.connect(sys.argv[1])
    fields = "".join(f"{field}\\r\\n" for field in ["Host: localhost", "Connection: close", *sys.argv[4:]])
    connection.sendall(f"{sys.argv[2]} {sys.argv[3]} HTTP/1.1\\r\\n{fields}\\r\\n".encode())
    print(connection.recv(12).decode() or "closed")
except OSError as problem:
    print(type(problem).__name__)
"""


LET_IN = ("HTTP/1.1 200",)
#: May connect, and hears no word.
CLOSED_OUT = ("closed", "ConnectionResetError", "BrokenPipeError")
MAY_NOT_CONNECT = ("PermissionError",)


class OtherUser:
    def __init__(self, number):
        self.number = number

    def get(self, socket, path):
        """One of what the words above stand for."""
        return self.ask(socket, "GET", path)

    def ask(self, socket, method, path, token=None):
        """The beginning of the answer, or one of what the words above stand for; `token` is sent as a bearer token."""
        fields = [] if token is None else [f"Authorization: Bearer {token}"]
        # The interpreter of this run may stand where that user may not look.
        command = ["/usr/bin/python3", "-c", CONNECT, str(socket), method, path, *fields]
        result = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30, user=self.number, env={})
        return result.stdout.strip()
