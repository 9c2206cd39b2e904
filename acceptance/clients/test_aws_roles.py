"""Temporary keys of AWS: the gateway assumes roles at moto's STS, or runs a program, and signs with what it gets."""

import contextlib
import http.server
import json
import sys
import threading
import urllib.parse

import pytest
import requests
from harness.configs import CANARY
from harness.https_clients import PACKAGES
from harness.moto import REGION, Moto, run

ROLES = """
import boto3, json, sys
url, key, secret, *names = sys.argv[1:]
iam = boto3.client("iam", endpoint_url=url, region_name="us-east-1", aws_access_key_id=key, aws_secret_access_key=secret)
def policy(**statement): return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **statement}]})
for name in names:
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=policy(Action="sts:AssumeRole", Principal={"AWS": "*"}))
    if name != "powerless":
        iam.put_role_policy(RoleName=name, PolicyName="all", PolicyDocument=policy(Action="*", Resource="*"))
    print(role["Role"]["Arn"])
"""

WHO = """
import boto3, sys
from botocore.config import Config
settings = Config(retries={"max_attempts": 0})
keys = {"aws_access_key_id": "nothing", "aws_secret_access_key": "nothing"}
print(boto3.client("sts", endpoint_url=sys.argv[1], region_name=sys.argv[2], config=settings, **keys).get_caller_identity()["Arn"])
"""

#: Prints the keys of a role as a program for credential_process does, and counts its runs.
PROCESS = """
import boto3, json, pathlib, sys
url, role, keys, runs = sys.argv[1:]
key, secret = json.loads(pathlib.Path(keys).read_text())
with open(runs, "a") as file: file.write("run\\n")
sts = boto3.client("sts", endpoint_url=url, region_name="us-east-1", aws_access_key_id=key, aws_secret_access_key=secret)
got = sts.assume_role(RoleArn=role, RoleSessionName="process", DurationSeconds=900)["Credentials"]
print(json.dumps({"Version": 1, **{name: got[name] for name in ("AccessKeyId", "SecretAccessKey", "SessionToken")},
    "Expiration": got["Expiration"].isoformat()}))
"""


@pytest.fixture(scope="module")
def moto():
    moto = Moto()
    yield moto
    moto.stop()


@pytest.fixture(scope="module")
def roles(moto):
    names = ["reader", "writer", "powerless"]
    made = run(ROLES, moto.url, moto.key_id, moto.secret, *names)
    assert made.returncode == 0, made.stderr
    return dict(zip(names, made.stdout.split(), strict=True))


def base(moto):
    return {"strategy": "aws_sigv4", "access_key_id": moto.key_id, "secret_access_key": {"env": "SECRET"}}


def assuming(moto, arn, **more):
    """The URL of STS is not that of the upstream: clients are kept from where the gateway gets its keys."""
    return {"assume_role": {"role_arn": arn, "region": REGION, "token_url": moto.url, **more}}


@pytest.fixture
def start(start_gateway, moto):
    def start(auth, secret=None, **credentials):
        route = {"upstream": f"http://localhost:{moto.port}", "auth": auth}
        config = {"credentials": credentials, "routes": {"aws": route}}
        return start_gateway(config, environment={"SECRET": secret or moto.secret})

    return start


def who(gateway):
    return run(WHO, f"{gateway.url}/aws", REGION)


def test_requests_are_signed_with_the_keys_of_a_role(start, moto, roles):
    gateway = start("role", role={**base(moto), **assuming(moto, roles["reader"], session_name="reports", external_id="partner-1")})
    for _ in range(3):
        asked = who(gateway)
        assert asked.stdout.strip().endswith(":assumed-role/reader/reports"), asked.stderr
    events = [event["event"] for event in gateway.events()]
    assert (events.count("acquired"), events.count("renewed")) == (1, 0)
    # One renewal gives other keys, and the next request is signed with them.
    assert gateway.run("token", "refresh", "role").returncode == 0
    assert who(gateway).stdout.strip().endswith(":assumed-role/reader/reports")
    assert [event["event"] for event in gateway.events()].count("renewed") == 1
    for path, content in gateway.files().items():
        assert b"SessionToken" not in content and b"SecretAccessKey" not in content, path


def test_a_locked_role_signs_nothing(start, moto, roles):
    gateway = start("role", role={**base(moto), **assuming(moto, roles["reader"])})
    assert who(gateway).returncode == 0
    gateway.run("token", "lock", "role")
    assert "503" in who(gateway).stderr
    gateway.run("token", "unlock", "role")
    assert who(gateway).returncode == 0


def test_roles_are_chained(start, moto, roles):
    second = {"strategy": "aws_sigv4", "parent": "first", **assuming(moto, roles["writer"])}
    first = {"strategy": "aws_sigv4", "parent": "base", **assuming(moto, roles["reader"])}
    gateway = start("second", base=base(moto), first=first, second=second)
    asked = who(gateway)
    assert asked.stdout.strip().endswith(":assumed-role/writer/authgateway"), asked.stderr


