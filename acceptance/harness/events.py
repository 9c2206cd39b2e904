"""What the audit log and the commands say of a gateway's tokens."""

from .processes import wait_until


def named(gateway, event, *filters):
    """The token events of that name, oldest first; `filters` go to `audit query`."""
    return [found for found in gateway.events(*filters) if found["event"] == event]


def wait_for_events(gateway, name, count=1):
    """Waits until the audit log has that many events of that name."""
    wait_until(lambda: len(named(gateway, name)) >= count, 20, lambda: f"{count} {name}; the log says:\n{gateway.text()}")


def token_of(gateway, credential="me"):
    """The access token, as `token get` prints it."""
    shown = gateway.run("token", "get", credential)
    assert shown.returncode == 0, shown.stderr
    return shown.stdout.strip()
