"""boto3, with keys that are worth nothing: the gateway signs anew with the one that counts, and moto verifies that."""

import datetime
import email.utils
import http.client
import http.server
import json
import threading
import time

import pytest
import requests
from harness import sigv4
from harness.moto import REGION, Moto, run
from harness.origin import ok
from harness.raw import exchange
from harness.processes import wait_until

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


@pytest.fixture(params=["path", "proxy"])
def way(request, gateway, moto):
    """The endpoint and the proxy of a client. For an http endpoint that is an address, botocore names the proxy in Host."""
    return [f"{gateway.url}/aws", ""] if request.param == "path" else [moto.url, gateway.url]


class ServiceWithOwnClock:
    """moto behind a server whose clock is ahead, and which refuses what is dated more than five minutes off, as AWS does."""

    def __init__(self, moto, ahead):
        self.ahead = ahead
        #: The status of each response.
        self.answers = []
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                now = time.time() + service.ahead
                signed = datetime.datetime.strptime(self.headers["X-Amz-Date"], "%Y%m%dT%H%M%S%z").timestamp()
                if abs(now - signed) < 300:
                    return self.pass_on(moto.port, body)
                error = "<ErrorResponse><Error><Code>RequestTimeTooSkewed</Code><Message>It differs.</Message></Error></ErrorResponse>"
                return self.answer(403, {"Content-Type": "application/xml"}, error.encode(), now)

            do_GET = do_POST = do_PUT = do_HEAD = do

            def pass_on(self, port, body):
                upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    upstream.putheader(name, value)
                upstream.endheaders(body)
                answer = upstream.getresponse()
                kept = {name: value for name, value in answer.getheaders() if name.lower() in ("content-type", "etag")}
                self.answer(answer.status, kept, answer.read(), time.time() + service.ahead)
                upstream.close()

            def answer(self, status, fields, body, now):
                service.answers.append(status)
                self.send_response_only(status)
                for name, value in {**fields, "Date": email.utils.formatdate(now, usegmt=True)}.items():
                    self.send_header(name, value)
                if self.command != "HEAD":
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(b"" if self.command == "HEAD" else body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def service(request, moto):
    service = ServiceWithOwnClock(moto, request.param)
    yield service
    service.stop()


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


HEAD = CLIENT + "\nclient('s3').head_bucket(Bucket='own')\nprint('there')\n"


@pytest.mark.parametrize("service", [600, -600], indirect=True)
def test_requests_are_dated_by_the_clock_of_the_service(start, service):
    gateway = start(routes={"aws": {"upstream": service.url, "auth": "keys"}})
    way = [f"{gateway.url}/aws", ""]
    made = ask(way, WHO)
    assert "user/gateway" in made.stdout, made.stderr
    assert service.answers == [403, 200]
    # It is remembered.
    assert "user/gateway" in ask(way, WHO).stdout
    assert service.answers == [403, 200, 200]
    wait_until(lambda: "refused a signature because of its date" in gateway.text(), 10, "the log says it")
    events = [row["event"] for row in gateway.events()]
    assert not {"refreshed", "refresh_failed", "rejected", "replayed"} & set(events)


@pytest.mark.parametrize("service", [600], indirect=True)
def test_a_response_to_head_says_it_by_its_date_alone(start, service, moto):
    made = ask([moto.url, ""], BUCKETS, keys=(moto.key_id, moto.secret))
    assert made.returncode == 0, made.stderr
    gateway = start(routes={"aws": {"upstream": service.url, "auth": "keys"}})
    made = ask([f"{gateway.url}/aws", ""], HEAD)
    assert made.stdout == "there\n", made.stderr
    assert service.answers == [403, 200]


@pytest.mark.parametrize("service", [7200], indirect=True)
def test_a_clock_that_is_hours_off_is_not_followed(start, service):
    gateway = start(routes={"aws": {"upstream": service.url, "auth": "keys"}})
    assert "RequestTimeTooSkewed" in ask([f"{gateway.url}/aws", ""], WHO).stderr
    assert service.answers == [403]
    wait_until(lambda: "refused a signature because of its date" in gateway.text(), 10, "the log says it")


NEXT_KEY = """
import boto3, json, sys
iam = boto3.client("iam", endpoint_url=sys.argv[1], region_name="us-east-1", aws_access_key_id=sys.argv[2], aws_secret_access_key=sys.argv[3])
key = iam.create_access_key(UserName="gateway")["AccessKey"]
iam.delete_access_key(UserName="gateway", AccessKeyId=sys.argv[2])
print(json.dumps([key["AccessKeyId"], key["SecretAccessKey"]]))
"""


def test_a_key_that_is_rejected_is_asked_for_again(start_gateway, moto, tmp_path):
    files = [tmp_path / "id", tmp_path / "secret"]

    def write(values):
        for file, value in zip(files, values, strict=True):
            file.write_text(value)

    write([moto.key_id, moto.secret])
    read = [{"exec": ["/bin/cat", str(file)], "ttl": "1h"} for file in files]
    credential = {"strategy": "aws_sigv4", "access_key_id": read[0], "secret_access_key": read[1], "region": REGION}
    config = {"credentials": {"keys": credential}, "routes": {"aws": {"upstream": moto.url, "auth": "keys"}}}
    way = [f"{start_gateway(config).url}/aws", ""]
    assert "user/gateway" in ask(way, WHO).stdout
    made = run(NEXT_KEY, moto.url, moto.key_id, moto.secret)
    assert made.returncode == 0, made.stderr
    write(json.loads(made.stdout))
    assert "InvalidClientTokenId" in ask(way, WHO).stderr
    wait_until(lambda: "user/gateway" in ask(way, WHO).stdout, 40, "the gateway has the next key", pause=1)


# Clients that mean no good


SECRET = "secret-of-the-key"
SIGNED = f"AWS4-HMAC-SHA256 Credential=mine/20200101/{REGION}/s3/aws4_request, SignedHeaders=host, Signature=mine"
SCOPE = f"X-Amz-Credential=mine%2F20200101%2F{REGION}%2Fs3%2Faws4_request&X-Amz-SignedHeaders=host"
PRESIGNED = f"X-Amz-Algorithm=AWS4-HMAC-SHA256&{SCOPE}&X-Amz-Signature=mine"
HELLO = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"


@pytest.fixture
def recorded(start_gateway, make_origin):
    """A gateway that signs for one region and service, and what reaches the upstream."""
    keys = {"strategy": "aws_sigv4", "access_key_id": "AKIDEXAMPLE", "secret_access_key": {"env": "SECRET"}, "region": REGION, "service": "s3"}
    origin = make_origin(ok)
    gateway = start_gateway({"routes": {"aws": {"upstream": origin.url, "auth": keys}}}, environment={"SECRET": SECRET})

    def send(target, *fields, method="GET", body=b"", host=None):
        head = [f"{method} {target} HTTP/1.1", f"Host: {host or f'127.0.0.1:{gateway.port}'}", *fields, f"Content-Length: {len(body)}"]
        return exchange(gateway.port, "\r\n".join([*head, "Connection: close", "", ""]).encode("ascii") + body)

    send.origin, send.gateway = origin, gateway
    return send


def expiring(ago):
    at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=ago)
    return f"{PRESIGNED}&X-Amz-Date={at:%Y%m%dT%H%M%SZ}&X-Amz-Expires=300"


