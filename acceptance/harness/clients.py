"""Real clients as processes."""

import subprocess

from .processes import environment


def curl(*arguments, cwd=None, **changes):
    return subprocess.run(
        ["curl", "--silent", "--show-error", "--max-time", "20", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
        cwd=cwd,
        env=environment(**changes),
    )
