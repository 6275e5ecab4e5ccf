# SPDX-License-Identifier: BSD-3-Clause
"""Loopback ports of the container that lead to the host's loopback (-T, -U): addresses, much data, ends in the middle."""
import os
import signal
import socket
import time

import pytest

import lab as L
from nsnet import Ns, Task, UdpServer, check_ends, checksum, echo, hello, recv_bulk, refused, send_bulk, until
from test_bulk import MIB, counters
from test_life import CONF, complains

FAM = pytest.mark.parametrize("fam", [4, 6], ids=["v4", "v6"])
pytestmark = [pytest.mark.xdist_group("loopback"), pytest.mark.first]


def pair(lab, inst, fam, p):
    """A connection through the program: (end in the container, end on the host)."""
    with lab.hst.listen(L.LO[fam], p) as srv:
        ct = inst.ct.connect(L.LO[fam], p)
        host, _ = srv.accept()
    for s in (ct, host):
        s.settimeout(60)
    return ct, host


@pytest.mark.parametrize("mode", L.MODES)
def test_every_loopback_address(lab, mode):
    """NAT-33: 127.0.0.5 is 127.0.0.5 on the host, and the client's address is kept; with UDP its port as well."""
    p, q, sport = L.port(), L.port(), L.port()
    with lab.start("-T", f"{p}:{q}", "-U", f"{p}:{q}", mode=mode) as i, lab.hst.serve("127.0.0.5", q, hello), \
            UdpServer(lab.hst.udp("127.0.0.5", q)) as udp:
        with i.ct.connect("127.0.0.5", p, src="127.0.0.7") as s:
            assert s.makefile().readline() == "hello 127.0.0.7\n"
        with i.ct.udp("127.0.0.7", sport, to=("127.0.0.5", p)) as s:
            for data in (b"x", b"", b"y" * 65000):
                s.send(data)
                assert s.recv(65536) == data
        assert udp.seen[0][1] == ("127.0.0.7", sport)


@pytest.mark.parametrize("proto", ["tcp", "udp"])
def test_no_circle(lab, proto):
    """A port that would be forwarded to where it came from takes all descriptors at the first connection: one way is left out."""
    t, T = ("-t", "-T") if proto == "tcp" else ("-u", "-U")
    p = L.port()
    with lab.start("--host-lo-to-ns-lo", t, f"{p}:{p + 1}", T, f"{p + 1}:{p}", "-q", mode="pid", fg=True) as i:
        assert f"port {p + 1} on the namespace's loopback: " in i.stderr() and len(i.stderr().splitlines()) == 1
        if proto == "tcp":
            with i.ct.serve(L.LO[4], p + 1, hello), lab.hst.connect(L.LO[4], p) as s:
                assert s.makefile().readline().startswith("hello")
        else:
            with UdpServer(i.ct.udp(L.LO[4], p + 1)), lab.hst.udp(to=(L.LO[4], p)) as s:
                s.send(b"ask")
                assert s.recv(9) == b"ask"


def test_no_circle_all(lab):
    """Of ports that are taken where free, those served at the start, on either side, are reached; others are refused."""
    p, lo = L.port(), "--host-lo-to-ns-lo"
    for _ in range(2):
        L.port()
    some = f"~1-{p - 1},~{p + 3}-65535"
    with lab.hst.serve(L.LO[4], p + 1, hello), lab.start(lo, "-t", some, "-T", some) as i, i.ct.serve(L.LO[4], p, hello):
        with i.ct.connect(L.LO[4], p + 1) as s:
            assert s.makefile().readline().startswith("hello")
        with lab.hst.connect(L.LO[4], p) as s:
            assert s.makefile().readline().startswith("hello")
        assert refused(lambda: lab.hst.connect(L.LO[4], p + 2).recv(1))
        assert refused(lambda: i.ct.connect(L.LO[4], p + 2))
    with lab.start(lo, "-t", some, "-T", str(p)) as i, lab.hst.serve(L.LO[4], p, hello):  # asked for by number
        with i.ct.connect(L.LO[4], p) as s:
            assert s.makefile().readline().startswith("hello")


@FAM
def test_refused(lab, fam):
    """Nobody listens on the host: the client learns it at once."""
    p = L.port()
    with lab.start("-T", str(p)) as i:
        fds = len(os.listdir(f"/proc/{i.pid}/fd"))
        for _ in range(20):
            with pytest.raises(ConnectionResetError), i.ct.connect(L.LO[fam], p, timeout=5) as s:
                s.recv(1)
        until("its descriptors are closed", lambda: len(os.listdir(f"/proc/{i.pid}/fd")) <= fds)


