"""boto3, with keys that are worth nothing: the gateway signs anew with the one that counts, and moto verifies that."""

import json

import pytest
import requests
from harness.moto import REGION, Moto, run

CLIENT = """
import boto3, json, sys
from botocore.config import Config
endpoint, proxy, region, key, secret, token = sys.argv[1:7]
settings = Config(
    proxies={"http": proxy} if proxy else None,
    retries={"max_attempts": 0},
    s3={"addressing_style": "path"},
)
def client(service, **more):
    keys = {"aws_access_key_id": key, "aws_secret_access_key": secret, "aws_session_token": token or None}
    return boto3.client(service, endpoint_url=endpoint, region_name=region, config=settings, **keys, **more)
"""

CALLS = (
    CLIENT
    + """
s3, name = client("s3"), "a b/\\u00e4+c:d(1)~=&"
s3.create_bucket(Bucket="reports", CreateBucketConfiguration={"LocationConstraint": region})
s3.put_object(Bucket="reports", Key=name, Body=b"x" * 200_000, ContentType="text/plain", Metadata={"by": "the  client"})
found = s3.get_object(Bucket="reports", Key=name)
table = client("dynamodb")
table.create_table(
    TableName="items",
    KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
    BillingMode="PAY_PER_REQUEST",
)
print(json.dumps({
    "body": len(found["Body"].read()),
    "metadata": found["Metadata"],
    "keys": [each["Key"] == name for each in s3.list_objects_v2(Bucket="reports", Prefix="a b/")["Contents"]],
    "tables": table.list_tables()["TableNames"],
    "user": client("sts").get_caller_identity()["Arn"].rpartition("/")[2],
}))
"""
)

WHO = CLIENT + "\nprint(client('sts').get_caller_identity()['Arn'])\n"

PRESIGN = (
    CLIENT
    + """
s3 = client("s3")
s3.create_bucket(Bucket="shared", CreateBucketConfiguration={"LocationConstraint": region})
def url(method, seconds=60): return s3.generate_presigned_url(method, Params={"Bucket": "shared", "Key": "a b"}, ExpiresIn=seconds)
print(json.dumps([url("put_object"), url("get_object"), url("get_object", 0)]))
"""
)

BUCKETS = (
    CLIENT
    + """
s3 = client("s3")
for name in ("own", "other"):
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": region})
    s3.put_object(Bucket=name, Key="a b", Body=b"content")
"""
)

COPY = (
    CLIENT
    + """
s3 = client("s3")
s3.copy_object(Bucket="own", Key="copy", CopySource={"Bucket": "FROM", "Key": "a b"})
print(s3.get_object(Bucket="own", Key="copy")["Body"].read().decode())
"""
)


@pytest.fixture
def moto():
    moto = Moto()
    yield moto
    moto.stop()


@pytest.fixture
def start(start_gateway, moto):
    credential = {
        "strategy": "aws_sigv4",
        "access_key_id": moto.key_id,
        "secret_access_key": {"env": "SECRET"},
        "region": REGION,
        "service": ["dynamodb", "s3", "sts"],
    }
    config = {"credentials": {"keys": credential}, "routes": {"aws": {"upstream": moto.url, "auth": "keys"}}}
    return lambda **more: start_gateway({**config, **more}, environment={"SECRET": moto.secret})


@pytest.fixture
def gateway(start):
    return start()


@pytest.fixture
def way(gateway):
    """The endpoint and the proxy of a client. Through a proxy, botocore names that in Host for http:// endpoints, which is refused."""
    return [f"{gateway.url}/aws", ""]


def ask(way, program, region=REGION, keys=("nothing", "nothing"), token=""):
    return run(program, *way, region, *keys, token)


def test_moto_verifies_what_clients_sign(moto):
    way = [moto.url, ""]
    assert "user/gateway" in ask(way, WHO, keys=(moto.key_id, moto.secret)).stdout
    assert "InvalidClientTokenId" in ask(way, WHO).stderr
    assert "SignatureDoesNotMatch" in ask(way, WHO, keys=(moto.key_id, "another")).stderr


def test_calls_of_three_services(way):
    made = ask(way, CALLS)
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout) == {
        "body": 200_000,
        "metadata": {"by": "the  client"},
        "keys": [True],
        "tables": ["items"],
        "user": "gateway",
    }


def test_a_client_that_signs_for_another_region_or_service_is_refused(way):
    assert "403" in ask(way, WHO, region="us-east-1").stderr
    assert "403" in ask(way, WHO.replace("'sts'", "'iam'").replace("get_caller_identity()['Arn']", "list_users()")).stderr


def test_presigned_urls_are_taken_until_they_expire(gateway, moto):
    way = [f"{gateway.url}/aws", ""]
    put, get, expired = json.loads(ask(way, PRESIGN).stdout)
    assert requests.put(put, data=b"content", timeout=10).status_code == 200
    assert requests.get(get, timeout=10).content == b"content"
    answer = requests.get(expired, timeout=10)
    assert (answer.status_code, answer.json()["detail"]) == (403, "The presigned URL has expired; make a new one.")
    # For the upstream itself they are worth nothing.
    assert requests.get(get.replace(f"{gateway.url}/aws", moto.url), timeout=10).status_code >= 400


def test_a_copy_needs_the_right_to_read_what_it_copies(start, moto):
    made = ask([moto.url, ""], BUCKETS, keys=(moto.key_id, moto.secret))
    assert made.returncode == 0, made.stderr
    gateway = start(routes={"aws": {"upstream": moto.url, "auth": "keys", "allow": [{"path": "/own/**"}]}})
    way = [f"{gateway.url}/aws", ""]
    assert "403" in ask(way, COPY.replace("FROM", "other")).stderr
    copied = ask(way, COPY.replace("FROM", "own"))
    assert copied.stdout == "content\n", copied.stderr


def test_a_locked_key_signs_nothing(gateway):
    way = [f"{gateway.url}/aws", ""]
    gateway.run("token", "lock", "keys")
    assert "503" in ask(way, WHO).stderr
    gateway.run("token", "unlock", "keys")
    assert "user/gateway" in ask(way, WHO).stdout


def test_the_token_of_a_client_is_its_session_token(start):
    gateway = start(access={"clients": {"sdk": {"token": "token-of-the-sdk-1"}}})
    way = [f"{gateway.url}/aws", ""]
    assert "user/gateway" in ask(way, WHO, token="token-of-the-sdk-1").stdout
    assert "401" in ask(way, WHO, token="another-token-of-one").stderr
