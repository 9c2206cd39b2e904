"""Commands find the running gateway from any folder."""

import json

import pytest
from harness.gateway import command


@pytest.fixture
def runtime(tmp_path):
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def elsewhere(tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


@pytest.fixture
def start(make_gateway, origin, runtime):
    def start(**more):
        routes = {"routes": {"api": {"upstream": origin.url, "auth": "none"}}, **more}
        gateway = make_gateway(routes)
        gateway.environment["XDG_RUNTIME_DIR"] = str(runtime)
        return gateway.start()

    return start


def test_the_only_gateway_is_found(start, runtime, elsewhere):
    gateway = start()
    result = command("status", cwd=elsewhere, XDG_RUNTIME_DIR=str(runtime))
    assert result.returncode == 0 and "ready" in result.stdout, result
    assert str(gateway.file) in result.stderr and str(gateway.process.pid) in result.stderr
    as_json = command("routes", "--json", cwd=elsewhere, XDG_RUNTIME_DIR=str(runtime))
    assert [route["name"] for route in json.loads(as_json.stdout)] == ["api"]
    assert gateway.stop() == 0
    assert list((runtime / "authgateway").iterdir()) == [], "a gateway that stops is no longer found"
    gone = command("status", cwd=elsewhere, XDG_RUNTIME_DIR=str(runtime))
    assert gone.returncode == 3 and "gateway.yaml" in gone.stderr, gone


def test_of_two_gateways_one_has_to_be_named(start, runtime, elsewhere):
    first, second = start(), start()
    result = command("status", cwd=elsewhere, XDG_RUNTIME_DIR=str(runtime))
    assert result.returncode == 2 and result.stdout == "", result
    assert f"--config {first.file}" in result.stderr and f"--config {second.file}" in result.stderr
    named = command("status", cwd=elsewhere, XDG_RUNTIME_DIR=str(runtime), AUTHGATEWAY_CONFIG=str(first.file))
    assert named.returncode == 0 and named.stderr == "", named


def test_what_a_crash_left_behind_is_not_found(start, runtime, elsewhere):
    gateway = start()
    gateway.expected_ends = {-9}
    gateway.process.kill()
    gateway.process.wait(10)
    assert len(list((runtime / "authgateway").iterdir())) == 1
    result = command("status", cwd=elsewhere, XDG_RUNTIME_DIR=str(runtime))
    assert result.returncode == 3 and "gateway.yaml" in result.stderr, result


def test_what_others_can_write_is_not_followed(start, runtime, elsewhere):
    start()
    (runtime / "authgateway").chmod(0o777)
    result = command("status", cwd=elsewhere, XDG_RUNTIME_DIR=str(runtime))
    assert result.returncode == 3, result