@pytest.mark.parametrize(
    ("target", "fields"),
    [
        ("/aws/bucket/a//b?list-type=2&prefix=a+b;c", ()),
        ("/aws/bucket/a//b?X-Amz-Date=20200101T000000Z&list-type=2&x-amz-SECURITY-token=mine&prefix=a+b;c&X%2DAmz%2DExpires=1", ()),
        ("PRESIGNED", ()),
        (
            "/aws/bucket/a//b?list-type=2&prefix=a+b;c",
            (
                f"aUTHORIZATION: {SIGNED}", "Authorization: Bearer mine", "x-AMZ-date: 20200101T000000Z", "X-amz-Security-TOKEN: mine",
                "X-AMZ-Date: 20200102T000000Z", "X-Amz-S3Session-Token: mine", "x-amz-region-SET: *",
            ),
        ),
    ],
    ids=["none", "query", "presigned", "fields"],
)  # fmt: skip
def test_nothing_of_a_clients_signature_reaches_the_upstream(recorded, target, fields):
    target = f"/aws/bucket/a//b?list-type=2&{expiring(10)}&prefix=a+b;c" if target == "PRESIGNED" else target
    answer = recorded(target, *fields, f"x-amz-content-SHA256: {HELLO}", "Expect: 100-continue", method="PUT", body=b"hello")
    assert b"HTTP/1.1 200 " in answer.data, answer.data
    request = recorded.origin.last()
    assert request.target == "/bucket/a//b?list-type=2&prefix=a+b;c"
    assert request.value("host") == f"127.0.0.1:{recorded.origin.port}"
    assert not any(word in request.head.lower() for word in (b"mine", b"20200101", b"20200102", b"s3session", b"region-set", b"x-amz-security"))
    assert sigv4.part(request, "Credential").split("/")[2:4] == [REGION, "s3"]
    assert sigv4.part(request, "Signature") == sigv4.signature(request, SECRET)
    assert request.body == b"hello"


