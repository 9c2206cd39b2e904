"""Two gateways with two state directories must not share a database: the second start is refused."""

import json

import pytest
from harness.configs import plain_config

#: The same key for both gateways: otherwise the second one is refused for its key.
KEY = {"env": "SHARED_KEY"}
ENVIRONMENT = {"SHARED_KEY": "ab" * 32}


def settings(folder, shared, link=False):
    """Of a gateway that has the file named by `shared` in common with another one."""
    path = folder / ("link.sqlite" if link else "shared.sqlite")
    return {"tokens": {"key": KEY, **({"path": str(path)} if shared == "tokens" else {})}} | (
        {"audit": {"path": str(path)}} if shared == "audit" else {}
    )


@pytest.mark.parametrize("shared", ["tokens", "audit"])
@pytest.mark.parametrize("link", [False, True], ids=["same-path", "hard-link"])
def test_a_second_gateway_on_a_database_is_refused(make_gateway, origin, tmp_path, shared, link):
    first = make_gateway({**plain_config(origin), **settings(tmp_path, shared)}, environment=ENVIRONMENT).start()
    if link:
        (tmp_path / "link.sqlite").hardlink_to(tmp_path / "shared.sqlite")
    second = make_gateway({**plain_config(origin), **settings(tmp_path, shared, link)}, environment=ENVIRONMENT)
    refused = second.run("run")
    assert refused.returncode == 1, refused
    assert "another gateway uses" in refused.stderr and f"{shared}.path" in refused.stderr, refused.stderr
    # Commands that work on the files of a gateway that does not run are refused, too.
    offline = second.run("token", "clear", "routes.api")
    assert offline.returncode != 0 and "another gateway uses" in offline.stderr, offline
    # The first one goes on, and its log is whole.
    assert first.run("audit", "verify").returncode == 0
    assert first.stop() == 0
    if not link:
        second.start()


def test_one_file_for_both_databases_is_refused(make_gateway, origin, tmp_path):
    path = str(tmp_path / "both.sqlite")
    gateway = make_gateway({**plain_config(origin), "audit": {"path": path}, "tokens": {"path": path}})
    result = gateway.run("run")
    assert result.returncode == 1 and "name the same file" in result.stderr, result


def test_the_lock_ends_with_a_killed_gateway(make_gateway, origin, tmp_path):
    gateway = make_gateway({**plain_config(origin), "audit": {"path": str(tmp_path / "audit.sqlite")}}).start()
    gateway.kill()
    gateway.start()


def test_a_reader_of_the_audit_log_is_not_refused(make_gateway, origin, tmp_path):
    gateway = make_gateway({**plain_config(origin), "audit": {"path": str(tmp_path / "audit.sqlite")}}).start()
    result = gateway.run("audit", "query", "--json")
    assert result.returncode == 0 and json.loads(result.stdout.splitlines()[0])["event"] == "gateway_started", result
