"""boto3, aws-cli, rclone, and a client that signs each chunk of a body, with keys that are worth nothing; moto verifies what the gateway signs."""

import hashlib
import hmac
import json
import subprocess

import pytest
import requests
from harness import debian, processes, sigv4
from harness.gateway import BINARY
from harness.moto import REGION, Moto, run
from harness.origin import ok

KEYS = {"AWS_ACCESS_KEY_ID": "nothing", "AWS_SECRET_ACCESS_KEY": "nothing", "AWS_DEFAULT_REGION": REGION}
SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"

BOTO3 = """
import boto3, json, sys
from botocore.config import Config
endpoint, bucket = sys.argv[1:]
def client(service): return boto3.client(service, endpoint_url=endpoint, config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0}))
s3 = client("s3")
s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": s3.meta.region_name})
s3.put_object(Bucket=bucket, Key="a b", Body=b"x" * 1_000_000)
print(json.dumps([
    len(s3.get_object(Bucket=bucket, Key="a b")["Body"].read()),
    [each["Key"] for each in s3.list_objects_v2(Bucket=bucket)["Contents"]],
    client("dynamodb").list_tables()["TableNames"],
]))
"""
CREATE = BOTO3.partition("s3.put_object")[0]
AWS = "from awscli.clidriver import main; sys.exit(main())"


class Way:
    """How a client reaches moto through the gateway: by a path of its URL, or by CONNECT."""

    def __init__(self, gateway, endpoint, proxy="", ca=""):
        self.gateway = gateway
        self.endpoint = endpoint
        self.environment = {"HTTPS_PROXY": proxy, "AWS_CA_BUNDLE": ca} if proxy else {}
        self.ca = ca


def credential(moto):
    keys = {"access_key_id": moto.key_id, "secret_access_key": {"env": "SECRET"}}
    return {"strategy": "aws_sigv4", **keys, "region": REGION, "service": ["dynamodb", "s3"]}


@pytest.fixture(params=["path", "connect"])
def way(request, make_gateway, certificate_authority):
    """Starts moto and a gateway before it. Go's clients use no proxy for localhost, so a test may want another name."""
    connects = request.param == "connect"
    # rclone does not sign bodies, which only TLS allows.
    moto = Moto(certificate_authority)

    def start(names=None):
        upstream = f"https://aws.test:{moto.port}" if names else moto.url
        route = {"upstream": upstream, "auth": "keys", "tls": {"ca": str(certificate_authority.certificate)}}
        place = {"address": f"127.0.0.1:{processes.free_port()}", "intercept": True}
        config = {"credentials": {"keys": credential(moto)}, "routes": {"aws": route}}
        gateway = make_gateway(config, listeners=[place] if connects else None, environment={"SECRET": moto.secret})
        if names:
            names.addresses = {"aws.test": ["127.0.0.1"]}
            gateway.wrapper = names.wrapper()
        gateway.start()
        if not connects:
            return Way(gateway, f"{gateway.url}/aws")
        return Way(gateway, upstream, f"http://{place['address']}", gateway.run("ca", "show", "--path").stdout.strip())

    yield start
    moto.stop()


@pytest.fixture
def megabyte(tmp_path):
    path = tmp_path / "megabyte"
    path.write_bytes(bytes(range(250)) * 4000)
    return path


def made_bucket(way):
    done = run(CREATE, way.endpoint, "reports", **KEYS, **way.environment)
    assert done.returncode == 0, done.stderr


