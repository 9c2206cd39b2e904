"""Corpora of raw requests: gunicorn's own, and ours for what no corpus has (acceptance/corpus)."""

import importlib.util
import re

import pytest

from .gateway import CACHE, ROOT

PINNED = re.search(r"(?m)^gunicorn==(\S+)", (ROOT / "acceptance/requirements.txt").read_text(encoding="utf-8"))[1]
TESTS = CACHE / f"corpus/gunicorn-{PINNED}/tests"
GUNICORN = TESTS if TESTS.is_dir() else None
OWN = ROOT / "acceptance/corpus"

# Its Content-Length says more than there is: gunicorn hands out the part, we never call it whole.
CUT_OFF = {"099"}


def corpus(kind):
    if GUNICORN is None:
        return [pytest.param(None, marks=pytest.mark.skip(reason="no corpus: run scripts/setup-tests"))]
    return [pytest.param(path, id=path.stem) for path in sorted((GUNICORN / "requests" / kind).glob("*.http"))]


def gunicorn_reader():
    """gunicorn's own reader of its corpus."""
    specification = importlib.util.spec_from_file_location("treq", GUNICORN / "treq.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def addressed_to(host, data):
    """The corpus's requests name other hosts or none; that alone would be a reason to refuse them."""
    empty, head, body = re.match(rb"(?s)((?:\r\n)?)(.*?\r\n(?:\r\n|\Z)|.*)(.*)\Z", data).groups()
    line, end, fields = head.partition(b"\r\n")
    line = re.sub(rb"(?i)^([A-Z]+ https?://(?:[^/@ ]*@)?)[^/ ]+", rb"\g<1>" + host, line)
    fields, count = re.subn(rb"(?im)^Host: (?!evil)[^\r\n]*", b"Host: " + host, fields)
    ours = b"Host: " + host + b"\r\n"
    if not count and line.endswith(b" HTTP/1.1"):
        fields = ours + fields
    if b"content-length" not in fields.lower():
        # More requests follow, or chunks and then more requests.
        body = re.sub(rb"(?m)^([A-Z]+ /[^ ]* HTTP/1\.1\r\n)", rb"\g<1>" + ours, body)
    return empty + line + end + fields + body


class Case:
    def __init__(self, section):
        head, _, body = section.partition("\n")
        self.name, _, self.verdict = (part.strip() for part in head.partition("->"))
        self.text = "".join(line for line in body.splitlines() if not line.startswith("#"))

    def data(self, places):
        text = self.text
        for name, value in places.items():
            text = text.replace(name, value)
        text = re.sub(r"\\x\[(.)\*(\d+)\]", lambda match: match[1] * int(match[2]), text)
        return text.encode("latin-1").decode("unicode_escape").encode("latin-1")


def own_cases():
    for path in sorted(OWN.glob("*.txt")):
        for section in path.read_text(encoding="ascii").split("\n== ")[1:]:
            case = Case(section)
            yield pytest.param(case, id=f"{path.stem}-{case.name.replace(' ', '-')}")
