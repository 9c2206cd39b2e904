"""Commands that write to a terminal."""

import fcntl
import os
import pty
import struct
import subprocess
import termios

from . import processes
from .gateway import BINARY


def on_a_terminal(gateway, *arguments, columns=80, **environment):
    """What the command writes to a terminal of this width."""
    primary, secondary = pty.openpty()
    fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(
        [BINARY, *arguments, "--config", str(gateway.file)],
        cwd=gateway.folder,
        env=processes.environment(COLUMNS=None, TERM="xterm", **environment),
        stdout=secondary,
        stderr=subprocess.DEVNULL,
    )
    os.close(secondary)
    shown = b""
    try:
        while chunk := os.read(primary, 4096):
            shown += chunk
    except OSError:
        pass  # The other end is closed.
    os.close(primary)
    assert process.wait(20) == 0
    return shown.decode().replace("\r\n", "\n")
