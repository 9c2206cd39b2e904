"""The MCP server of `mcp_server.py` as a process, and the SDK's client. Both are from the packages that do not go with the tests' own."""

import os
import pathlib
import subprocess
import sys

import requests

from . import processes
from .https_clients import PACKAGES, python

CLIENT = """
import asyncio, sys
from mcp import Client
async def main():
    async with Client(sys.argv[1]) as client:
        print((await client.call_tool("add", {"a": 2, "b": 3})).content[0].text)
asyncio.run(main())
"""

#: Calls the tool, waits for a line, and calls it again in the same session.
SESSION = """
import asyncio, sys
from mcp import Client
async def main():
    async with Client(sys.argv[1], mode=sys.argv[2], read_timeout_seconds=30) as client:
        for number in (1, 2):
            print((await client.call_tool("add", {"a": number, "b": 3})).content[0].text, flush=True)
            if number == 1:
                await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
asyncio.run(main())
"""


class MCPServer:
    def __init__(self, folder, lifetime=3600):
        self.port = processes.free_port()
        self.log = pathlib.Path(folder) / "mcp.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(pathlib.Path(__file__).with_name("mcp_server.py")), str(self.port), str(lifetime)],
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                env=processes.environment(PYTHONPATH=os.fspath(PACKAGES)),
            )
        processes.first_line(self.process, 60)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/mcp"

    def change(self, **changes):
        assert requests.post(f"http://127.0.0.1:{self.port}/change", json=changes, timeout=20).status_code == 204

    def seen(self):
        return requests.get(f"http://127.0.0.1:{self.port}/seen", timeout=20).json()

    def stop(self):
        processes.end(self.process)


def call_tool(url):
    """What the SDK's client prints that calls the tool `add` there."""
    command = [*python(CLIENT, "clients")(None), url]
    return subprocess.run(command, env=processes.environment(), capture_output=True, text=True, timeout=60, check=False)


class Session:
    """The SDK's client with a session that stays open between two calls."""

    def __init__(self, url, mode):
        self.process = subprocess.Popen(
            [*python(SESSION, "clients")(None), url, mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=processes.environment(),
        )

    def first(self):
        """What the first call has said."""
        return self.process.stdout.readline()

    def begin_second(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def second(self):
        """What the second call has said, and what went wrong."""
        output, errors = self.process.communicate(timeout=60)
        return output, errors

    def stop(self):
        processes.end(self.process)
