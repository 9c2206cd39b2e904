"""The configurations in examples/: reading them, and what they need around them."""

import json
import re
import subprocess

import yaml

from .gateway import ROOT

FOLDERS = ["strategies", "client-authentication", "recipes", "token-server"]


class Loader(yaml.SafeLoader):
    """YAML 1.2 as far as it matters here: `no` and `on` are words, times are text."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.rsplit(":", 1)[1] in ("int", "float", "null", "merge")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|false)$"), list("tf"))


def load(path):
    return yaml.load(path.read_text(encoding="utf-8"), Loader)


def whole():
    """The files that `authgateway check` accepts."""
    return [path for folder in FOLDERS for path in sorted((ROOT / "examples").glob(f"{folder}/*.yaml"))]


def variables(text):
    """Every variable that a configuration reads, set to something."""
    names = set(re.findall(r"\$\{(\w+)\}|\benv: (\w+)", text))
    return {first or second: "1234" for first, second in names}


def write_what_they_read(folder):
    """The keys that they name, and the file that Box's console hands out."""
    key = subprocess.run(["openssl", "genpkey", "-algorithm", "RSA"], capture_output=True, check=True, text=True).stdout
    app = {
        "clientID": "c",
        "clientSecret": "s",
        "appAuth": {"publicKeyID": "k", "privateKey": key, "passphrase": ""},
    }
    files = {
        "box-key.pem": key,
        "mailer-key.pem": key,
        "snowflake-key.pem": key,
        "google-key.pem": key,
        "github-app-key.pem": key,
        "token-server-key.pem": key,
        "gateway-client-key.pem": key,
        "service-account.json": json.dumps(
            {
                "type": "service_account",
                "client_email": "robot@project.iam.gserviceaccount.com",
                "private_key_id": "k",
                "private_key": key,
                "token_uri": "https://oauth2.googleapis.com/token",
            }
        ),
        "box-app.json": json.dumps({"boxAppSettings": app, "enterpriseID": "12345"}),
    }
    for name, content in files.items():
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(content, encoding="ascii")
    for name in ("gateway-client.pem", "corp-ca.pem"):
        subject = ["-subj", "/CN=gateway", "-days", "2", "-out", folder / name]
        issue = ["openssl", "req", "-x509", "-new", "-key", folder / "gateway-client-key.pem", *subject]
        subprocess.run(issue, capture_output=True, check=True)