def test_an_absolute_target_is_signed_for_the_upstream(recorded):
    """It names the server (RFC 9112 section 3.2.2), whatever `Host` says."""
    gateway = recorded.gateway
    answer = recorded(f"http://127.0.0.1:{gateway.port}/aws/own/key", host="other.s3.us-east-1.amazonaws.com")
    assert b"HTTP/1.1 200 " in answer.data, answer.data
    request = recorded.origin.last()
    assert (request.target, request.value("host")) == ("/own/key", f"127.0.0.1:{recorded.origin.port}")
    assert sigv4.part(request, "Signature") == sigv4.signature(request, SECRET)


@pytest.mark.parametrize(
    ("target", "fields", "status"),
    [
        ("/aws/bucket", (f"Authorization: {SIGNED.replace(REGION, 'us-east-1')}",), 403),
        ("/aws/bucket", (f"Authorization: {SIGNED.replace('/s3/', '/iam/')}",), 403),
        ("/aws/bucket", (f"Authorization: {SIGNED.replace('AWS4-HMAC', 'AWS4-ECDSA-P256')}",), 400),
        ("/aws/bucket", (f"Authorization: {SIGNED}", f"Authorization: {SIGNED}"), 400),
        (f"/aws/bucket?{expiring(301)}", (), 403),
        (f"/aws/bucket?{expiring(-86_400)}", (), 403),
        (f"/aws/bucket?{expiring(10)}".replace(REGION, "us-east-1"), (), 403),
        (f"/aws/bucket?{expiring(10)}&x-amz-date=20200101T000000Z", (), 400),
        (f"/aws/bucket?{expiring(10)}&X-Amz-Credential=b", (), 400),
        (f"/aws/bucket?{expiring(10)}", (f"Authorization: {SIGNED}",), 400),
        (f"/aws/bucket?{PRESIGNED}", (), 400),
        (f"/aws/bucket?{SCOPE}", (), 400),
        ("/aws/bucket?a=1;X-Amz-Security-Token=mine", (), 400),
        ("/aws/bucket", ("X_Amz_Security_Token: mine",), 400),
        ("/aws/bucket", ("X-Amz-Content-SHA256: UNSIGNED-PAYLOAD",), 400),
        ("/aws/own/../other/key", (), 400),
        ("/aws/own/%2e%2e/other/key", (), 400),
        ("/aws/../own/key", (), 400),
    ],
)
def test_what_a_client_may_not_ask_for_reaches_nobody(recorded, target, fields, status):
    answer = recorded(target, *fields)
    assert answer.status == status, answer.data
    assert not recorded.origin.requests
