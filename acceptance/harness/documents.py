"""The fenced blocks of the documents: reading them, running them, and completing fragments of a configuration.

The info string of a fence steers what a test does with a block:

- ```` ```sh ````: the lines run in the page's folder, in the order of the page, in one shell. Each command has to succeed.
- ```` ```sh exit=3 ````: its last command ends with that code.
- ```` ```sh background ````: one command that runs on. The next block runs when it is ready. The same command
  again, or the end of the page, ends it.
- ```` ```text output ````: these lines are in the output of the block before, in this order; `…` stands for anything.
- ```` ```sql ````: a query of `state/audit.sqlite` that gives rows.
- ```` ```yaml ````: a configuration that `authgateway check --no-secrets` accepts. A fragment is completed (`completed`).
- ```` ```yaml fragment=credential ````, `fragment=route`: the value of one entry.
- ```` ```yaml part ````: a place of a configuration. The JSON Schema knows each key and value; others may be missing.
- `file=NAME` in any info string: the block is that file of the page's folder.
- `test=FILE`: run by another test, in a machine of its own.
- `skip="REASON"`: not run. The reason names what a test machine lacks.
"""

import contextlib
import os
import pathlib
import re
import shlex
import signal
import sqlite3
import subprocess

import yaml

from . import processes, schema
from .examples import Loader, variables
from .gateway import BINARY, ROOT

#: The ports that the documents name. Each page gets others in their places.
PORT = re.compile(r"(?<=[:=\s])(80[89][0-9])(?![0-9.])")
DEADLINE = 60


class Block:
    """One fenced block: where it is, its language, what its info string says, its text."""

    def __init__(self, page, line, info, text):
        words = shlex.split(info)
        self.page = page
        self.line = line
        self.text = text
        self.language = words[0] if words else ""
        #: For example {"exit": "3", "background": ""}.
        self.options = {name: value for name, _, value in (word.partition("=") for word in words[1:])}

    @property
    def place(self):
        return f"{self.page}:{self.line}"

    @property
    def is_skipped(self):
        return "skip" in self.options

    @property
    def is_whole(self):
        return bool(re.search(r"^version:", self.text, re.MULTILINE))


