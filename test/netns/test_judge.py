# SPDX-License-Identifier: BSD-3-Clause
"""Real kernels as judges of our TCP: Linux in the guest, Linux at the peer, a bad link between the guest and us.

The same transfer between the same two kernels over the same link without us gives the figure to compare with; both are
printed at the end of the run ("figures"). A transfer fails if it does not complete or is not byte for byte the same.
Environment: JUDGE_MIB, size of a transfer (0.5; 100 for the proof, which takes long: even without us 5 % of loss leaves
some Mbit/s); JUDGE_SEED of the link (1); JUDGE_US, time under way each way (1000); NETNS_TIMEOUT is ignored.
"""
import os
import signal
import socket
import time

import pytest

import lab as L
from link import LinkLab
from nsnet import Task, checksum, measured, recv_bulk, send_bulk

MIB = float(os.environ.get("JUDGE_MIB", ".5"))
SIZE = int(MIB * (1 << 20))
SEED = int(os.environ.get("JUDGE_SEED", "1"))
DELAY_US = int(os.environ.get("JUDGE_US", "1000"))
SECS = 60 + SIZE // 20000  # a transfer slower than 20 kB/s counts as stuck
pytestmark = [pytest.mark.heavy] if MIB > 1 else []
FAMS = [pytest.param(f, id=f"v{f}", marks=pytest.mark.xdist_group(f"judge-{f}")) for f in (4, 6)]
CASES = [(way, loss) for way in ("out", "in") for loss in (.1, 1, 5)]


@pytest.fixture(scope="module")
def labs(tools):
    """Labs by place of the link, made when first asked for."""
    made = {}

    def get(where):
        if where not in made:
            made[where] = LinkLab(tools, where, seed=SEED, delay=DELAY_US)
        return made[where]
    yield get
    for lab in made.values():
        lab.close()


def transfer(lab, fam, way, loss):
    """Returns bytes a second. The connection is opened before the link turns bad, as a lost SYN costs a second."""
    signal.alarm(2 * SECS + 60)
    p = L.port()
    with lab.peer.listen(L.PEER[fam], p) as srv:
        app = lab.app.connect(L.PEER[fam], p)
        far, _ = srv.accept()
    if lab.where != "host":  # there the guest sees no loss: its own congestion control does not count
        for s in (app, far):
            assert s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0") == b"cubic"
    src, dst = (app, far) if way == "out" else (far, app)
    before = lab.link.stats()
    with app, far:
        for s in (app, far):
            s.settimeout(SECS)
        lab.link.set(loss=loss, dup=.5, reorder=.5)
        try:
            start = time.monotonic()
            task = Task(lambda: (send_bulk(src, SIZE), src.shutdown(socket.SHUT_WR)))
            got = recv_bulk(dst)
            took = time.monotonic() - start
            task.result()
        finally:
            lab.link.set(loss=0, dup=0, reorder=0)
    assert got == (SIZE, checksum(SIZE)), f"{got[0]} of {SIZE} bytes, or others"
    after = lab.link.stats()
    d = "ab" if way == "out" else "ba"
    done = {k: after[d][k] - before[d][k] for k in ("in", "lost", "duplicated", "reordered", "overflow", "write_errors")}
    assert not done["write_errors"] and not lab.link.drops()
    if done["in"] * loss > 2000:
        assert done["lost"], f"the link lost nothing: the test proves nothing: {done}"
    return SIZE / took


@pytest.mark.parametrize("way,loss", CASES)
@pytest.mark.parametrize("fam", FAMS)
def test_guest_link(labs, record_property, fam, way, loss):
    """Loss, doubles, reordering and delay between the guest and us."""
    bare = transfer(labs("bare"), fam, way, loss)
    ours = transfer(labs("guest"), fam, way, loss)
    record_property("figure", f"guest link v{fam} {way:3} loss {loss:3} %: {ours * 8e-6:7.2f} Mbit/s, without us "
                              f"{bare * 8e-6:7.2f}, ratio {ours / bare:5.2f}")


@pytest.mark.parametrize("way,loss", CASES)
@pytest.mark.parametrize("fam", FAMS)
def test_host_link(labs, record_property, fam, way, loss):
    """The same beyond the host's kernel: it must not reach the guest but as time."""
    bare = transfer(labs("bare"), fam, way, loss)
    ours = transfer(labs("host"), fam, way, loss)
    record_property("figure", f"host link  v{fam} {way:3} loss {loss:3} %: {ours * 8e-6:7.2f} Mbit/s, without us "
                              f"{bare * 8e-6:7.2f}, ratio {ours / bare:5.2f}")


@pytest.mark.parametrize("fam", FAMS)
def test_short_queue(labs, fam):
    """The guest forwards to a slower link with a queue of 200 frames: our bursts must not overrun it for ever."""
    lab, p, size = labs("guest"), L.port(), 20 << 20

    def overrun():
        with lab.peer.listen(L.PEER[fam], p) as srv:
            app = lab.app.connect(L.PEER[fam], p)
            far, _ = srv.accept()
        before = lab.link.stats()["ba"]
        with app, far:
            lab.link.set(rate=500, limit=200)
            try:
                task = Task(lambda: (send_bulk(far, size), far.shutdown(socket.SHUT_WR)))
                assert recv_bulk(app) == (size, checksum(size))
                task.result()
            finally:
                lab.link.set(rate=0)
        after = lab.link.stats()["ba"]
        return [after[k] - before[k] for k in ("in", "overflow")]
    # 3 of 4, as long as only the window counted
    measured("frames, and how many did not fit the queue", lambda n: n[1] < n[0] / 5, overrun)


@pytest.mark.parametrize("fam", FAMS)
def test_black_hole(labs, fam):
    """Nothing passes for a second, and a message each way is under way: both come when the link is back."""
    lab, p = labs("guest"), L.port()
    with lab.peer.listen(L.PEER[fam], p) as srv:
        app = lab.app.connect(L.PEER[fam], p)
        far, _ = srv.accept()
    with app, far:
        lab.link.set(loss=100)
        try:
            app.sendall(b"from the guest")
            far.sendall(b"from the peer")
            app.settimeout(1)
            with pytest.raises(socket.timeout):
                app.recv(1)
        finally:
            lab.link.set(loss=0)
        for s in (app, far):
            s.settimeout(20)
        assert app.recv(100) == b"from the peer"
        assert far.recv(100) == b"from the guest"