@FAM
def test_D07_both_directions_at_once(lab, fam):
    """D07: both ends send and read at the same time; nothing locks up, and nothing is left of it."""
    size, p = 64 * MIB, L.port()
    with lab.start("-T", str(p)) as inst:
        ct, host = pair(lab, inst, fam, p)
        tasks = [Task(send_bulk, ct, size, 1), Task(send_bulk, host, size, 2)]
        a, b = Task(recv_bulk, host, size), Task(recv_bulk, ct, size)
        assert a.result() == (size, checksum(size, 1))
        assert b.result() == (size, checksum(size, 2))
        for t in tasks:
            t.result()
        # D11: half-closed, nobody reads: no wake-ups
        ct.shutdown(socket.SHUT_WR)
        assert host.recv(1) == b""
        until("data waits", lambda: full(host))
        idle = calm(inst)
        time.sleep(1)  # the span that is measured
        assert inst.switches() - idle < 5
        ct.close()
        host.close()


def full(s):
    s.setblocking(False)
    try:
        s.send(bytes(MIB))
        return False
    except BlockingIOError:
        return True
    finally:
        s.settimeout(60)


def calm(inst):
    """Number of switches once they have stopped to change."""
    seen = []

    def same():
        seen.append(inst.switches())
        return len(seen) > 5 and len(set(seen[-5:])) == 1
    until("it sleeps", same, step=.05)
    return seen[-1]


@FAM
@pytest.mark.parametrize("first", ["ct", "host"])
def test_D18_ends(lab, fam, first):
    """D18: half-close either way, with data after it; then a reset either way, which leaves other connections alone."""
    p = L.port()
    with lab.start("-T", str(p)) as inst:
        kept = pair(lab, inst, fam, p)
        check_ends(kept, lambda: pair(lab, inst, fam, p)[::1 if first == "ct" else -1])


@FAM
def test_many_connections(lab, fam):
    """500 at a time, all of them alive; the idle ones cost no memory to speak of."""
    p = L.port()
    with lab.start("-T", str(p)) as inst, lab.hst.serve(L.LO[fam], p, echo):
        before = inst.rss_kib()
        socks = [inst.ct.connect(L.LO[fam], p) for _ in range(500)]
        for n, s in enumerate(socks):
            s.sendall(b"%d" % n)
        for n, s in enumerate(socks):
            assert s.recv(100) == b"%d" % n
        if not lab.tools.sanitized:
            assert inst.rss_kib() - before < 500
        fds = len(os.listdir(f"/proc/{inst.pid}/fd"))
        assert 1000 <= fds < 1000 + 150  # no pipes for those that rest
        for s in socks:
            s.close()
        until("all are gone", lambda: len(os.listdir(f"/proc/{inst.pid}/fd")) < fds - 999)


@FAM
def test_command_ends_with_data_queued(lab, fam):
    """The command ends while the slow server still has to read: all arrives, then the end, no reset."""
    size, p = 16 * MIB, L.port()
    with lab.hst.listen(L.LO[fam], p, rcvbuf=4096) as srv:
        inst = lab.start("-T", str(p), cmd=[lab.tools.nt, "push", L.LO[fam], str(p), str(size), "queued"], wait=False)
        s, _ = srv.accept()
        s.settimeout(30)
        got = bytearray()
        at_end = []
        while True:
            if not inst.alive() and not at_end:
                at_end.append(len(got))
            more = s.recv(65536)
            if not more:
                break
            got += more
            time.sleep(.001)
        s.close()
        assert inst.gone(20) == 0, inst.stderr()
    assert len(got) == size and bytes(got) == counters(size)
    assert at_end and at_end[0] < size, "nothing was queued when the command ended: the test proves nothing"


@FAM
def test_stopped_in_the_middle(lab, fam):
    """We are told to stop while data is under way: the server must not take what it got for everything."""
    p = L.port()
    with lab.start("-T", str(p), mode="pid") as inst:
        ct, host = pair(lab, inst, fam, p)
        until("data waits", lambda: full(ct))
        inst.signal(signal.SIGTERM)
        assert inst.gone(5) in (0, None)
        with pytest.raises(ConnectionResetError):
            while host.recv(MIB):
                pass


def test_port_in_use(lab):
    """A port that the container uses itself: one line, and no start."""
    proc, hold = lab.holder(["unshare", "-rUn"])
    p = L.port()
    ns = Ns(f"/proc/{hold.pid}/ns/net", "ct", lab, ["nsenter", "-t", str(hold.pid), "-n"])
    ns.run("ip", "link", "set", "lo", "up")
    with ns.listen("127.0.0.1", p):
        complains(lab.invoke(*CONF, "-q", "-T", str(p), str(hold.pid)), str(p), "namespace", "Address already in use")
    ns.close()
    proc.kill()
    proc.wait()
    hold.close()
