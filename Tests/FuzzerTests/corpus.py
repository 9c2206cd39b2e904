"""The inputs that a fuzzer begins with, kept in `corpus/NAME.txt`: one a line, as Python writes bytes, without the quotes.

`corpus.py unpack NAME FOLDER` writes each into a file of its own. `corpus.py pack NAME FOLDER` adds what libFuzzer's
`-set_cover_merge=1` left in a folder: short and long ones, until there are 40.
"""

import ast
import pathlib
import sys

KEPT = 40


def text(name):
    return pathlib.Path(__file__).with_name("corpus") / f"{name}.txt"


def unpack(name, folder):
    for number, line in enumerate(text(name).read_text(encoding="ascii").splitlines()):
        (folder / f"kept-{number}").write_bytes(ast.literal_eval(f"b'{line}'"))


def pack(name, folder):
    lines = text(name).read_text(encoding="ascii").splitlines() if text(name).exists() else []
    found = {written(path.read_bytes()) for path in folder.iterdir()} - set(lines)
    ordered = sorted(found, key=lambda line: (len(line), line))
    room = max(0, min(KEPT - len(lines), len(ordered)))
    lines += [ordered[len(ordered) * number // room] for number in range(room)]
    text(name).write_text("".join(line + "\n" for line in lines), encoding="ascii")


def written(data):
    # With a double quote before it repr() always writes single quotes around the whole.
    return repr(b'"' + data)[3:-1]


command, name, folder = sys.argv[1:]
{"unpack": unpack, "pack": pack}[command](name, pathlib.Path(folder))
