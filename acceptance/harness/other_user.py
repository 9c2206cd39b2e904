"""What another user of the machine sees of a unix socket."""

import subprocess

CONNECT = """
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.settimeout(10)
try:
    connection.connect(sys.argv[1])
    connection.sendall(f"GET {sys.argv[2]} HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n".encode())
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
        # The interpreter of this run may stand where that user may not look.
        command = ["/usr/bin/python3", "-c", CONNECT, str(socket), path]
        result = subprocess.run(command, capture_output=True, text=True, timeout=30, user=self.number, env={})
        return result.stdout.strip()
