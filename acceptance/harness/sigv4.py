"""What AWS verifies: Signature Version 4, computed from a request as it arrived."""

import hashlib
import hmac
import urllib.parse

UNRESERVED = "-._~"


def values(request, name):
    return [value for found, value in request.fields if found.lower() == name]


def part(request, name):
    """`Credential`, `SignedHeaders` or `Signature` of its `Authorization`."""
    (value,) = values(request, "authorization")
    return value.partition(f"{name}=")[2].partition(",")[0]


def signing_key(request, secret):
    key = f"AWS4{secret}".encode()
    for word in part(request, "Credential").split("/")[1:]:
        key = hmac.digest(key, word.encode(), "sha256")
    return key


def encoded(text):
    return urllib.parse.quote(urllib.parse.unquote_plus(text), safe=UNRESERVED)


def signature(request, secret):
    path, _, query = request.target.partition("?")
    pairs = sorted((encoded(name), encoded(value)) for name, _, value in (pair.partition("=") for pair in query.split("&") if pair))
    names = part(request, "SignedHeaders")
    scope = part(request, "Credential").partition("/")[2]
    # S3 alone does not encode the path once more.
    path = urllib.parse.unquote(path) if scope.split("/")[2] == "s3" else path
    body = request.body if isinstance(request.body, bytes) else request.body.encode()
    canonical = [
        request.method,
        urllib.parse.quote(path, safe=f"/{UNRESERVED}"),
        "&".join(f"{name}={value}" for name, value in pairs),
        *(f"{name}:{' '.join(','.join(values(request, name)).split())}" for name in names.split(";")),
        "",
        names,
        *(values(request, "x-amz-content-sha256") or [hashlib.sha256(body).hexdigest()]),
    ]
    digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", *values(request, "x-amz-date"), scope, digest])
    return hmac.digest(signing_key(request, secret), text.encode(), "sha256").hex()
