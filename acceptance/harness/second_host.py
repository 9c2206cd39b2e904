"""Another machine, as far as the network goes: a namespace with a cable to the network of the test. Needs root."""

import subprocess

from .names import ip
from .processes import wait_until

HERE, THERE = "10.99.0.1", "10.99.0.2"


class SecondHost:
    """Made inside of a private network (harness/names.py), so nobody else sees its addresses."""

    address = THERE

    def __init__(self):
        # The namespace lives as long as this process.
        self.process = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        #: The words that start a program there.
        self.within = ["nsenter", "--net", "--target", str(self.process.pid)]
        self._wait_for_namespace()
        ip("link", "add", "cable", "type", "veth", "peer", "name", "cable-end")
        ip("link", "set", "cable-end", "netns", str(self.process.pid))
        ip("address", "add", f"{HERE}/24", "dev", "cable")
        ip("link", "set", "cable", "up")
        self._run("ip", "address", "add", f"{THERE}/24", "dev", "cable-end")
        self._run("ip", "link", "set", "lo", "up")
        self.connect()

    def _wait_for_namespace(self):
        def names():
            links = [["readlink", f"/proc/{pid}/ns/net"] for pid in ("self", self.process.pid)]
            found = [subprocess.run(link, check=False, capture_output=True).stdout for link in links]
            return found[1] and found[0] != found[1]

        wait_until(names, 10, "the network of the second host is there")

    def _run(self, *words):
        subprocess.run([*self.within, *words], check=True)

    def cut(self):
        """The cable is out: nobody gets an answer, nor word that there is none."""
        self._run("ip", "link", "set", "cable-end", "down")

    def connect(self):
        self._run("ip", "link", "set", "cable-end", "up")

    def stop(self):
        self.process.kill()
        self.process.wait()
