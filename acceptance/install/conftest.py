"""The files of a release, made of the program under test, and machines to install them on."""

import os
import pathlib

import pytest
from harness.gateway import BINARY
from harness.packages import Machine, run, shared_dist


@pytest.fixture(scope="session")
def dist(tmp_path_factory):
    """Made once, whichever process of the run comes first."""
    if '"debug"' in run(BINARY, "version", "--json"):
        pytest.skip("a debug build is no release")
    base = pathlib.Path(tmp_path_factory.getbasetemp())
    return shared_dist((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "dist")


@pytest.fixture(scope="session")
def debian_package(dist):
    (found,) = dist.glob("*.deb")
    return found


@pytest.fixture(scope="session")
def archive(dist):
    (found,) = dist.glob("*.tar.xz")
    return found


@pytest.fixture
def machine(tmp_path):
    """Only root may change into it."""
    if os.geteuid() != 0:
        pytest.skip("only root can install a package")
    return Machine(tmp_path / "machine")
