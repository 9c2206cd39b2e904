"""The load that the release build is optimized for, and what an instrumented gateway counted under it.

The counts say how often which code ran. They are kept as text, without the code that hardly ran and without the folder that
was built in, so that every checkout can use them. `make profile` runs this.

Usage: training.py GATEWAY OUTPUT --profdata PATH-OF-LLVM-PROFDATA
"""

import argparse
import os
import pathlib
import re
import subprocess
import tempfile

import authz_side_by_side
import load
import proxies

# A function none of whose code ran as often is none that requests spend their time in.
LEAST = 1000
#: What the proxy has on its two sides: HTTP/1, TLS, HTTP/2.
STAGES = [
    {},
    {"tls": True},
    {"http2_clients": True},
    {"http2_clients": True, "http2_upstream": True},
    {"tls": True, "tls_clients": True},
]
UPLOADS = """
local bodies = {{string.rep("x", 200), string.rep("x", 3000), string.rep("x", 60000)}}
local number = 0
request = function()
  number = number + 1
  local body = bodies[number % #bodies + 1]
  if number % 2 == 0 then return wrk.format("POST", "/json", {{["Content-Type"] = "text/plain", Authorization = "Bearer {token}"}}, body) end
  local chunks = string.format("%x\\r\\n%s\\r\\n0\\r\\n\\r\\n", #body, body)
  return "POST /json HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\nAuthorization: Bearer {token}\\r\\n"
    .. "Transfer-Encoding: chunked\\r\\n\\r\\n" .. chunks
end
"""


def train(binary, raw, seconds=4):
    """Loads the gateway with each of the kinds of requests; its counts are in the folder `raw` when it has ended."""
    os.environ["LLVM_PROFILE_FILE"] = f"{raw}/%p.profraw"
    for options in STAGES:
        with tempfile.TemporaryDirectory(prefix="training-") as folder:
            with proxies.Stage(folder, {"gateway": binary}, **options) as stage:
                stage.start("upstream")
                stage.start("gateway")
                drive(stage, seconds)
    with tempfile.TemporaryDirectory(prefix="training-") as folder:
        with authz_side_by_side.AuthzStage(folder, {"gateway": binary}) as stage:
            stage.start("gateway")
            drive_authz(stage, seconds)


def drive_authz(stage, seconds):
    """What nginx asks, and what Envoy asks: the request itself, with the proof of the engine."""
    by_envoy = [authz_side_by_side.ASKED[0], "Host: shop.example"]
    for port, fields in ((stage.asked, authz_side_by_side.ASKED), (stage.asked_by_envoy, by_envoy)):
        load.wrk(port, 32, "/bench/json", seconds, stage.pin_load, fields=fields)


def drive(stage, seconds, paced=True):
    """Every kind of request, each for so many seconds."""
    if stage.http2_clients:
        drive_http2(stage, seconds)
    elif stage.tls_clients:
        drive_tls(stage, seconds)
    else:
        drive_plain(stage, seconds, paced)


def drive_http2(stage, seconds):
    port = stage.ports["gateway"]
    for scenario in ("8x32", "8x4", "32x1", "8x4 64k", "1x1 100m"):
        load.h2load(port, scenario, seconds, stage.pin_load)
    upload = stage.write("upload", "x" * 3000)
    load.h2load(port, "8x4", seconds, stage.pin_load, body=upload)


def drive_tls(stage, seconds):
    port, origin = stage.ports["gateway"], "https://localhost"
    for path in ("/json", "/64k"):
        load.wrk(port, 32, path, seconds, stage.pin_load, origin=origin)
    load.wrk(port, 8, "/json", seconds, stage.pin_load, origin=origin, fields=["Connection: close"])
    load.h2load(port, "8x4", seconds, stage.pin_load, origin)


def drive_plain(stage, seconds, paced):
    port = stage.ports["gateway"]
    uploads = stage.write("uploads.lua", UPLOADS.format(port=port, token=load.CLIENT_TOKEN))
    for connections, path, pause in load.SCENARIOS.values():
        if not pause:
            load.wrk(port, connections, path, seconds, stage.pin_load)
    load.wrk(port, 32, "/chunked", seconds, stage.pin_load)
    load.wrk(port, 32, "", seconds, stage.pin_load, uploads)
    if paced:
        load.paced(port, 1000, seconds)


COUNTS = re.compile(r"# Counter Values:\n((?:\d+\n?)+)")


def records(text):
    """Every function's record, without the folder that was built in."""
    _, _, body = text.partition(":ir\n")
    body = re.sub(r"(?m)^/\S*/(?=[^/;\s]+\.build/[^;\n]*;)", "", body)
    return [with_bitmap(record) for record in body.split("\n\n") if record.strip()]


def with_bitmap(record):
    """A bitmap of 0 bytes behind the counts: the name that follows would be read as one, because it begins with a `$`."""
    return COUNTS.sub(lambda match: match[0].rstrip("\n") + "\n# Num Bitmap Bytes:\n$0\n", record).rstrip("\n")


def most(record):
    """How often the busiest code of a function ran."""
    counts = COUNTS.search(record)
    return max(map(int, counts[1].split())) if counts else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gateway")
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--profdata", required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="counts-") as raw:
        train(options.gateway, raw)
        files = sorted(map(str, pathlib.Path(raw).glob("*.profraw")))
        if not files:
            raise SystemExit("the gateway has counted nothing: it is not an instrumented build, or it did not end by itself")
        merged = f"{raw}/merged"
        subprocess.run([options.profdata, "merge", "-sparse", "-text", "-o", merged, *files], check=True)
        text = pathlib.Path(merged).read_text(encoding="utf-8")
    kept = [record for record in records(text) if most(record) >= LEAST]
    options.output.write_text(":ir\n" + "\n\n".join(kept) + "\n", encoding="utf-8")
    print(f"{options.output}: {len(kept)} functions")


if __name__ == "__main__":
    main()
