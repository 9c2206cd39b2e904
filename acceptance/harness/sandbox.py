"""`authgateway sandbox` as a process, steered over its control calls."""

import subprocess

import requests

from . import processes
from .gateway import BINARY


class Sandbox:
    def __init__(self, folder):
        self.process = subprocess.Popen(
            [BINARY, "sandbox", "--json"],
            cwd=folder,
            env=processes.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        #: Addresses, and ids and secrets that work, under the names `SANDBOX_...`.
        self.environment = processes.first_json(self.process, 30)

    def __getitem__(self, name):
        return self.environment[f"SANDBOX_{name}"]

    def set(self, origin, **switches):
        answer = requests.post(f"{self['UPSTREAM_URL']}/_sandbox/switches", json={"origin": origin, **switches}, timeout=20)
        assert answer.status_code == 200, answer.text

    def state(self):
        return requests.get(f"{self['UPSTREAM_URL']}/_sandbox/state", timeout=20).json()

    def token_calls(self, origin):
        return self.state()["token_calls"][origin]

    def reset(self):
        assert requests.post(f"{self['UPSTREAM_URL']}/_sandbox/reset", timeout=20).status_code == 200

    def stop(self):
        processes.end(self.process)
