"""`make count` fails for a load that has become dearer, and asks for the figure of one that has become cheaper.

`count.py --prove`, which `make nightly` runs, shows the same with the gateway itself and a copy that is planted in it.
"""

import json
import subprocess
import sys

import pytest
from harness.gateway import ROOT

#: What callgrind would count is given instead; the rest is what `make count` runs.
DRIVER = """
import json, pathlib, sys
sys.path.insert(0, sys.argv[1])
import count

counts = json.loads(sys.argv[3])
count.FIGURES = pathlib.Path(sys.argv[2])
count.ordering.without_debug = lambda binary, folder: binary
names = {id(kind): name for name, kind in count.LOADS.items()}
count.instructions = lambda binary, kind, scale, keep: counts[names[id(kind)]].pop()
sys.argv = ["count.py", "--gateway", "gateway", *sys.argv[4:]]
count.main()
"""
LOADS = ["http1", "http1-replay", "http2-8x32"]
#: As committed.
KNOWN = [25_000, 70_000, 36_000]


@pytest.fixture
def figures(tmp_path):
    file = tmp_path / "instructions.json"
    file.write_text(json.dumps(dict(zip(LOADS, KNOWN, strict=True))), encoding="utf-8")
    return file


def count(figures, found, *arguments):
    """Runs the comparison with these counts of each load: three of each, or one that is the same three times."""
    counts = {name: one if isinstance(one, list) else [one] * 3 for name, one in zip(LOADS, found, strict=True)}
    words = [sys.executable, "-c", DRIVER, ROOT / "Benchmarks", figures, json.dumps(counts), *arguments]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def lines(done):
    return {line.split()[0]: line for line in done.stdout.splitlines()}


def test_what_costs_the_same_passes(figures):
    done = count(figures, [25_499, 68_601, 36_000])
    assert done.returncode == 0, done
    assert [line.split("  ")[-1] for line in lines(done).values()] == ["+2.0 %", "-2.0 %", "+0.0 %"]


def test_a_load_that_is_dearer_fails(figures):
    done = count(figures, [25_501, 70_000, 36_000])
    assert done.returncode == 1, done
    assert lines(done)["http1"].endswith("25,501 instructions per request, committed     25,000  +2.0 %  FAILED")
    assert "FAILED" not in lines(done)["http2-8x32"]
    assert done.stderr.splitlines()[-1] == "http1: see instructions.json. If it has to be so, commit what --update writes."


def test_each_load_that_is_dearer_is_named(figures):
    done = count(figures, [30_000, 70_000, 40_000])
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith("http1, http2-8x32: see instructions.json.")


def test_a_load_without_a_figure_fails(figures):
    figures.write_text(json.dumps({"http1": 25_000}), encoding="utf-8")
    done = count(figures, [25_000, 70_000, 36_000])
    assert done.returncode == 1 and "no figure  FAILED" in lines(done)["http2-8x32"]


def test_a_load_that_is_cheaper_asks_to_be_committed(figures):
    done = count(figures, [24_000, 70_000, 36_000])
    assert done.returncode == 0, done
    assert lines(done)["http1"].endswith("-4.0 %  cheaper: commit it with --update")


def test_the_median_counts(figures):
    done = count(figures, [[25_000, 90_000, 10_000], 70_000, 36_000])
    assert done.returncode == 0 and "+0.0 %" in lines(done)["http1"], done


def test_update_writes_the_figures_of_the_loads_that_ran(figures):
    done = count(figures, [30_000, 1, 35_000], "--loads", "http1,http2-8x32", "--update")
    assert done.returncode == 0, done
    assert json.loads(figures.read_text(encoding="utf-8")) == {"http1": 30_000, "http1-replay": 70_000, "http2-8x32": 35_000}


def test_a_try_with_fewer_requests_writes_nothing(figures):
    before = figures.read_bytes()
    done = count(figures, [30_000, 70_000, 36_000], "--scale", "0.1", "--update")
    assert done.returncode == 1 and figures.read_bytes() == before


# What callgrind has counted

#: Two threads: of the event loop, which has copied memory for its own functions, and of one that has only waited.
LOOP = """fn=$s12GatewayProxy8ExchangeC6handle
0 100
calls=1 0
0 900
fn=memcpy
0 %d
fn=memcpy'2
0 5
"""
OTHER = "fn=epoll_wait\n0 5000\n"


def test_a_copy_counts_that_a_function_of_the_library_makes():
    """Its own cost is that of the function that was called."""
    script = "import sys; sys.path.insert(0, sys.argv[1]); import count; print(count.event_loop(sys.argv[2:]))"

    def event_loop(copies):
        words = [sys.executable, "-c", script, ROOT / "Benchmarks", OTHER, LOOP % copies]
        return int(subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout)

    assert (event_loop(20), event_loop(60)) == (125, 165)


def test_the_figures_are_of_all_loads():
    figures = json.loads((ROOT / "Benchmarks/instructions.json").read_text(encoding="utf-8"))
    script = "import sys; sys.path.insert(0, sys.argv[1]); import count; print(*count.LOADS)"
    words = [sys.executable, "-c", script, ROOT / "Benchmarks"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == LOADS == [*figures] and min(figures.values()) > 1000
