# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of the namespace tests. Needs root (to build labs); the program itself runs as an ordinary user."""
import os
import shutil
import signal
import tempfile

import pytest

from lab import Lab, Tools

LIMIT = int(os.environ.get("NETNS_TIMEOUT", "120"))  # seconds for one test, its fixtures included


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    if not hasattr(config, "workerinput") and not config.option.basetemp:
        # pytest's own place keeps three runs and deletes older ones, even if they are still going on beside us
        config.option.basetemp = config.made_basetemp = tempfile.mkdtemp(prefix="gemelli-pytest-")
    if os.geteuid():
        pytest.exit("the namespace tests build their labs as root: run them as root", 1)


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.get_closest_marker("first") is None)  # else as they were


def pytest_unconfigure(config):
    shutil.rmtree(getattr(config, "made_basetemp", "/nonexistent"), ignore_errors=True)


@pytest.fixture(scope="session")
def tools():
    with open("/dev/net/tun", "rb"):  # loads the module where there is one
        pass
    os.chmod("/dev/net/tun", 0o666)
    try:  # an ordinary program may only choose what the first namespace allows
        with open("/proc/sys/net/ipv4/tcp_available_congestion_control") as have:
            names = have.read()
        with open("/proc/sys/net/ipv4/tcp_allowed_congestion_control", "w") as f:
            f.write(names)
    except OSError:
        pass
    t = Tools()
    yield t
    t.close()


@pytest.fixture(scope="module")
def lab(tools):
    """The standard lab, shared by the tests of a module in one worker."""
    with Lab(tools) as made:
        yield made


@pytest.fixture
def own_lab(tools):
    """The standard lab, for one test that changes it."""
    with Lab(tools) as made:
        yield made


@pytest.fixture
def bare_lab(tools):
    """hst and peer joined by up0 and e0, both down and without addresses."""
    with Lab(tools, setup=False) as made:
        yield made


@pytest.fixture(autouse=True)
def watchdog(tools):
    """Each test has a deadline; a report of a sanitizer fails the test that it happened in."""
    def late(*_):
        raise TimeoutError(f"the test took more than {LIMIT} s")
    old = signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, old)
    reports = tools.san_reports()
    assert not reports, "sanitizer report:\n" + "\n".join(reports)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    rep = (yield).get_result()
    if rep.failed:
        for lab in Lab.live:
            rep.sections.append(("commands to reproduce (as root, in this order)", "\n".join(lab.log)))
            for inst in lab.insts:
                if inst.stderr():
                    rep.sections.append((f"output of program {inst.pid}", inst.stderr()[-3000:]))


def pytest_terminal_summary(terminalreporter):
    """Figures that tests left with record_property("figure", text)."""
    found = [v for rep in terminalreporter.getreports("passed") if rep.when == "call" for k, v in rep.user_properties if k == "figure"]
    if found:
        terminalreporter.section("figures")
        for text in sorted(found):
            terminalreporter.write_line(text)