def test_boto3(way):
    way = way()
    done = run(BOTO3, way.endpoint, "reports", **KEYS, **way.environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [1_000_000, ["a b"], []]


def test_aws_cli(way, megabyte, tmp_path):
    way = way()
    made_bucket(way)
    settings = tmp_path / "settings"
    settings.write_text("[default]\ns3 =\n  addressing_style = path\n", encoding="ascii")

    def aws(*words):
        done = run(AWS, "--endpoint-url", way.endpoint, *words, **KEYS, **way.environment, AWS_CONFIG_FILE=str(settings))
        assert done.returncode == 0, done
        return done.stdout

    aws("s3", "cp", megabyte, "s3://reports/folder/a b")
    assert " 1000000 a b\n" in aws("s3", "ls", "s3://reports/folder/")
    aws("s3", "cp", "s3://reports/folder/a b", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == megabyte.read_bytes()
    assert json.loads(aws("dynamodb", "list-tables")) == {"TableNames": []}


@pytest.fixture
def rclone(tmp_path):
    """Runs rclone with its words, behind those of `before`."""

    def run(way, *words, before=(), **changes):
        options = ["--config", "/dev/null", "--s3-provider", "Other", "--s3-endpoint", way.endpoint, "--s3-region", REGION, "--retries", "1"]
        options += ["--s3-access-key-id", "nothing", "--s3-secret-access-key", "nothing"]
        command = [*before, debian.binary("rclone"), *map(str, words), *options]
        clean = {**debian.environment(), "HOME": str(tmp_path), **changes}
        # rclone 1.60 does not start for S3 with it.
        clean.pop("AWS_CA_BUNDLE", None)
        done = subprocess.run(command, env=clean, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done
        return done.stdout

    return run


def test_rclone(names, way, rclone, megabyte, tmp_path):
    way = way(names)
    trust = ["--ca-cert", way.ca] if way.ca else []
    rclone(way, "mkdir", ":s3:reports", *trust, **way.environment)
    rclone(way, "copy", megabyte, ":s3:reports/folder", *trust, **way.environment)
    listed = rclone(way, "lsf", "-R", "--files-only", "--format", "ps", ":s3:reports", *trust, **way.environment)
    assert listed == "folder/megabyte;1000000\n"
    rclone(way, "copyto", ":s3:reports/folder/megabyte", tmp_path / "again", *trust, **way.environment)
    assert (tmp_path / "again").read_bytes() == megabyte.read_bytes()


@pytest.mark.parametrize("way", ["connect"], indirect=True)
def test_rclone_by_exec(names, way, rclone):
    """Its certificates are those of SSL_CERT_FILE. AWS_CA_BUNDLE, which `exec` sets for others, it cannot start with."""
    way = way(names)
    before = [BINARY, "exec", "--config", str(way.gateway.file), "--", "env", "-u", "AWS_CA_BUNDLE"]
    rclone(way, "mkdir", ":s3:reports", before=before)
    assert rclone(way, "lsf", ":s3:", before=before) == "reports/\n"


# Signed chunks


def chunked(parts, trailers=b""):
    """Chunks with signatures that are worth nothing."""
    nothing = b"0" * 64
    chunks = [b"%x;chunk-signature=%s\r\n%s\r\n" % (len(part), nothing, part) for part in [*parts, b""]]
    if trailers:
        chunks[-1] = chunks[-1].removesuffix(b"\r\n") + trailers + b"x-amz-trailer-signature:" + nothing + b"\r\n\r\n"
    return b"".join(chunks)


def fields(parts, kind=SIGNED):
    trailer = {"x-amz-trailer": "x-amz-checksum-crc32"} if kind.endswith("TRAILER") else {}
    asked = f"AWS4-HMAC-SHA256 Credential=nothing/20260101/{REGION}/s3/aws4_request, SignedHeaders=host, Signature=00"
    return {
        "Authorization": asked,
        "Content-Encoding": "aws-chunked",
        "x-amz-content-sha256": kind,
        "x-amz-decoded-content-length": str(sum(map(len, parts))),
        **trailer,
    }


def resigned(request, body, secret):
    """The same body with the signatures that AWS expects, which follow from that of the request."""
    scope = sigv4.part(request, "Credential").partition("/")[2]
    previous = sigv4.part(request, "Signature")
    key = sigv4.signing_key(request, secret)

    def sign(kind, *hashes):
        nonlocal previous
        text = "\n".join([f"AWS4-HMAC-SHA256-{kind}", request.value("x-amz-date"), scope, previous, *hashes])
        previous = hmac.digest(key, text.encode(), "sha256").hex()
        return previous.encode()

    def digest(data):
        return hashlib.sha256(data).hexdigest()

    result, size = b"", 1
    while size:
        header, _, rest = body.partition(b"\r\n")
        size = int(header.partition(b";")[0], 16)
        data, body = rest[:size], rest[size:]
        result += b"%x;chunk-signature=%s\r\n%s" % (size, sign("PAYLOAD", digest(b""), digest(data)), data)
        if size:
            result, body = result + b"\r\n", body.removeprefix(b"\r\n")
    trailers, mark, _ = body.partition(b"x-amz-trailer-signature:")
    if not mark:
        return result + body
    return result + trailers + mark + sign("TRAILER", digest(trailers.replace(b"\r\n", b"\n"))) + b"\r\n\r\n"


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("kind", [SIGNED, f"{SIGNED}-TRAILER"])
def test_chunks_are_signed_anew(start_gateway, make_origin, kind, framing):
    origin = make_origin(ok)
    keys = {"strategy": "aws_sigv4", "access_key_id": "AKIDEXAMPLE", "secret_access_key": {"env": "SECRET"}, "region": REGION, "service": "s3"}
    gateway = start_gateway({"routes": {"aws": {"upstream": origin.url, "auth": keys}}}, environment={"SECRET": "secret-of-the-chunks"})
    parts = [b"a" * 65_536, b"b" * 131_072, b"c" * 1_048_576, b"d"]
    body = chunked(parts, b"x-amz-checksum-crc32:AAAAAA==\r\n" if "TRAILER" in kind else b"")
    sent = body if framing == "length" else (body[at : at + 50_000] for at in range(0, len(body), 50_000))
    answer = requests.put(f"{gateway.url}/aws/bucket/key", data=sent, headers=fields(parts, kind), timeout=30)
    assert answer.status_code == 200, answer.text
    request = origin.requests[-1]
    assert request.value("x-amz-content-sha256") == kind
    assert "x-amz-decoded-content-length" in request.value("authorization")
    expected = resigned(request, body, "secret-of-the-chunks")
    assert len(expected) == len(body) and expected != body
    assert request.body == expected


def test_moto_takes_signed_chunks(way):
    """It verifies the signature of the request, which covers the length of the data, and reads the chunks."""
    way = way()
    made_bucket(way)
    parts = [b"a" * 65_536, b"b" * 1000]
    proxies = {"https": way.environment.get("HTTPS_PROXY", "")} if way.ca else None
    url = f"{way.endpoint}/reports/key"
    options = {"proxies": proxies, "verify": way.ca or True}
    put = requests.put(url, data=chunked(parts), headers=fields(parts), timeout=30, **options)
    assert put.status_code == 200, put.text
    scope = {"Authorization": fields(parts)["Authorization"]}
    assert requests.get(url, headers=scope, timeout=30, **options).content == b"".join(parts)


@pytest.mark.parametrize(
    ("body", "length", "status", "word"),
    [
        (chunked([b"hello"])[:-10], 5, 400, "ends within a chunk"),
        (chunked([b"x" * 8192]), 8193, 400, "less data than x-amz-decoded-content-length"),
        (chunked([b"x"] * 3), 3, 400, "at least 8192 bytes"),
        (b"5\r\nhello\r\n0\r\n\r\n", 5, 400, "SIZE;chunk-signature="),
        (chunked([b"x" * 1_048_577]), 1_048_577, 413, "at most 1048576 bytes"),
    ],
    ids=["cut", "less", "short", "unsigned", "long"],
)
def test_a_body_that_is_not_what_it_says_is_refused(start_gateway, make_origin, body, length, status, word):
    origin = make_origin(ok)
    keys = {"strategy": "aws_sigv4", "access_key_id": "AKIDEXAMPLE", "secret_access_key": {"env": "SECRET"}, "region": REGION, "service": "s3"}
    gateway = start_gateway({"routes": {"aws": {"upstream": origin.url, "auth": keys}}}, environment={"SECRET": "secret-of-the-chunks"})
    headers = {**fields([]), "x-amz-decoded-content-length": str(length)}
    answer = requests.put(f"{gateway.url}/aws/bucket/key", data=body, headers=headers, timeout=30)
    assert answer.status_code == status and word in answer.json()["detail"], answer.text
    assert not origin.requests