def test_a_locked_access_key_asks_for_no_role(start, moto, roles):
    gateway = start("role", base=base(moto), role={"strategy": "aws_sigv4", "parent": "base", **assuming(moto, roles["reader"])})
    gateway.run("token", "lock", "base")
    assert "503" in who(gateway).stderr
    assert "acquired" not in [event["event"] for event in gateway.events()]


@pytest.mark.parametrize(
    ("first", "secret", "said"),
    [("powerless", None, "sts:AssumeRole"), (None, "another", "check secret_access_key")],
)
def test_a_refusal_says_what_to_do(start, moto, roles, first, secret, said):
    asking = {"strategy": "aws_sigv4", "parent": "first"} if first else base(moto)
    credentials = {"role": {**asking, **assuming(moto, roles["writer"])}}
    if first:
        credentials["first"] = {**base(moto), **assuming(moto, roles[first])}
    gateway = start("role", secret=secret, **credentials)
    refused = requests.get(f"{gateway.url}/aws/", timeout=20)
    assert (refused.status_code, said in refused.json()["detail"]) == (500, True), refused.text
    assert roles["writer"] in refused.json()["detail"]


def test_a_program_prints_the_keys(start, moto, roles, tmp_path):
    (tmp_path / "keys").write_text(json.dumps([moto.key_id, moto.secret]))
    (tmp_path / "keys").chmod(0o600)
    program = tmp_path / "print-keys"
    head = f"#!{sys.executable}\nimport sys; sys.path.insert(0, {str(PACKAGES)!r})\n"
    program.write_text(head + PROCESS)
    program.chmod(0o700)
    command = [str(program), moto.url, roles["reader"], str(tmp_path / "keys"), str(tmp_path / "runs")]
    gateway = start("process", process={"strategy": "aws_sigv4", "credential_process": command})
    for _ in range(3):
        asked = who(gateway)
        assert asked.stdout.strip().endswith(":assumed-role/reader/process"), asked.stderr
    assert (tmp_path / "runs").read_text() == "run\n"


# Web identity


@contextlib.contextmanager
def issuer_trust(moto, *trusted):
    """STS in front of moto: it has what moto lacks. Only tokens of a trusted issuer get keys, and nobody signs for them.

    moto wants a signature for every action. It is told to let one request pass without, which is the next one.
    """
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            form = dict(urllib.parse.parse_qsl(body.decode("ascii"), strict_parsing=True))
            asked.append({**form, "Authorization": self.headers["Authorization"]})
            if form["WebIdentityToken"] in trusted:
                requests.post(f"{moto.url}/moto-api/reset-auth", data="1", timeout=20).raise_for_status()
                answer = requests.post(moto.url, data=body, headers={"Content-Type": self.headers["Content-Type"]}, timeout=20)
                return self.answer(answer.status_code, answer.content)
            error = "<Type>Sender</Type><Code>InvalidIdentityToken</Code><Message><![CDATA[No <provider>.]]></Message>"
            return self.answer(400, f"<ErrorResponse><Error>{error}</Error></ErrorResponse>".encode())

        def answer(self, status, body):
            self.send_response(status)
            self.send_header("Content-Type", "text/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


def identity(moto, arn, token, url):
    return {"strategy": "aws_sigv4", "web_identity": {"file": str(token)}, **assuming(moto, arn, session_name="pod", token_url=url)}


def test_a_token_of_another_issuer_gets_the_keys_of_a_role(start, moto, roles, tmp_path):
    token, issued = tmp_path / "token", [f"{CANARY}-identity-{number}" for number in (1, 2)]
    token.write_text(issued[0])
    token.chmod(0o600)
    with issuer_trust(moto, *issued) as (url, asked):
        gateway = start("role", role=identity(moto, roles["reader"], token, url))
        for _ in range(2):
            answer = who(gateway)
            assert answer.stdout.strip().endswith(":assumed-role/reader/pod"), answer.stderr
        # Another program has replaced the file.
        token.write_text(issued[1])
        assert gateway.run("token", "refresh", "role").returncode == 0
        assert who(gateway).stdout.strip().endswith(":assumed-role/reader/pod")
    assert [form["WebIdentityToken"] for form in asked] == issued
    for form in asked:
        assert (form["Action"], form["RoleArn"], form["Authorization"]) == ("AssumeRoleWithWebIdentity", roles["reader"], None)
    # The service verifies signatures all the time.
    refused = run(WHO, moto.url, REGION)
    assert "InvalidClientTokenId" in refused.stderr


def test_a_token_that_no_role_trusts_gets_no_keys(start, moto, roles, tmp_path):
    token = tmp_path / "token"
    token.write_text(f"{CANARY}-identity-3")
    token.chmod(0o600)
    with issuer_trust(moto) as (url, asked):
        gateway = start("role", role=identity(moto, roles["reader"], token, url))
        refused = requests.get(f"{gateway.url}/aws/", timeout=20)
        assert (refused.status_code, "IAM identity provider" in refused.json()["detail"]) == (500, True), refused.text
    assert asked
