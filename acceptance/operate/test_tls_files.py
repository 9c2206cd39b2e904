"""Certificates and keys that cannot be used: said by `check` before a start, and by the start, where and what."""

import os

import pytest
from harness.configs import BEARER


@pytest.fixture
def files(certificate_authority, tmp_path):
    """Paths by what is wrong with them."""
    certificate, key = certificate_authority.issue("tls-files", "IP:127.0.0.1")
    _, other = certificate_authority.issue("tls-files-other", "IP:127.0.0.1")
    for path in (certificate, key, other):
        os.chmod(path, 0o600)
    empty, pipe = tmp_path / "empty.pem", tmp_path / "pipe.pem"
    empty.touch()
    os.mkfifo(pipe)
    names = {"certificate": certificate, "key": key, "other key": other, "empty": empty, "pipe": pipe}
    return {name: str(path) for name, path in names.items()} | {"nowhere": str(tmp_path / "nowhere.pem"), "folder": str(tmp_path)}


def listener(files, certificate="certificate", key="key", client_ca=None):
    tls = {"certificate": files[certificate], "private_key": {"file": files[key]}}
    return {"tls": tls | ({"client_ca": files[client_ca]} if client_ca else {})}


def route(files, **names):
    tls = {name: {"file": files[file]} if name == "private_key" else files[file] for name, file in names.items()}
    return {"upstream": "https://127.0.0.1:9", "auth": BEARER, "tls": tls}


NO_CERTIFICATE, NO_KEY = "holds no certificate (PEM) that can be read", "private_key: cannot be read; it must be PEM"
NOT_OURS = "private_key: does not belong to the certificate"
LISTENERS = [
    ({"certificate": "key"}, NO_CERTIFICATE),
    ({"certificate": "empty"}, NO_CERTIFICATE),
    ({"certificate": "nowhere"}, "nowhere.pem: No such file or directory"),
    ({"certificate": "pipe"}, "pipe.pem: not a regular file"),
    ({"certificate": "folder"}, "not a regular file"),
    ({"key": "certificate"}, NO_KEY),
    ({"key": "other key"}, NOT_OURS),
    ({"client_ca": "empty"}, NO_CERTIFICATE),
    ({"client_ca": "pipe"}, "pipe.pem: not a regular file"),
]
ROUTES = [
    ({"ca": "empty"}, NO_CERTIFICATE),
    ({"ca": "pipe"}, "pipe.pem: not a regular file"),
    ({"certificate": "certificate", "private_key": "other key"}, NOT_OURS),
    ({"certificate": "pipe", "private_key": "key"}, "pipe.pem: not a regular file"),
]


def is_said(gateway, where, words):
    for command in ("check", "plan"):
        said = gateway.run(command)
        assert said.returncode == 3 and where in said.stderr and words in said.stderr, said
    started = gateway.run("run")
    assert started.returncode == 1 and where in started.stderr and words in started.stderr, started


@pytest.mark.parametrize("names, words", LISTENERS)
def test_of_a_listener(origin, make_gateway, files, names, words):
    routes = {"api": {"upstream": origin.url, "auth": BEARER}}
    gateway = make_gateway({"routes": routes}, listeners=[{"address": "127.0.0.1:0", **listener(files, **names)}])
    is_said(gateway, "listeners.proxy", words)


@pytest.mark.parametrize("names, words", ROUTES)
def test_of_a_route(make_gateway, files, names, words):
    is_said(make_gateway({"routes": {"api": route(files, **names)}}), "routes.api.tls", words)


def test_what_can_be_used_is_no_problem(origin, make_gateway, files, certificate_authority):
    files["authority"] = str(certificate_authority.certificate)
    routes = {"api": route(files, ca="authority", certificate="certificate", private_key="key")}
    gateway = make_gateway({"routes": routes}, listeners=[{"address": "127.0.0.1:0", **listener(files, client_ca="authority")}])
    assert gateway.run("check").returncode == 0
    assert gateway.start().stop() == 0


def test_a_reload_waits_for_no_pipe(start_gateway, files, certificate_authority):
    files["authority"] = str(certificate_authority.certificate)
    gateway = start_gateway({"routes": {"api": route(files, ca="authority")}})
    gateway.configure({"routes": {"api": route(files, ca="pipe")}})
    reloaded = gateway.run("reload", timeout=10)
    assert reloaded.returncode != 0 and "not a regular file" in reloaded.stderr
    assert gateway.stop(10) == 0