def blocks(page, text=None):
    """The blocks of a page (a path below the repository), or of a text that stands for one."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines() if text is None else text.splitlines()
    found, start = [], None
    for number, line in enumerate(lines, 1):
        fence = re.fullmatch(r"( *)```(.*)", line)
        if not fence:
            continue
        if start is None:
            start, indentation, info = number, len(fence[1]), fence[2]
        else:
            inside = "".join(f"{line[indentation:]}\n" for line in lines[start : number - 1])
            found.append(Block(page, start, info, inside))
            start = None
    assert start is None, f"{page}:{start}: the block does not end"
    return found


def completed(block):
    """The text of a configuration that `check` accepts, made of a fragment: with a version, routes, and the credentials that it names."""
    text = block.text
    kind = block.options.get("fragment")
    if kind == "credential":
        text = "credentials:\n  documented:\n" + _indented(text, 4)
        text += "routes:\n  documented: {upstream: https://api.example.com, auth: documented}\n"
    elif kind == "route":
        text = "routes:\n  documented:\n" + _indented(text, 4)
    elif kind is not None:
        raise AssertionError(f"{block.place}: no such fragment: {kind}")
    tree = _tree(text)
    if "version" not in tree:
        text = "version: 1\n" + text
    if "routes" not in tree:
        text += "routes:\n  documented: {upstream: https://api.example.com, auth: none}\n"
    missing = sorted(_credentials_of(tree) - set(tree.get("credentials") or {}))
    if missing and "credentials" not in tree:
        entries = "".join(f"  {name}: {{strategy: bearer, token: {{env: DOCUMENTED}}}}\n" for name in missing)
        text += f"credentials:\n{entries}"
    return text


def _indented(text, width):
    return "".join(f"{' ' * width}{line}\n" for line in text.splitlines())


def _tree(text):
    return yaml.load(text, Loader) or {}


def _credentials_of(tree):
    """The names that routes use, and that another credential stands on."""
    names = set()
    for route in (tree.get("routes") or {}).values():
        auth = (route or {}).get("auth")
        name = auth.get("credential") if isinstance(auth, dict) else auth
        names.add(name)
    for credential in (tree.get("credentials") or {}).values():
        names.add((credential or {}).get("parent"))
    return names - {None, "none"}


def check(block, folder):
    """`authgateway check` over a block of YAML; what it prints when it refuses."""
    text = block.text if block.is_whole else completed(block)
    config = folder / "gateway.yaml"
    config.write_text(text, encoding="utf-8")
    url = "https://documented.example.com"
    values = {name: url if name.endswith("_URL") else value for name, value in variables(text).items()}
    result = subprocess.run(
        [BINARY, "check", "--no-secrets", str(config)],
        check=False,
        cwd=folder,
        env=processes.environment(**values),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    return None if result.returncode == 0 else f"{block.place}\n{result.stdout}{result.stderr}\n{text}"


class Session:
    """One shell in an empty folder, with the gateway's program on its path."""

    def __init__(self, folder):
        self.folder = folder / "page"
        self.control = folder / "control"
        tools = folder / "bin"
        for each in (self.folder, self.control, tools):
            each.mkdir()
        (tools / "authgateway").symlink_to(BINARY)
        self.ports = {}
        self.background = []
        self.output = ""
        self.steps = 0
        self.started = 0
        self.environment = processes.environment(
            PATH=f"{tools}:{os.environ['PATH']}", HOME=str(self.folder), NO_COLOR="1"
        )
        self.shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def with_ports(self, text):
        def port(match):
            return str(self.ports.setdefault(match[1], processes.free_port()))

        return PORT.sub(port, text)

    def run(self, block):
        """Runs a block, and fails with its output."""
        self._move_ports()
        if "background" in block.options:
            self._start(block)
            return
        code = int(block.options.get("exit", 0))
        got = self._shell(self.with_ports(block.text), is_strict=code == 0)
        assert got == code, f"{block.place}: ended with {got}\n{block.text}\n{self.output}{self._logs()}"

    def write(self, block):
        """Makes the file that a block is."""
        path = self.folder / block.options["file"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.with_ports(block.text), encoding="utf-8")

    def expect(self, block):
        """Looks for the lines of a block in the output of the one before."""
        rest = self.output
        for line in block.text.splitlines():
            pattern = "[^\n]*".join(re.escape(part) for part in re.split("…", self.with_ports(line.strip())))
            # Tables are as wide as what is in them.
            match = re.search(re.sub(r"(\\ )+", r"\\s+", pattern), rest)
            assert match, f"{block.place}: {line!r} is not in the output, or not there\n{self.output}"
            rest = rest[match.end() :]

    def _place(self):
        """Where the shell is."""
        return pathlib.Path(f"/proc/{self.shell.pid}/cwd").resolve()

    def _move_ports(self):
        """In the configurations that a command wrote."""
        for path in self._place().glob("*.yaml"):
            text = path.read_text(encoding="utf-8")
            if (moved := self.with_ports(text)) != text:
                path.write_text(moved, encoding="utf-8")

    def _shell(self, text, is_strict):
        """The exit code of lines, which run in the shell itself: what they export stays."""
        self.steps += 1
        script, output, code = (self.control / f"{self.steps}.{kind}" for kind in ("sh", "output", "code"))
        script.write_text(text, encoding="utf-8")
        strict, lax = ("set -eo pipefail; ", "; set +e") if is_strict else ("", "")
        self._say(f"{strict}. {script} >{output} 2>&1 </dev/null{lax}; echo $? >{code}.new; mv {code}.new {code}")
        try:
            processes.wait_until(
                lambda: code.exists() or self.shell.poll() is not None, DEADLINE, lambda: f"the end of\n{text}"
            )
        finally:
            self.output = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
        return int(code.read_text(encoding="ascii")) if code.exists() else self.shell.returncode

    def _start(self, block):
        command = self.with_ports(block.text).strip()
        failures = self._end_background(command)
        assert not failures, failures
        self.started += 1
        number = self.started
        pid, log = self.control / f"{number}.pid", self.control / f"{number}.log"
        self.background.append((command, pid, log))
        script = self.control / f"{number}.background"
        script.write_text(f"exec {command}\n", encoding="utf-8")
        self._say(f"bash {script} >{log} 2>&1 </dev/null & echo $! >{pid}.new; mv {pid}.new {pid}")
        words = shlex.split(command, comments=True)
        if [os.path.basename(words[0]), *words[1:2]] == ["authgateway", "run"]:
            config = words[words.index("--config") + 1 :][:1] if "--config" in words else ["gateway.yaml"]
            ready = lambda: self._answers(config[0])
        else:
            ready = lambda: log.exists() and log.stat().st_size > 0
        processes.wait_until(ready, DEADLINE, lambda: f"{block.place}: {command} is ready\n{self._logs()}", 0.2)

    def _answers(self, config):
        """A gateway serves that configuration, whatever it lacks."""
        self._move_ports()
        status = subprocess.run(
            [BINARY, "status", "--config", config],
            check=False,
            cwd=self._place(),
            env=self.environment,
            capture_output=True,
            timeout=DEADLINE,
        )
        return status.returncode in (0, 1)

    def _say(self, line):
        try:
            self.shell.stdin.write(line.encode() + b"\n")
            self.shell.stdin.flush()
        except BrokenPipeError:
            raise AssertionError("the shell of the page has ended") from None

    def _logs(self):
        return "".join(f"\n--- log\n{log.read_text(errors='replace')[-4000:]}" for _, _, log in self.background if log.exists())

    def query(self, block):
        """Asks the audit log."""
        database = self.folder / "state/audit.sqlite"
        with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            rows = connection.execute(block.text).fetchall()
        assert rows, f"{block.place}: no rows\n{block.text}"

    def end(self):
        """Ends what runs in the background, and the shell. Says which process did not end well."""
        failures = self._end_background()
        self.shell.stdin.close()
        try:
            self.shell.wait(10)
        except subprocess.TimeoutExpired:
            self.shell.kill()
            self.shell.wait()
        return failures

    def _end_background(self, command=None):
        """All, or those that run this command."""
        failures = []
        for each in [each for each in self.background if command in (None, each[0])]:
            self.background.remove(each)
            text, pid, log = each
            if not pid.exists():
                continue
            number = int(pid.read_text(encoding="ascii"))
            if self.shell.poll() is not None:
                # A command of the page failed, and the shell with it.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGTERM)
                continue
            code = self._shell(f"kill -TERM {number} 2>/dev/null; wait {number}", is_strict=False)
            if code not in (0, 128 + signal.SIGTERM):
                failures.append(f"{text} ended with {code}\n{log.read_text(errors='replace')[-4000:]}")
        return failures


