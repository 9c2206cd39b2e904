"""The deployments in examples/: files that their own schemas accept, configurations that `check` accepts, and one that is started."""

import concurrent.futures
import configparser
import importlib.util
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import threading

import jsonschema
import kubernetes_validate
import pytest
import requests
import yaml
from harness import debian, processes
from harness.gateway import BINARY, ROOT, command

DEPLOYMENTS = ROOT / "examples/deployments"
KUBERNETES = sorted((DEPLOYMENTS / "kubernetes").glob("*.yaml"))
NGINX = DEPLOYMENTS / "nginx-systemd"


def documents(path):
    return [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]


def compose():
    [document] = documents(DEPLOYMENTS / "compose/compose.yaml")
    return document


def configurations():
    """Every gateway.yaml of a deployment: its name and its text."""
    found = {"compose": (DEPLOYMENTS / "compose/gateway.yaml").read_text(encoding="utf-8")}
    for path in KUBERNETES:
        for document in documents(path):
            if document["kind"] == "ConfigMap":
                found[path.stem] = document["data"]["gateway.yaml"]
    return found


CONFIGURATIONS = configurations()


# MARK: Kubernetes


@pytest.mark.parametrize("path", KUBERNETES, ids=lambda path: path.stem)
def test_kubernetes_accepts_each_object(path):
    for document in documents(path):
        assert kubernetes_validate.validate(document, "1.37", strict=True) == "1.37"


def test_kubernetes_refuses_a_key_that_there_is_not():
    [deployment] = [document for document in documents(KUBERNETES[0]) if document["kind"] == "Deployment"]
    deployment["spec"]["replica"] = 3
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, "1.37", strict=True)


def pods(path):
    for document in documents(path):
        if document["kind"] == "Deployment":
            yield document, document["spec"]["template"]["spec"]


@pytest.mark.parametrize("path", KUBERNETES, ids=lambda path: path.stem)
def test_what_an_object_names_is_there(path):
    objects = documents(path)
    config_maps = {found["metadata"]["name"]: found["data"] for found in objects if found["kind"] == "ConfigMap"}
    for deployment, pod in pods(path):
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        gateways = [found for found in [*pod.get("initContainers", []), *pod["containers"]] if found["name"] == "authgateway"]
        assert len(gateways) == 1
        for container in gateways:
            assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            # What the gateway writes to has a volume.
            mounts = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
            assert mounts == {"/var/lib/authgateway", "/tmp"}
            assert "gateway.yaml" in config_maps[volumes["configuration"]["configMap"]["name"]]
            probes = [container[name]["exec"]["command"] for name in container if name.endswith("Probe")]
            assert {probe[0] for probe in probes} == {"authgateway"}
            for probe in probes:
                assert probe[2] in command(*probe[1:2], "--help", cwd="/").stdout
        for found in objects:
            if found["kind"] in ("Service", "PodDisruptionBudget", "NetworkPolicy"):
                spec = found["spec"]
                selector = spec.get("podSelector") or spec["selector"]
                assert selector.get("matchLabels", selector).items() <= labels.items(), found["kind"]


def test_the_shared_deployment_has_what_a_fleet_needs():
    kinds = [document["kind"] for document in documents(DEPLOYMENTS / "kubernetes/deployment.yaml")]
    assert sorted(kinds) == ["ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service"]
    [(deployment, pod)] = pods(DEPLOYMENTS / "kubernetes/deployment.yaml")
    assert deployment["spec"]["replicas"] > 1 and pod["topologySpreadConstraints"]
    container = pod["containers"][0]
    # A stop has time for the requests under way (limits.drain, 30 s), and for what comes before it.
    before = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] >= before + 30 + 10


# MARK: Compose


def compose_schema():
    """Of the package docker-compose, which is there without what it needs itself."""
    folder = pathlib.Path(importlib.util.find_spec("compose").origin).parent
    return json.loads((folder / "config/compose_spec.json").read_text(encoding="utf-8"))


def test_compose_accepts_the_file():
    jsonschema.Draft7Validator(compose_schema()).validate(compose())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(compose_schema()).validate({"services": {"gateway": {"imagee": "x"}}})


def test_compose_names_what_there_is():
    whole = compose()
    gateway = whole["services"]["gateway"]
    assert whole["services"]["database"]["image"] == "postgres:16"
    for service in whole["services"].values():
        assert set(service["secrets"]) <= set(whole["secrets"])
        for volume in service["volumes"]:
            name = volume.split(":")[0]
            assert name in whole["volumes"] or name.startswith("./")
        assert service["read_only"] is True and service["healthcheck"]["test"][0] == "CMD"
    named = set(re.findall(r"systemd_credential: ([\w-]+)", CONFIGURATIONS["compose"]))
    assert named == set(gateway["secrets"])
    written = set(re.findall(r"> secrets/([\w-]+)", (DEPLOYMENTS / "compose/compose.yaml").read_text(encoding="utf-8")))
    assert written == set(whole["secrets"])


