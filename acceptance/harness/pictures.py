"""Writes the pictures of README.md from a gateway that runs: docs/images/terminal.svg and docs/images/status.png.
Run it after the status page or the shown commands have changed, on a quiet machine, and look at the result. It takes 7 minutes:
a day passes for the gateway.

AUTHGATEWAY_BINARY=… python acceptance/harness/pictures.py
"""

import html
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness import processes
from harness.browser import Browser
from harness.clock import FalseClock
from harness.gateway import BINARY, ROOT
from harness.libraries import shared_library

IMAGES = ROOT / "docs/images"
#: What stands in the place of the ports of one run.
PROXY, ADMIN = "8080", "8081"
#: The commands of terminal.svg; each runs, and its output is shown below it. A text without a command is a comment.
SESSION = [
    ("No account is needed. In another terminal: authgateway run --sandbox", None),
    (None, "curl http://127.0.0.1:8080/box/2.0/users/me"),
    ("The service revokes the token …", None),
    (None, "curl http://127.0.0.1:8080/box/_sandbox/switches -d '{\"revoke_access\": true}' -s -o /dev/null"),
    ("… and the client does not notice.", None),
    (None, "curl http://127.0.0.1:8080/box/2.0/users/me"),
    ("What happened:", None),
    (None, """sqlite3 -header -column state/audit.sqlite \\
  "SELECT substr(at, 12, 12) AS time, event, credential, generation
   FROM token_events WHERE route = 'box'\""""),
]  # fmt: skip
COLUMNS = 100
STYLE = """
svg { --page: #ffffff; --edge: #d0d7de; --text: #1f2328; --dim: #59636e; --prompt: #1a7f37; --bar: #f6f8fa }
@media (prefers-color-scheme: dark) {
  svg { --page: #0d1117; --edge: #3d444d; --text: #e6edf3; --dim: #9198a1; --prompt: #3fb950; --bar: #151b23 }
}
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: var(--text); white-space: pre }
.comment { fill: var(--dim) }
.prompt { fill: var(--prompt) }
.step { animation: appear 0.2s both }
@keyframes appear { from { opacity: 0 } }
@media (prefers-reduced-motion: reduce) { .step { animation: none } }
"""


class Stage:
    """A gateway with its sandbox in a folder of its own."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.ports = {PROXY: str(processes.free_port()), ADMIN: str(processes.free_port())}
        tools = self.folder / "bin"
        tools.mkdir()
        (tools / "authgateway").symlink_to(BINARY)
        self.environment = processes.environment(PATH=f"{tools}:{os.environ['PATH']}", HOME=folder, NO_COLOR="1", **TOKENS)
        self.process = None
        self.run("authgateway init")
        config = self.folder / "gateway.yaml"
        config.write_text(self.with_ports(config.read_text(encoding="utf-8")), encoding="utf-8")

    def start(self, *options, environment=None):
        self.process = subprocess.Popen(
            [BINARY, "run", "--sandbox", *options],
            cwd=self.folder, env={**self.environment, **(environment or {})}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        processes.wait_until(lambda: processes.is_listening(int(self.ports[PROXY])), 20, "it listens")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.process:
            processes.end(self.process)
        self.process = None

    def with_ports(self, text):
        for shown, real in self.ports.items():
            text = text.replace(f"127.0.0.1:{shown}", f"127.0.0.1:{real}")
        return text

    def run(self, command):
        """The output of a command of a shell."""
        result = subprocess.run(
            ["bash", "-c", self.with_ports(command)],
            check=True, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        return result.stdout

    def request(self, path, *more):
        self.run(f"curl -sS -o /dev/null {' '.join(more)} 'http://127.0.0.1:{PROXY}{path}'")


def terminal(stage):
    """The session as SVG: lines appear one after the other, unless the reader wants no motion."""
    rows, delay = [], 0.0

    def say(text, kind="", prompt="", pause=0.0):
        nonlocal delay
        delay += pause
        for line in text.splitlines() or [""]:
            # A terminal breaks a long line wherever it ends.
            for start in range(0, len(prompt + line) or 1, COLUMNS):
                rows.append((prompt, (prompt + line)[start : start + COLUMNS].removeprefix(prompt), kind, delay))
                prompt = ""

    for comment, command in SESSION:
        if comment:
            say(f"# {comment}", "comment", pause=0.8)
            continue
        if "sqlite3" in command:
            # Rows are written behind the requests.
            stage.run("sleep 1.5")
        say(command, prompt="$ ", pause=0.4)
        for number, line in enumerate(stage.run(command).splitlines()):
            say(line.rstrip(), pause=0.5 if number == 0 else 0.0)
        rows.append(("", "", "", delay))
    return svg(rows[:-1])


def svg(rows):
    leading, left, top = 20, 20, 62
    width, height = 2 * left + COLUMNS * 8.43, top + leading * len(rows) + 6
    lines = []
    for number, (prompt, text, kind, delay) in enumerate(rows):
        start = f'<tspan class="prompt">{prompt}</tspan>' if prompt else ""
        lines.append(
            f'<text class="step {kind}" x="{left}" y="{top + leading * number}" style="animation-delay:{delay:.1f}s">'
            f"{start}{html.escape(text, quote=False)}</text>"
        )
    dots = "".join(f'<circle cx="{22 + 18 * number}" cy="18" r="5.5" fill="var(--edge)"/>' for number in range(3))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" role="img">\n'
        "<title>A request without a token, a token that the service revokes, and the audit log</title>\n"
        f"<style>{STYLE}</style>\n"
        f'<rect x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1}" rx="8" fill="var(--page)" stroke="var(--edge)"/>\n'
        f'<path d="M1 36V9a8 8 0 0 1 8-8H{width - 9:.0f}a8 8 0 0 1 8 8V36Z" fill="var(--bar)"/>{dots}\n' + "\n".join(lines) + "\n</svg>\n"
    )


#: What the gateway of status.png serves, all at the sandbox.
SERVICES = """version: 1
access:
  clients:
    laptop: {token: {env: CLIENT_TOKEN}}
    agent: {token: {env: AGENT_TOKEN}}
