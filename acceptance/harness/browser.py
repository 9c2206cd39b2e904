"""Headless Chromium, steered over its DevTools connection."""

import base64
import contextlib
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess

from websockets.sync.client import connect

from . import processes


class Browser:
    def __init__(self, folder):
        program = shutil.which("chromium") or shutil.which("chromium-browser") or "chromium"
        self.log = (pathlib.Path(folder) / "chromium.log").open("w+b")
        self.process = subprocess.Popen(
            [
                program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--no-proxy-server",
                "--remote-debugging-port=0", "--remote-allow-origins=*", f"--user-data-dir={folder}/profile", "about:blank",
            ],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            env=processes.environment(),
        )  # fmt: skip
        endpoint = processes.wait_until(self._endpoint, 40, lambda: f"chromium listens; it said:\n{self._said()}")
        self.open_things = contextlib.ExitStack()
        self.connection = self.open_things.enter_context(connect(endpoint, max_size=None, compression=None))
        self.count = 0
        self.new_window()

    def _said(self):
        return pathlib.Path(self.log.name).read_text(encoding="utf-8", errors="replace")

    def _endpoint(self):
        found = re.search(r"DevTools listening on (ws://\S+)", self._said())
        return found and found[1]

    def _call(self, method, session=None, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        self.connection.send(json.dumps(message))
        while True:
            answer = json.loads(self.connection.recv(timeout=30))
            if answer.get("id") == self.count:
                assert "error" not in answer, answer
                return answer["result"]

    def new_window(self):
        """What comes next happens in a window of its own; cookies are those of all."""
        self.target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self._call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]

    def close_window(self):
        assert self._call("Target.closeTarget", targetId=self.target)["success"]

    def open(self, address):
        """Waits until the answer has come; what became of it is on the page."""
        self._call("Page.navigate", self.session, url=address)

    def resize(self, width, height):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", self.session, **size)

    def prefer(self, scheme):
        """`light` or `dark`."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._call("Emulation.setEmulatedMedia", self.session, features=features)

    def forbid_scripts(self, forbidden=True):
        """Those of the page; `run` still does."""
        self._call("Emulation.setScriptExecutionDisabled", self.session, value=forbidden)

    def press(self, key):
        """A key by its name, for example `Tab` or `Enter`."""
        text = {"Enter": "\r"}.get(key)
        codes = {"Tab": 9, "Enter": 13, "Escape": 27}
        event = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key], **({"text": text} if text else {})}
        self._call("Input.dispatchKeyEvent", self.session, type="keyDown", **event)
        self._call("Input.dispatchKeyEvent", self.session, type="keyUp", key=key, code=key)

    def picture(self, path, size=None):
        """Of the whole page, or of a width and height from its top left corner on, as PNG."""
        clip = {"clip": {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}} if size else {}
        shot = self._call("Page.captureScreenshot", self.session, format="png", captureBeyondViewport=True, **clip)
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))

    def run(self, script):
        result = self._call(
            "Runtime.evaluate", self.session, expression=script, returnByValue=True, awaitPromise=True
        )
        return result["result"].get("value")

    def violations(self):
        """What axe-core finds wrong with the page for people who do not see it, or use no mouse: rule and elements."""
        package = importlib.util.find_spec("axe_playwright_python")
        axe = pathlib.Path(package.submodule_search_locations[0]) / "axe.min.js"
        self.run(axe.read_text(encoding="utf-8"))
        found = self.run(
            "axe.run().then(({violations, incomplete, passes}) => ({passes: passes.length, violations:"
            " violations.map(({id, nodes}) => [id, nodes.map((node) => node.html + ' ' + node.failureSummary)])}))"
        )
        assert found["passes"] > 10, "axe-core has looked at the page"
        return found["violations"]

    @property
    def address(self):
        return self.run("location.href")

    @property
    def text(self):
        return self.run("document.body ? document.body.innerText : ''")

    def until(self, script, seconds=20):
        """Waits until `script` is true on the page, which may be another one by then."""

        def holds():
            try:
                return self.run(script)
            except AssertionError:
                # The page went away while it was asked.
                return False

        processes.wait_until(holds, seconds, lambda: f"{script}; the page is {self.address}:\n{self.text}", pause=0.1)

    def fill(self, selector, value):
        self.until(f"!!document.querySelector({json.dumps(selector)})")
        self.run(f"document.querySelector({json.dumps(selector)}).value = {json.dumps(value)}")

    def click(self, selector):
        self.until(f"!!document.querySelector({json.dumps(selector)})")
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def stop(self):
        self.open_things.close()
        processes.end(self.process)
        self.log.close()