# MARK: The gateway's own configurations


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_check_accepts_the_configuration(name, tmp_path):
    file = tmp_path / "gateway.yaml"
    file.write_text(CONFIGURATIONS[name], encoding="utf-8")
    result = command("check", "--no-secrets", "--json", file, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    # Inside a pod or a container network, what is published is for the deployment to say.
    found = json.loads(result.stdout)["diagnostics"]
    assert [warning["message"] for warning in found if "without TLS" not in warning["message"]] == []


@pytest.mark.parametrize("name", ["a", "b"])
def test_check_accepts_both_gateways_behind_nginx(name, tmp_path):
    for path in NGINX.glob("*.yaml"):
        shutil.copy(path, tmp_path)
    result = command("check", "--no-secrets", "--json", tmp_path / f"{name}.yaml", cwd=tmp_path)
    assert result.returncode == 0 and json.loads(result.stdout)["warnings"] == 0, result.stdout + result.stderr


# MARK: Two gateways behind nginx


class Machine:
    """What systemd and nginx do with the files, with other folders, ports, a local upstream and a local CA."""

    def __init__(self, folder, origin, sandbox):
        self.folder = folder
        self.etc = folder / "etc"
        self.etc.mkdir(mode=0o700)
        ports = {port: processes.free_port() for port in ["8180", "8181", "8182", "8191", "8192"]}
        changes = {
            **{f"127.0.0.1:{old}": f"127.0.0.1:{new}" for old, new in ports.items()},
            "/etc/authgateway": str(self.etc),
            "/var/lib/authgateway-": f"{folder}/state-",
            "/usr/local/bin/authgateway": str(BINARY),
            "https://api.example.com": origin.url,
            "https://login.example.com/oauth/token": sandbox["OAUTH_URL"] + "/oauth/token",
            "client_id: gateway": f"client_id: {sandbox['OAUTH_CLIENT_ID']}",
        }
        for path in NGINX.iterdir():
            text = path.read_text(encoding="utf-8")
            for old, new in changes.items():
                text = text.replace(old, new)
            (self.etc / path.name).write_text(text, encoding="utf-8")
        self.url = f"http://127.0.0.1:{ports['8180']}"
        secrets = self.etc / "secrets"
        secrets.mkdir(mode=0o700)
        # As LoadCredential= passes them.
        (secrets / "secrets_client-secret").write_text(sandbox["OAUTH_CLIENT_SECRET"], encoding="ascii")
        (folder / "bin").mkdir()
        (folder / "bin/authgateway").symlink_to(BINARY)
        unit = configparser.ConfigParser(strict=False, interpolation=None)
        unit.optionxform = str
        unit.read_string((self.etc / "authgateway@.service").read_text(encoding="utf-8"))
        self.service = unit["Service"]
        self.gateways = {}
        self.nginx = None

    def start(self, instance):
        line = self.service["ExecStart"].replace("%i", instance)
        log = (self.folder / f"{instance}.log").open("ab")
        environment = processes.environment(
            CREDENTIALS_DIRECTORY=str(self.etc / "secrets"), RUNTIME_DIRECTORY=str(self.folder / f"run-{instance}")
        )
        (self.folder / f"run-{instance}").mkdir(mode=0o700, exist_ok=True)
        self.gateways[instance] = subprocess.Popen(
            shlex.split(line), cwd="/", env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        log.close()

    def is_ready(self, instance):
        assert self.gateways[instance].poll() is None, self.log(instance)
        return command("status", "--ready", "--config", self.etc / f"{instance}.yaml", cwd="/").returncode == 0

    def wait_for(self, instance):
        processes.wait_until(lambda: self.is_ready(instance), 30, lambda: self.log(instance), pause=0.2)

    def log(self, instance):
        return (self.folder / f"{instance}.log").read_text(encoding="utf-8")

    def stop(self, instance):
        gateway = self.gateways.pop(instance)
        gateway.send_signal(signal.SIGTERM)
        assert gateway.wait(int(self.service["TimeoutStopSec"])) == 0, self.log(instance)

    def reload(self, instance):
        assert self.service["ExecReload"] == "/bin/kill -HUP $MAINPID"
        self.gateways[instance].send_signal(signal.SIGHUP)

    def start_nginx(self):
        folder = self.folder / "nginx"
        folder.mkdir()
        temporary = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        user = "user root;" if os.geteuid() == 0 else ""
        (folder / "nginx.conf").write_text(
            f"""{user} worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/error.log;
            events {{ worker_connections 512; }}
            http {{ access_log off; {temporary} include {self.etc}/authgateway.conf; }}""",
            encoding="ascii",
        )
        self.nginx_command = [debian.binary("nginx"), "-p", folder, "-e", folder / "error.log", "-c", folder / "nginx.conf"]
        subprocess.run([*self.nginx_command, "-t"], check=True, capture_output=True, env=debian.environment())
        self.nginx = subprocess.Popen(self.nginx_command, env=debian.environment(), stdin=subprocess.DEVNULL)
        processes.wait_until(lambda: processes.is_listening(int(self.url.rsplit(":", 1)[1])), 20, "nginx listens")

    def end(self):
        for instance in list(self.gateways):
            self.stop(instance)
        if self.nginx:
            processes.end(self.nginx)


@pytest.fixture
def machine(tmp_path, origin, sandbox):
    machine = Machine(tmp_path, origin, sandbox)
    try:
        for instance in "ab":
            machine.start(instance)
        for instance in "ab":
            machine.wait_for(instance)
        machine.start_nginx()
        yield machine
    finally:
        machine.end()


class Load:
    """Clients that ask all the time, each request on a connection of its own."""

    def __init__(self, url, methods):
        self.stopping = threading.Event()
        self.failures = []
        self.count = 0
        self.pool = concurrent.futures.ThreadPoolExecutor(len(methods))
        self.work = [self.pool.submit(self.ask, url, method) for method in methods]

    def ask(self, url, method):
        while not self.stopping.is_set():
            try:
                answer = requests.request(method, url, data=b"x" * 2000 if method == "POST" else None, timeout=20)
                if answer.status_code != 200:
                    self.failures.append((method, answer.status_code, answer.text))
            except requests.RequestException as error:
                self.failures.append((method, repr(error)))
            self.count += 1

    def goes_on(self, more=40):
        goal = self.count + more
        processes.wait_until(lambda: self.count >= goal, 30, "requests are answered")

    def end(self):
        self.stopping.set()
        self.pool.shutdown()
        for work in self.work:
            work.result()
        assert self.failures == [], self.failures[:5]


def test_requests_pass_while_either_gateway_is_away(machine, origin):
    load = Load(f"{machine.url}/api/x", ["GET"] * 4)
    try:
        for instance in "ab":
            load.goes_on()
            machine.stop(instance)
            load.goes_on()
            machine.start(instance)
            machine.wait_for(instance)
            machine.reload(instance)
            load.goes_on(200)
    finally:
        load.end()
    assert all(value.startswith("Bearer ") for request in origin.requests for value in request.values("authorization"))


def test_a_rolling_restart_loses_no_request(machine, tmp_path):
    wanted = tmp_path / "restart"
    (tmp_path / "bin/restart").write_text(
        f'#!/bin/sh\nprintf %s "$1" >{wanted}.new && mv {wanted}.new {wanted}\nwhile [ -e {wanted} ]; do sleep 0.05; done\n'
    )
    (tmp_path / "bin/restart").chmod(0o755)
    libraries = debian.environment().get("LD_LIBRARY_PATH", "")
    reload = f"env LD_LIBRARY_PATH={libraries} {shlex.join(map(str, machine.nginx_command))} -s reload"
    environment = processes.environment(
        PATH=f"{tmp_path}/bin:{os.environ['PATH']}",
        NGINX_CONF=str(machine.etc / "authgateway.conf"),
        NGINX_RELOAD=reload,
        RESTART="restart",
        CONFIGURATIONS=str(machine.etc),
    )
    before = {name: gateway.pid for name, gateway in machine.gateways.items()}
    text = (machine.etc / "authgateway.conf").read_text()
    load = Load(f"{machine.url}/api/x", ["GET", "POST", "POST", "POST"])
    try:
        load.goes_on()
        script = subprocess.Popen(
            ["sh", machine.etc / "rolling-restart"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        while script.poll() is None:
            if wanted.exists():
                instance = wanted.read_text().removeprefix("authgateway@")
                down = [line for line in (machine.etc / "authgateway.conf").read_text().splitlines() if " down " in line]
                assert len(down) == 1, down
                machine.stop(instance)
                machine.start(instance)
                wanted.unlink()
            threading.Event().wait(0.05)
        assert script.returncode == 0, script.stdout.read()
        load.goes_on()
    finally:
        load.end()
    assert {name: gateway.pid for name, gateway in machine.gateways.items()}.items().isdisjoint(before.items())
    assert (machine.etc / "authgateway.conf").read_text() == text, "as it was"
