"""Commands that only read, where another folder's gateway has the admin address of this configuration."""

import pytest


@pytest.mark.parametrize("words", [("status",), ("routes",), ("token", "list"), ("token", "show", "x"), ("status", "--json")])
def test_another_folders_gateway_is_not_shown_as_ones_own(make_gateway, start_gateway, origin, words):
    config = {"routes": {"api": {"upstream": origin.url, "auth": "none"}}}
    running = start_gateway(config)
    own = make_gateway(config)
    own.file.write_text(own.file.read_text().replace(str(own.admin_port), str(running.admin_port)))
    refused = own.run(*words)
    assert refused.returncode == 4, refused
    assert "does not use" in refused.stderr and "run this with the configuration of the gateway that does" in refused.stderr
    assert refused.stdout == ""
    assert running.run("status").returncode == 0
