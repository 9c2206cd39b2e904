"""A gateway that other machines can reach: short client tokens are refused, and plaintext is a warning."""

import pytest
from harness import processes
from harness.configs import plain_config

SHORT, LONG = "fifteen-bytes-x", "sixteen-bytes-xy"


def config(origin, token):
    return {**plain_config(origin), "access": {"clients": {"laptop": {"token": token}}}}


@pytest.mark.parametrize("token, expected", [(SHORT, "warning"), (LONG, None)])
def test_a_short_token_on_loopback_is_a_warning(make_gateway, origin, token, expected):
    result = make_gateway(config(origin, token)).run("check")
    assert result.returncode == 0 and token not in result.stderr
    assert ("warning: access.clients.laptop.token: the token has fewer than 16 bytes" in result.stderr) == (expected is not None)
    assert "without TLS" not in result.stderr


@pytest.mark.parametrize("token, status", [(SHORT, 3), (LONG, 0)])
def test_off_loopback_a_short_token_is_an_error_and_plaintext_a_warning(make_gateway, origin, token, status):
    listener = {"address": f"0.0.0.0:{processes.free_port()}"}
    result = make_gateway(config(origin, token), listeners=[listener]).run("check")
    assert result.returncode == status, result
    assert ("error: access.clients.laptop.token: the token has fewer than 16 bytes" in result.stderr) == (status != 0)
    assert "warning: listeners.proxy[1].address: reachable from other machines without TLS" in result.stderr


def test_a_digest_says_nothing_about_the_length(make_gateway, origin):
    access = {"clients": {"laptop": {"token_sha256": "ab" * 32}}}
    listener = {"address": f"[::]:{processes.free_port()}"}
    result = make_gateway({**plain_config(origin), "access": access}, listeners=[listener]).run("check")
    assert result.returncode == 0 and "16 bytes" not in result.stderr, result
