"""`contrib/grafana`: each metric and label that the dashboard and the alert rules use is in `/metrics`. `promtool` tests the rules themselves:
`promtool test rules contrib/grafana/alerts.test.yaml`."""

import datetime
import json
import re
import time

import pytest
import requests
import yaml
from harness.gateway import ROOT
from harness.origin import response
from harness.processes import free_port

FOLDER = ROOT / "contrib/grafana"
#: Made by Prometheus itself.
OTHERS = {"up"}


def dashboard():
    return json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))


def panels():
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def rules():
    [group] = yaml.safe_load((FOLDER / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    return group["rules"]


def queries():
    variables = [variable for variable in dashboard()["templating"]["list"] if variable["type"] == "query"]
    # label_values(METRIC, LABEL)
    chosen = [re.sub(r"label_values\((\w+), (\w+)\)", r"sum by (\2) (\1)", variable["definition"]) for variable in variables]
    return [target["expr"] for panel in panels() for target in panel["targets"]] + [rule["expr"] for rule in rules()] + chosen


def used(query):
    """The metrics of a query, and the labels that it matches or groups by. Labels that Prometheus adds are left out."""
    metrics = set(re.findall(r"\b(?:gateway_\w+|up)\b", query))
    labels = set(re.findall(r"(\w+)=~?\"", query))
    for names in re.findall(r"\bby \(([^)]*)\)", query):
        labels |= {name.strip() for name in names.split(",")}
    return metrics, labels - {"instance", "job"}


def test_a_query_is_taken_apart():
    query = 'histogram_quantile(0.99, sum by (route, le) (rate(gateway_x_bucket{instance=~"$instance",status=~"5.."}[1m]))) / up{job="a"}'
    assert used(query) == ({"gateway_x_bucket", "up"}, {"route", "le", "status"})


@pytest.fixture
def metrics(start_gateway, make_origin):
    """The names of all metrics with the names of their labels, after some requests of each kind."""

    def answer(request):
        if request.target.startswith("/token"):
            return response(200, b'{"access_token": "a-token-of-an-hour", "expires_in": 3600}', "Content-Type: application/json")
        return response(int(request.target.rpartition("/")[2]))

    origin = make_origin(answer)
    soon = (datetime.date.today() + datetime.timedelta(days=5)).isoformat()
    client = {"strategy": "oauth2_client_credentials", "token_url": origin.url + "/token", "client_id": "a", "client_secret": "a-secret-1"}
    gateway = start_gateway(
        {
            "credentials": {"service": client, "key": {"strategy": "bearer", "token": "a-key-of-the-test-1", "expires": soon}},
            "routes": {
                "service": {"upstream": origin.url, "auth": "service"},
                "key": {"upstream": origin.url, "auth": "key"},
                "down": {"upstream": f"http://127.0.0.1:{free_port()}", "auth": "none"},
            },
        }
    )
    for path in ("/service/200", "/service/500", "/key/200", "/key/401", "/down/200"):
        requests.get(gateway.url + path, timeout=20)
    found = {}
    end = time.monotonic() + 20
    while "gateway_requests_failed_total" not in found and time.monotonic() < end:
        for line in requests.get(gateway.admin_url + "/metrics", timeout=10).text.splitlines():
            if match := re.match(r"([a-z_]+)(?:\{(.*)\})? ", line):
                found.setdefault(match[1], set()).update(re.findall(r"(\w+)=\"", match[2] or ""))
    return found


def test_each_metric_and_each_label_is_there(metrics):
    for query in queries():
        names, labels = used(query)
        assert names, query
        assert names - OTHERS <= set(metrics), query
        for name in names - OTHERS:
            assert labels <= metrics[name], (query, name, metrics[name])


def test_each_alert_is_tested_and_says_what_to_do():
    tests = yaml.safe_load((FOLDER / "alerts.test.yaml").read_text(encoding="utf-8"))
    fired = {each["alertname"] for test in tests["tests"] for each in test["alert_rule_test"] if each["exp_alerts"]}
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert fired == {rule["alert"] for rule in rules()} == set(re.findall(r"^\| `(Authgateway\w+)`", readme, re.MULTILINE))
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning", "info") and {"summary", "description"} <= set(rule["annotations"])
        shown = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        grouped = used(rule["expr"])[1] | {"instance"}
        assert "by (" not in rule["expr"] or shown <= grouped, rule["alert"]


def test_the_dashboard_can_be_imported():
    ids = [panel["id"] for panel in dashboard()["panels"]]
    assert len(ids) == len(set(ids))
    places = set()
    for panel in panels():
        assert panel["title"] and panel["targets"] and panel["datasource"]["uid"] == "${datasource}"
        box = panel["gridPos"]
        cells = {(x, y) for x in range(box["x"], box["x"] + box["w"]) for y in range(box["y"], box["y"] + box["h"])}
        assert box["x"] + box["w"] <= 24 and not cells & places, panel["title"]
        places |= cells
