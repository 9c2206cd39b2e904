"""How many random messages the tests generate that look for one which two readers understand differently."""

import os


def generated(usual):
    """As many as `AUTHGATEWAY_MESSAGES` says: 100,000 in `make nightly`."""
    return int(os.environ.get("AUTHGATEWAY_MESSAGES") or usual)


#: For a test that makes as many as that.
TIMEOUT = 3600