def run_page(page, folder, text=None, setup="", files=()):
    """Runs a page from its first block to its last one, after the blocks of another text. Its folder has these files."""
    session = Session(folder)
    for file in files:
        (session.folder / file.name).symlink_to(file)
    checks = folder / "checks"
    checks.mkdir()
    try:
        for block in blocks(f"setup of {page}", setup) + blocks(page, text):
            if block.is_skipped or "test" in block.options:
                continue
            if "file" in block.options and block.language != "swift":
                session.write(block)
            if block.language == "sh":
                session.run(block)
            elif block.language == "text" and "output" in block.options:
                session.expect(block)
            elif block.language == "sql":
                session.query(block)
            elif "part" in block.options:
                wrong = schema.wrong_place(_tree(block.text))
                assert wrong is None, f"{block.place}: {wrong}\n{block.text}"
            elif block.language == "yaml":
                refused = check(block, checks)
                assert refused is None, refused
    finally:
        failures = session.end()
    assert not failures, "\n".join(failures)


#: Decisions are about the past: their words are not linted, and their blocks are not run.
DECISIONS = ("docs", "internals", "adr")


def pages():
    """README.md and the documents, without the decisions."""
    found = [path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md")]
    return ["README.md"] + sorted(str(path) for path in found if path.parts[:3] != DECISIONS)


def user_pages():
    """The pages of people who use the program: `pages` without `docs/internals`, which holds proofs and reasons."""
    return [page for page in pages() if not page.startswith("docs/internals/")]


#: Turns that read like a translation, and what to write in their places.
FORBIDDEN = {
    "to be had": "available, or: unavailable",
    "that which": "what",
    "nobody's": "of no one, or say who it is",
    "whoever": "anyone who, or say who it is",
    "would become of": "how a request would be routed and signed",
    "what is over that": "the rest",
    "has no place beside": "cannot be combined with",
    "in the place of": "instead of, or: in place of",
    "mend": "fix",
    "cuts nothing": "does not interrupt requests",
    "ends by itself": "resolves itself, or: expires",
    "no person is needed": "no action needed",
    "for whom": "that wait for it, or say who",
}


def linted():
    """All pages that people read, as paths below the repository: `pages`, the decisions, and those outside of `docs`."""
    outside = ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "acceptance/corpus/README.md", "examples/deployments/README.md"]
    return pages() + outside + sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs/internals/adr").glob("*.md"))


