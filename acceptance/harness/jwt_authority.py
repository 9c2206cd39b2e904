"""The server of `jwt_server.py` as a process, and private keys in every form that people have them in."""

import json
import pathlib
import subprocess
import sys

import requests

from . import processes

PASSPHRASE = "open sesame"

# How a key is made from `plain.pem`; the first is what Box's developer console hands out.
FORMS = {
    "pkcs8-des3": ["pkcs8", "-topk8", "-v2", "des3"],
    "pkcs8-aes256": ["pkcs8", "-topk8", "-v2", "aes-256-cbc"],
    "pkcs8-pbe-sha1-3des": ["pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES"],
    "pkcs1-des-ede3": ["rsa", "-traditional", "-des3"],
    "plain": None,
}


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=60)


class KeyPair:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.plain = self.folder / "plain.pem"
        self.public = self.folder / "public.pem"
        openssl("genrsa", "-out", self.plain, "2048")
        openssl("rsa", "-in", self.plain, "-pubout", "-out", self.public)

    def private(self, form):
        """The text of the private key in one of `FORMS`."""
        path = self.folder / f"{form}.pem"
        if FORMS[form] and not path.exists():
            command, *options = FORMS[form]
            openssl(command, *options, "-in", self.plain, "-out", path, "-passout", f"pass:{PASSPHRASE}")
        return path.read_text()


class JWTAuthority:
    def __init__(self, keys, lifetime=3600, clock_offset=0):
        self.keys = keys
        self.process = subprocess.Popen(
            [sys.executable, str(pathlib.Path(__file__).with_name("jwt_server.py")), str(keys.public)]
            + [str(lifetime), str(clock_offset)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env=processes.environment(),
        )
        self.url = f"http://127.0.0.1:{processes.first_line(self.process, 60)}"

    @property
    def token_url(self):
        return f"{self.url}/oauth2/token"

    def calls(self):
        return requests.get(f"{self.url}/calls", timeout=10).json()["calls"]

    def forget(self):
        """As if every token had been revoked: nobody is told."""
        requests.post(f"{self.url}/forget", timeout=10)

    def app_settings(self, form="pkcs8-des3", **changes):
        """The JSON file of Box's developer console."""
        app = {
            "clientID": "box-app",
            "clientSecret": "s3cret-of-box-app",
            "appAuth": {"publicKeyID": "k1", "privateKey": self.keys.private(form), "passphrase": PASSPHRASE},
            **changes,
        }
        return json.dumps({"boxAppSettings": app, "enterpriseID": "12345"})

    def stop(self):
        processes.end(self.process)
