"""`/metrics`, as Prometheus reads it."""

import requests
from harness.configs import BEARER


def test_each_metric_has_help_and_type_before_its_first_line(start_gateway, origin):
    routes = {"api": {"upstream": origin.url, "auth": BEARER}, "down": {"upstream": "http://127.0.0.1:1", "auth": "none"}}
    gateway = start_gateway({"routes": routes})
    assert requests.get(gateway.url + "/api/x", timeout=10).status_code == 200
    assert requests.get(gateway.url + "/down/x", timeout=10).status_code == 502
    answer = requests.get(gateway.admin_url + "/metrics", timeout=10)
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    helped, typed, seen = set(), {}, set()
    for line in answer.text.splitlines():
        if line.startswith("# HELP "):
            _, _, name, text = line.split(" ", 3)
            assert name not in helped and text.endswith(".")
            helped.add(name)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name in helped and kind in ("counter", "gauge", "histogram")
            typed[name] = kind
        else:
            name = line.split("{")[0].split(" ")[0]
            whole = name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
            assert name in typed or typed[whole] == "histogram", line
            seen.add(name)
    assert {"gateway_requests_total", "gateway_problems_total", "gateway_request_duration_seconds_bucket"} <= seen
