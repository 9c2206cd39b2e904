"""`authgateway login`, or another command that logs in, as a process, and a gateway to log in to."""

import re
import subprocess
import threading

import requests

from . import processes
from .gateway import BINARY
from .person import Person


class Login:
    def __init__(self, gateway, *arguments, command="login"):
        self.process = subprocess.Popen(
            [BINARY, command, *arguments, "--config", str(gateway.file)],
            cwd=gateway.folder,
            env=processes.environment(**gateway.environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.said = bytearray()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        processes.wait_until(lambda: self._address() or self.process.poll() is not None, 20, "the login shows its address")
        self.page = self._address()

    def _read(self):
        while chunk := self.process.stderr.read1(65536):
            self.said += chunk

    def pages(self):
        """The addresses that were shown so far, one for each login."""
        # A whole line, or it may be half of the address.
        return re.findall(r"^  (https?://\S+)\n", self.text(), re.MULTILINE)

    def _address(self):
        return next(iter(self.pages()), None)

    @property
    def redirect(self):
        return re.search(r"(?:browser on|begins with) (\S+)", self.text())[1]

    def text(self):
        return self.said.decode(errors="replace")

    def paste(self, text):
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()
        return self.end()

    def end(self, seconds=30):
        """(exit code, standard output, what was said on standard error since the address)"""
        output = self.process.stdout.read().decode()
        code = self.process.wait(seconds)
        self.reader.join(5)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()
        return code, output, self.text().rpartition("authgateway: ")[2]


def log_in(gateway):
    """A login at the credential `me` that goes well."""
    login = Login(gateway, "me", "--no-browser")
    assert requests.get(Person().decide(login.page), timeout=20).status_code == 200
    code, _, words = login.end()
    assert code == 0, words


def log_in_both(pair):
    """A login at the first gateway, whose token the second one uses as well."""
    log_in(pair[0])
    processes.wait_until(lambda: works(pair[1]), 5, "the other gateway uses the token of the login")


def config(authority, **changes):
    return {
        "credentials": {"me": authority.login_credential(**changes)},
        "routes": {"api": {"upstream": f"{authority.url}/api", "auth": "me"}},
    }


def status_of(gateway):
    [token] = requests.get(f"{gateway.admin_url}/api/tokens", timeout=10).json()
    return token


def works(gateway):
    return requests.get(f"{gateway.url}/api/x", timeout=20).status_code == 200


def port_of(address):
    return int(address.partition("127.0.0.1:")[2].partition("/")[0])
