"""What the audit log and the commands say of a gateway's tokens."""


def named(gateway, event, *filters):
    """The token events of that name, oldest first; `filters` go to `audit query`."""
    return [found for found in gateway.events(*filters) if found["event"] == event]


def token_of(gateway, credential="me"):
    """The access token, as `token get` prints it."""
    shown = gateway.run("token", "get", credential)
    assert shown.returncode == 0, shown.stderr
    return shown.stdout.strip()