def faults(page, text=None):
    """What the linter finds on a page, or in a text that stands for one: dead links and, outside of decisions, forbidden words."""
    text = (ROOT / page).read_text(encoding="utf-8") if text is None else text
    found = [f"{page}: {link} leads nowhere" for link in links(page, text) if not leads_somewhere(page, link, text)]
    if page.startswith("docs/internals/adr/"):
        return found
    for number, paragraph in _paragraphs(text):
        words = " ".join(paragraph.split())
        for turn, instead in FORBIDDEN.items():
            if re.search(rf"(?i)(?<!\w){turn}(?!\w)", words):
                found.append(f'{page}:{number}: "{turn}"; write: {instead}')
    return found


def _without_blocks(text):
    """As many lines as before, those of fenced blocks empty."""
    return re.sub(r"^ *```.*?^ *```$", lambda block: "\n" * block[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)


def _paragraphs(text):
    """What stands between empty lines, without code, with the number of its first line."""
    text = re.sub(r"`[^`\n]*`", "code", _without_blocks(text))
    for match in re.finditer(r"(?:^.*\S.*\n?)+", text, re.MULTILINE):
        yield text.count("\n", 0, match.start()) + 1, match[0]


def words(page, text=None):
    """How many words a reader meets on a page: those of sentences and tables, not those of blocks, and no targets or anchors of links."""
    text = (ROOT / page).read_text(encoding="utf-8") if text is None else text
    text = re.sub(r"\]\([^()\s]+\)|<a [^>]*></a>", "]", _without_blocks(text))
    return len([word for word in text.split() if re.search(r"\w", word)])


def links(page, text=None):
    """The links of a page to files of the repository, as they stand there."""
    text = (ROOT / page).read_text(encoding="utf-8") if text is None else text
    found = re.findall(r"\]\(([^()\s]+)\)", _without_blocks(text))
    return [link for link in found if "://" not in link and not link.startswith("mailto:")]


def leads_somewhere(page, link, text=None):
    """The file is there, and what stands behind `#`: a heading, as GitHub names headings, or `<a id="NAME"></a>`."""
    path, _, anchor = link.partition("#")
    file = (ROOT / page).parent / path if path else ROOT / page
    if not file.exists() and (path or text is None):
        return False
    if not anchor:
        return True
    target = file.read_text(encoding="utf-8") if path or text is None else text
    headings = re.findall(r"^#+ (.*)$", _without_blocks(target), re.MULTILINE)
    named = set(re.findall(r'<a id="([^"]+)"></a>', target))
    return anchor in named | {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
