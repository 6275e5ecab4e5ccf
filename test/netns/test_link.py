# SPDX-License-Identifier: BSD-3-Clause
"""testlink itself between two real kernels: what the options say is what the frames suffer. Its core has test/link/test_link.c."""
import signal
import time

import pytest

import lab as L
from link import LinkLab
from nsnet import Task, checksum, measured, recv_bulk, send_bulk, until

pytestmark = pytest.mark.xdist_group("link")


@pytest.fixture(scope="module")
def bare(tools):
    with LinkLab(tools, "bare") as lab:
        for ns, name in ((lab.hst, "up0"), (lab.peer, "e0")):  # nothing but our frames: no MLD, no router solicitations
            ns.sysctl(f"net.ipv6.conf.{name}.disable_ipv6", 1)
        yield lab


@pytest.fixture
def udp(bare):
    """Numbered datagrams from a (hst) to b (peer), or back; afterwards the link is perfect again."""
    socks = {"ab": (bare.hst.udp(L.HST[4], L.port()), bare.peer.udp(L.PEER[4], L.port()))}
    socks["ba"] = socks["ab"][::-1]
    for s in socks["ab"]:
        s.setsockopt(1, 33, 4 << 20)  # SO_RCVBUFFORCE

    def go(way, cnt, size=100, gap=0):
        src, dst = socks[way]
        before = bare.link.stats()[way]
        for i in range(cnt):
            src.sendto(i.to_bytes(4, "big") + bytes(size - 4), dst.getsockname())
            if gap:
                time.sleep(gap)
        end = until("everything has left the link", lambda: settled(bare, way, before, cnt))
        got, dst_timeout = [], dst.gettimeout()
        dst.settimeout(.1)
        while len(got) < end["out"] - before["out"]:
            got.append(int.from_bytes(dst.recv(2000)[:4], "big"))
        dst.settimeout(dst_timeout)
        return got, {k: end[k] - before[k] for k in end if k != "dir"}
    yield go
    for s in socks["ab"]:
        s.close()
    bare.link.set(loss=0, dup=0, reorder=0, delay=0, jitter=0, rate=0, limit=1000, reorder_n=3, reorder_us=5000)


def settled(bare, way, before, cnt):
    now = bare.link.stats()[way]
    d = {k: now[k] - before[k] for k in ("in", "out", "lost", "duplicated", "overflow")}
    return now if d["in"] == cnt and d["out"] == cnt - d["lost"] + d["duplicated"] - d["overflow"] else None


@pytest.mark.parametrize("way", ["ab", "ba"])
def test_perfect(udp, way):
    got, _ = udp(way, 500)
    assert got == list(range(500))


def test_one_way(bare, udp):
    """An option with -ab leaves the other way alone."""
    bare.link.set(loss_ab=100)
    assert udp("ab", 200)[0] == []
    assert udp("ba", 200)[0] == list(range(200))
    bare.link.set(loss_ab=0, dup_ba=100)
    assert udp("ab", 200)[0] == list(range(200))
    assert udp("ba", 200)[0] == [i // 2 for i in range(400)]


def test_chances(bare, udp):
    """1000 frames at 10 %: six standard deviations are 57."""
    bare.link.set(loss=10)
    got, stat = udp("ab", 1000)
    assert 43 <= stat["lost"] <= 157 and len(got) == 1000 - stat["lost"] and got == sorted(got)
    bare.link.set(loss=0, reorder=10)
    got, stat = udp("ab", 1000)
    assert 43 <= stat["reordered"] <= 157 and got != sorted(got) and sorted(got) == list(range(1000))


def test_delay(bare, udp):
    """A round trip takes twice the delay, and not much more."""
    def trip():
        start = time.monotonic()
        udp("ab", 1)
        udp("ba", 1)
        return time.monotonic() - start
    base = min(trip() for _ in range(5))
    bare.link.set(delay=20000)
    took = [trip() for _ in range(5)]
    assert .04 <= min(took) <= .04 + base + .5


def test_rate(bare, udp):
    """200 frames of 1042 bytes at 10 Mbit/s take 167 ms; with a queue of 10 most of them are lost."""
    bare.link.set(rate=10)

    def frames():
        start = time.monotonic()
        udp("ab", 200, 1000)
        return time.monotonic() - start
    measured("seconds for 200 frames", lambda t: .167 <= t <= .167 + .15, frames)
    bare.link.set(limit=10)
    got, stat = udp("ab", 200, 1000)
    assert stat["overflow"] > 100 and len(got) == 200 - stat["overflow"]


def test_super_frames(tools):
    """With --vnet one frame carries many segments: far fewer frames for the same bytes."""
    frames = {}
    for vnet in (0, 1):
        with LinkLab(tools, "bare", vnet=vnet) as lab:
            p = L.port()
            with lab.peer.listen(L.PEER[4], p) as srv:
                src = lab.hst.connect(L.PEER[4], p)
                dst, _ = srv.accept()
            with src, dst:
                task = Task(lambda: (send_bulk(src, 1 << 22), src.shutdown(1)))
                assert recv_bulk(dst) == (1 << 22, checksum(1 << 22))
                task.result()
            frames[vnet] = lab.link.stats()["ab"]["in"]
    assert frames[1] * 2 < frames[0] and frames[0] >= (1 << 22) // 1460


def test_ends(tools):
    """SIGTERM: figures, and the devices are gone."""
    with LinkLab(tools, "bare") as lab:
        lab.link.p.send_signal(signal.SIGTERM)
        assert lab.link._line(r"\{.*\}") and lab.link._line(r"\{.*\}")
        assert lab.link.p.wait(5) == 0
        assert "e0" not in lab.out(*lab.peer.prefix, "ip", "-o", "link")
