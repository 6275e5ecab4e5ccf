# SPDX-License-Identifier: BSD-3-Clause
"""Descriptors, ports and memory come to an end: what cannot be served is refused, the rest goes on, nothing spins.

Environment: NETNS_HOLD, seconds that many open connections have nothing to do (60).
"""
import errno
import os
import time

import pytest

import lab as L
from nsnet import Task, UdpServer, echo, until

HOLD = float(os.environ.get("NETNS_HOLD", "60"))
FAM = pytest.mark.parametrize("fam", [4, 6], ids=["v4", "v6"])
WAY = pytest.mark.parametrize("way", ["out", "in"])


def cpu_seconds(pid):
    f = L._content(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()
    return (int(f[11]) + int(f[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.first
@pytest.mark.heavy
def test_D21_D22_many_connections(own_lab):
    """15,000 open connections, half of them IPv6: all of them work, each costs at most 1 KiB of our own memory, an idle
    one no time; after a minute each is alive, and their end frees all."""
    lab, count = own_lab, 15000
    with lab.start(mode="pid") as i:
        clients = []
        ports = {fam: L.port() for fam in (4, 6)}
        for fam, p in ports.items():
            srv = lab.peer.spawn(lab.tools.nt, "echo", L.PEER[fam], str(p), stdout=-1)
            assert srv.stdout.readline() == b"ready\n"
            with i.ct.connect(L.PEER[fam], p) as s:  # whatever is made once is there
                s.sendall(b"x")
                assert s.recv(1) == b"x"
        before, fds = i.rss_kib("RssAnon"), len(os.listdir(f"/proc/{i.pid}/fd"))
        for fam, p in ports.items():
            clients.append(i.ct.spawn(lab.tools.nt, "many", L.PEER[fam], str(p), str(count // 2), stdin=-1, stdout=-1))
        for cli in clients:
            assert cli.stdout.readline() == b"open=%d failed=0\n" % (count // 2)
        assert len(os.listdir(f"/proc/{i.pid}/fd")) >= count, "fewer sockets than connections: nothing was measured"
        grown = i.rss_kib("RssAnon") - before
        print(f"{grown} KiB for {count} connections")
        if not lab.tools.sanitized:
            assert grown <= count
        now = cpu_seconds(i.pid)
        time.sleep(1)  # that nothing happens has no other sign
        assert cpu_seconds(i.pid) - now < .2, "open connections keep the program busy"
        time.sleep(HOLD - 1)
        for cli in clients:
            cli.stdin.write(b"x")
            cli.stdin.flush()
        for cli in clients:
            assert cli.stdout.readline() == b"open=%d failed=0\n" % (count // 2)
        for cli in clients:
            cli.kill()
        until(lambda: f"descriptors back to {fds}, now {len(os.listdir(f'/proc/{i.pid}/fd'))}",
              lambda: len(os.listdir(f"/proc/{i.pid}/fd")) <= fds + 100, 30, .1)


def resident(i, fds):
    """Our own memory in KiB, once no connection is left."""
    until(lambda: f"descriptors back to {fds}, now {len(os.listdir(f'/proc/{i.pid}/fd'))}",
          lambda: len(os.listdir(f"/proc/{i.pid}/fd")) <= fds, 30, .1)
    return i.rss_kib("RssAnon")


@pytest.mark.first
@pytest.mark.heavy
def test_C11_connections_leave_nothing(own_lab):
    """50,000 connections, half of them IPv6, closed by either end or reset: none fails, no descriptor and no memory stays."""
    lab, count = own_lab, 50000
    with lab.start(mode="pid") as i:
        fds, ports = len(os.listdir(f"/proc/{i.pid}/fd")), {fam: L.port() for fam in (4, 6)}
        for fam, p in ports.items():
            srv = lab.peer.spawn(lab.tools.nt, "echo", L.PEER[fam], str(p), stdout=-1)
            assert srv.stdout.readline() == b"ready\n"

        def churn(cnt):
            for cli in [i.ct.spawn(lab.tools.nt, "churn", L.PEER[fam], str(p), str(cnt // 2), stdout=-1) for fam, p in ports.items()]:
                assert cli.stdout.readline() == b"done=%d failed=0\n" % (cnt // 2)
        churn(count // 2)
        before = resident(i, fds)
        churn(count // 2)
        # more of them in their quiet period at once touch more of the table; what each leaves would be 100 bytes
        assert resident(i, fds) <= before + count // 2 * 100 // 1024 * (1 if not lab.tools.sanitized else 8), "memory stays behind"


@FAM
@pytest.mark.parametrize("frm", ["lan", "loopback"])
def test_C11_through_a_forward(own_lab, fam, frm):
    """3,000 connections to a published port, through the interface and from socket to socket, ended in every way: none fails, and
    what stays is the stock of sockets that the next ones take."""
    lab, p = own_lab, L.port()
    with lab.start("-t", str(p), mode="pid") as i:
        srv = i.ct.spawn(lab.tools.nt, "echo", L.HST[fam], str(p), stdout=-1)
        assert srv.stdout.readline() == b"ready\n"
        ns, to = (lab.peer, L.HST[fam]) if frm == "lan" else (lab.hst, L.LO[fam])
        for cnt in (300, 3000):
            cli = ns.spawn(lab.tools.nt, "churn", to, str(p), str(cnt), stdout=-1)
            assert cli.stdout.readline() == b"done=%d failed=0\n" % cnt
            until(lambda: f"{len(os.listdir(f'/proc/{i.pid}/fd'))} descriptors", lambda: len(os.listdir(f"/proc/{i.pid}/fd")) <= 120)


@FAM
@WAY
def test_descriptors_exhausted(own_lab, fam, way):
    """A limit of 96 descriptors: connections beyond it are refused or wait; those that are open work; it recovers."""
    lab, p = own_lab, L.port()
    with lab.start("-t", str(p), wrap=["prlimit", "--nofile=96:96"]) as i:
        srv_ns, cli, dst = (lab.peer, i.ct, L.PEER[fam]) if way == "out" else (i.ct, lab.peer, L.HST[fam])
        with srv_ns.serve(dst if way == "out" else L.ANY[fam], p, echo):
            def one(_n):
                try:
                    s = cli.connect(dst, p, timeout=2)
                    s.sendall(b"x")
                    return s if s.recv(1) == b"x" else None
                except OSError:
                    return None
            good = [s for s in (t.result(10) for t in [Task(one, n) for n in range(150)]) if s]
            assert 20 <= len(good) < 150, len(good)
            now = cpu_seconds(i.pid)
            for s in good:
                s.sendall(b"y")
                assert s.recv(1) == b"y"
            time.sleep(1)  # that nothing happens has no other sign
            assert cpu_seconds(i.pid) - now < .4, "spins while there are no descriptors"
            for s in good:
                s.close()
            until("a new connection after some were closed", lambda: one(0), 15)


@FAM
def test_ports_exhausted(own_lab, fam):
    """Ten local ports on the host: the eleventh connection to the same server fails at once, the ten work."""
    lab, p = own_lab, L.port()
    lab.hst.sysctl("net.ipv4.ip_local_port_range", "50000 50009")
    with lab.start() as i, lab.peer.serve(L.PEER[fam], p, echo):
        good, bad = [], 0
        for _ in range(20):
            try:
                good.append(i.ct.connect(L.PEER[fam], p, timeout=3))
            except OSError as e:  # the host says EADDRNOTAVAIL, which no network can say
                assert e.errno == errno.ENETUNREACH
                bad += 1
        assert (len(good), bad) == (10, 10)
        for s in good:
            s.sendall(b"y")
            assert s.recv(1) == b"y"
            s.close()


@FAM
def test_D19_U10_udp_flood_of_flows(own_lab, fam):
    """D19, U10: thousands of one-shot UDP flows: each answered, bounded in descriptors, and everything else works."""
    lab, p = own_lab, L.port()
    with lab.start(wrap=["prlimit", "--nofile=256:256"]) as i, UdpServer(lab.peer.udp(L.PEER[fam], p)), \
            lab.peer.serve(L.PEER[fam], p, echo):
        tcp = i.ct.connect(L.PEER[fam], p)
        for n in range(2000):
            with i.ct.udp(to=(L.PEER[fam], p), timeout=3) as s:
                s.send(b"%d" % n)
                assert s.recv(100) == b"%d" % n
        assert len(os.listdir(f"/proc/{i.pid}/fd")) <= 256
        tcp.sendall(b"tcp")
        assert tcp.recv(10) == b"tcp"
        assert i.alive()
