"""`/metrics`, as Prometheus reads it."""

import re

import requests
from harness.configs import BEARER
from harness.origin import response


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


def test_an_upstream_cannot_use_up_the_room_of_other_routes(start_gateway, make_origin, origin):
    """It chooses the status, and there are some 900 of them."""
    many = make_origin(lambda request: response(int(request.target.rpartition("/")[2])))
    routes = {name: {"upstream": many.url, "auth": "none"} for name in ("one", "two", "three")}
    gateway = start_gateway({"routes": {**routes, "good": {"upstream": origin.url, "auth": "none"}}})
    with requests.Session() as session:
        for name in routes:
            for status in (*range(206, 300), *range(408, 600), *range(600, 1000)):
                session.get(f"{gateway.url}/{name}/{status}", timeout=10)
        assert session.get(gateway.url + "/good/x", timeout=10).status_code == 200
    text = requests.get(gateway.admin_url + "/metrics", timeout=10).text
    assert 'gateway_requests_total{route="good",status="200"} 1\n' in text
    assert "gateway_metrics_series_refused_total 0\n" in text
    assert len(re.findall('^gateway_requests_total{route="one"', text, re.MULTILINE)) < 90
    # The status is still passed on, and those in common use are told apart.
    assert 'route="one",status="503"} 1\n' in text and re.search('route="one",status="400"} [1-9][0-9]', text)


def test_hundreds_of_routes_are_all_shown(start_gateway, origin):
    names = [f"r{number}" for number in range(600)]
    gateway = start_gateway({"routes": {name: {"upstream": origin.url, "auth": "none"} for name in names}})
    with requests.Session() as session:
        for name in names:
            assert session.get(f"{gateway.url}/{name}/x", timeout=10).status_code == 200
    text = requests.get(gateway.admin_url + "/metrics", timeout=10).text
    assert all(f'gateway_requests_total{{route="{name}",status="200"}} 1\n' in text for name in names)