credentials:
  box-service:
    strategy: box_ccg
    client_id: ${SANDBOX_BOX_CLIENT_ID}
    client_secret: {env: SANDBOX_BOX_CLIENT_SECRET}
    subject: {enterprise: "${SANDBOX_BOX_ENTERPRISE_ID}"}
    token_url: ${SANDBOX_BOX_URL}/oauth2/token
  reports:
    strategy: oauth2_client_credentials
    token_url: ${SANDBOX_OAUTH_URL}/oauth/token
    client_id: ${SANDBOX_OAUTH_CLIENT_ID}
    client_secret: {env: SANDBOX_OAUTH_CLIENT_SECRET}
  openai: {strategy: bearer, token: {env: SANDBOX_UPSTREAM_TOKEN}}
  billing: {strategy: bearer, token: {file: ./billing.key}}
routes:
  box: {upstream: "${SANDBOX_BOX_URL}", auth: box-service}
  reports: {upstream: "${SANDBOX_UPSTREAM_URL}", auth: reports}
  openai: {upstream: "${SANDBOX_UPSTREAM_URL}", auth: openai}
  billing: {upstream: "${SANDBOX_UPSTREAM_URL}", auth: billing}
"""
TOKENS = {"CLIENT_TOKEN": "token-of-the-laptop-1234", "AGENT_TOKEN": "token-of-the-agent-12345"}
SIZE = 1180, 1390
#: How much faster a day passes, and how many hours of it.
PACE, HOURS = 300, 23
#: The calls of a token server fail from one hour to the other; the service accepts the key of billing until the hour of the last.
FAILING, REVOKED, REPLACED = (9, 10.5), (5, 14), 17


def past_day(stage, key, laptop, agent):
    """Tokens come and go, one server fails for a while, a service forgets its tokens, and a key is replaced by a wrong one."""
    clock = FalseClock(shared_library(stage.folder, "false_clock.c"), stage.folder)
    clock.set(f"-{HOURS}h", PACE)
    stage.start("--token-lifetime", "5400", environment=clock.all_time)
    start, done = time.monotonic(), set()

    def once(hour, act):
        if hour not in done and time.monotonic() - start >= hour * 3600 / PACE:
            done.add(hour)
            act()

    def switch(route, text):
        stage.request(f"/{route}/_sandbox/switches", laptop, "-d", f"'{text}'")

    def replace_key():
        key.write_text("not-the-key", encoding="ascii")
        stage.run("authgateway reload 2>&1")

    while time.monotonic() - start < HOURS * 3600 / PACE:
        for path in ("/box/2.0/users/me", "/reports/echo", "/openai/echo", "/billing/echo"):
            stage.request(path, agent)
        once(FAILING[0], lambda: switch("openai", '{"origin": "oauth", "token_status": 503}'))
        once(FAILING[1], lambda: switch("openai", '{"origin": "oauth", "token_status": null}'))
        for hour in REVOKED:
            once(hour, lambda: switch("box", '{"revoke_access": true}'))
        once(REPLACED, replace_key)
        time.sleep(1)
    stage.stop()


def status_page(stage, path):
    """The status page after a day and some minutes. The service refuses one key, and has revoked tokens."""
    key = stage.folder / "billing.key"
    key.touch(mode=0o600)
    key.write_text("sandbox-upstream-token", encoding="ascii")
    (stage.folder / "sandbox.yaml").write_text(SERVICES, encoding="utf-8")
    config = stage.folder / "gateway.yaml"
    start, _, _ = config.read_text(encoding="utf-8").partition("\nroutes:\n")
    config.write_text(start + "\n", encoding="utf-8")
    laptop, agent = (f"-H 'Proxy-Authorization: Bearer {token}'" for token in TOKENS.values())
    past_day(stage, key, laptop, agent)
    stage.start()
    end = time.monotonic() + 100
    while time.monotonic() < end:
        for client in (agent, laptop):
            stage.request("/openai/echo", client)
            stage.request("/openai/slow?ms=40", client)
        stage.request("/box/2.0/users/me", laptop)
        stage.request("/reports/echo", laptop)
        stage.request("/billing/echo", agent)
        time.sleep(2)
    stage.run("sleep 1.5")
    browser = Browser(stage.folder)
    try:
        browser.resize(*SIZE)
        browser.prefer("light")
        browser.open(stage.with_ports(f"http://127.0.0.1:{ADMIN}/"))
        browser.until("document.readyState === 'complete' && document.body.innerText.includes('box-service')")
        stage.run("sleep 1.5")
        browser.picture(path, SIZE)
        path.write_bytes(smaller(path.read_bytes()))
    finally:
        browser.stop()


def smaller(png):
    """The same picture in fewer bytes: large areas of one colour compress best as they are, without the filters of PNG (RFC 2083)."""
    parts, at = [], 8
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        parts.append((png[at + 4 : at + 8], png[at + 8 : at + 8 + length]))
        at += 12 + length
    width, height, depth, kind = struct.unpack_from(">IIBB", dict(parts)[b"IHDR"])
    assert depth == 8 and kind in (2, 6), "RGB, with or without alpha"
    step = 3 if kind == 2 else 4
    lines = zlib.decompress(b"".join(data for name, data in parts if name == b"IDAT"))
    above, plain = bytearray(width * step), bytearray()
    for start in range(0, len(lines), width * step + 1):
        row = bytearray(lines[start + 1 : start + 1 + width * step])
        for place in range(len(row)):
            left, corner = (row[place - step], above[place - step]) if place >= step else (0, 0)
            guess = [0, left, above[place], (left + above[place]) // 2, nearest(left, above[place], corner)][lines[start]]
            row[place] = (row[place] + guess) & 255
        plain += b"\0" + row
        above = row
    assert len(plain) == height * (width * step + 1)
    packed = [(b"IHDR", dict(parts)[b"IHDR"]), (b"IDAT", zlib.compress(plain, 9)), (b"IEND", b"")]
    return png[:8] + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in packed
    )


def nearest(left, up, corner):
    """Paeth's predictor."""
    guess = left + up - corner
    return min((left, up, corner), key=lambda value: abs(guess - value))


def main():
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, Stage(folder) as stage:
        stage.start()
        (IMAGES / "terminal.svg").write_text(terminal(stage), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, Stage(folder) as stage:
        status_page(stage, IMAGES / "status.png")


if __name__ == "__main__":
    main()
