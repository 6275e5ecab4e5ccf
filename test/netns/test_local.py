# SPDX-License-Identifier: BSD-3-Clause
"""The host's loopback to published ports (-t, -u): from socket to socket, past the interface. Addresses, options, much data,
ends in the middle, the process that makes the sockets."""
import os
import re
import signal

import pytest

import lab as L
from nsnet import Task, UdpServer, check_ends, checksum, echo, hello, recv_bulk, refused, send_bulk, until
from test_bulk import MIB
from test_dgram import LEVEL, RECVTOS, TOS

FAM = pytest.mark.parametrize("fam", [4, 6], ids=["v4", "v6"])
NS_LO = pytest.mark.parametrize("opts", [[], ["--host-lo-to-ns-lo"]], ids=["address", "loopback"])
pytestmark = pytest.mark.xdist_group("local")


def other(fam):
    return 10 - fam


def tap_packets(inst):
    """Packets on the namespace's interface, both ways."""
    stat = inst.lab.out(*inst.ct.prefix, "cat", "/proc/net/dev")
    line = next(x for x in stat.splitlines() if x.strip().startswith(inst.tap + ":")).split(":")[1].split()
    return int(line[1]) + int(line[9])


def pair(lab, inst, fam, p, addr=None):
    """A connection through the program: (end on the host, end in the container)."""
    with inst.ct.listen(addr or L.HST[fam], p) as srv:
        host = lab.hst.connect(L.LO[fam], p)
        ct, _ = srv.accept()
    for s in (ct, host):
        s.settimeout(60)
    return host, ct


def ask(ns, addr, p, timeout=5):
    with ns.connect(addr, p, timeout=timeout) as s:
        return s.makefile().readline().strip()


def helper(inst):
    """The process inside, a child of the program."""
    kids = inst.lab.out("ps", "-o", "pid=,comm=", "--ppid", str(inst.pid))
    found = re.search(r"^\s*(\d+) pasta.inside$", kids, re.M)
    return int(found.group(1)) if found else 0


@pytest.mark.parametrize("mode", L.MODES)
@FAM
def test_B10_address_and_no_packets(lab, fam, mode):
    """NAT-30, NAT-31, B10: the service at the namespace's address is reached, and sees that address; not one at its loopback.
    Nothing of it passes the interface."""
    p, q, size = L.port(), L.port(), 8 * MIB
    with lab.start("-t", f"{p},{q}", "-u", str(p), mode=mode) as i, i.ct.serve(L.ANY[fam], p, hello) as srv, \
            i.ct.serve(L.LO[fam], q, hello), UdpServer(i.ct.udp(L.ANY[fam], p)) as udp:
        assert ask(lab.hst, L.LO[fam], p) == f"hello {L.HST[fam]}"
        assert refused(lambda: lab.hst.connect(L.LO[fam], q, timeout=5).recv(1) or 1 / 0)
        sport = L.port()
        with lab.hst.udp(L.LO[fam], sport, to=(L.LO[fam], p)) as s:
            for data in (b"x", b"", b"y" * 65000):
                s.send(data)
                assert s.recv(65536) == data
        assert udp.seen[0][1][:2] == (L.HST[fam], sport)
        before = tap_packets(i)
        srv.handler = lambda s, _: send_bulk(s, size)
        with lab.hst.connect(L.LO[fam], p) as s:
            assert recv_bulk(s) == (size, checksum(size))
        assert tap_packets(i) - before < 30
        # NAT-32: not from the host's other addresses
        srv.handler = hello
        assert ask(lab.hst, L.HST[fam], p) != f"hello {L.HST[fam]}"
        assert tap_packets(i) - before >= 3


@FAM
def test_B09_host_lo_to_ns_lo(lab, fam):
    """B09, NAT-31: what listens on the namespace's loopback is reached, with TCP and UDP; 127.0.0.5 there is 127.0.0.5."""
    p = L.port()
    with lab.start("--host-lo-to-ns-lo", "-t", str(p), "-u", str(p)) as i:
        with i.ct.serve(L.LO[fam], p, hello), UdpServer(i.ct.udp(L.LO[fam], p)):
            assert ask(lab.hst, L.LO[fam], p) == f"hello {L.LO[fam]}"
            with lab.hst.udp(to=(L.LO[fam], p)) as s:
                s.send(b"ask")
                assert s.recv(100) == b"ask"
        if fam == 4:
            with i.ct.serve("127.0.0.5", p, hello):
                assert ask(lab.hst, "127.0.0.5", p).startswith("hello 127.")
                assert refused(lambda: ask(lab.hst, "127.0.0.6", p))


@FAM
def test_loopback_as_target(lab, fam):
    """A rule whose target is the namespace's loopback serves whoever comes to it; on the link nobody would answer."""
    p, q = L.port(), L.port()
    spec = f"[{L.ANY[fam]}]/{p}:[{L.LO[fam]}]/{q}"
    with lab.start("-t", spec, "-u", spec) as i, i.ct.serve(L.LO[fam], q, hello), UdpServer(i.ct.udp(L.LO[fam], q)):
        for ns, addr in ((lab.hst, L.LO[fam]), (lab.hst, L.HST[fam]), (lab.peer, L.HST[fam])):
            assert ask(ns, addr, p) == f"hello {L.LO[fam]}"
            with ns.udp(to=(addr, p)) as s:
                s.send(b"ask")
                assert s.recv(100) == b"ask"
    with lab.start("--splice-only", "-t", spec, mode="pid", config=False, fg=True) as i, i.ct.serve(L.LO[fam], q, hello):
        assert ask(lab.hst, L.LO[fam], p) == f"hello {L.LO[fam]}"
        assert refused(lambda: lab.peer.connect(L.HST[fam], p, timeout=5).recv(1) or 1 / 0)


@FAM
@NS_LO
def test_other_family(lab, fam, opts):
    """A service of one family answers on the other family's loopback as well; UDP too."""
    p = L.port()
    at = (L.LO if opts else L.HST)[other(fam)]
    with lab.start(*opts, "-t", str(p), "-u", str(p)) as i, i.ct.serve(at, p, echo), UdpServer(i.ct.udp(at, p)):
        with lab.hst.connect(L.LO[fam], p) as s:
            s.sendall(b"early")
            assert s.recv(100) == b"early"
        with lab.hst.udp(to=(L.LO[fam], p)) as s:
            for data in (b"first", b"second"):
                s.send(data)
                assert s.recv(100) == data


def class_of(s, family, data):
    """The class of the next datagram, which is `data`, and who sent it."""
    s.settimeout(5)
    got, anc, _, peer = s.recvmsg(100, 100)
    assert got == data
    return {(lvl, kind): val[0] for lvl, kind, val in anc}.get((LEVEL[family], TOS[family]), 0), peer


@FAM
@pytest.mark.parametrize("to", [4, 6], ids=["to-v4", "to-v6"])
@pytest.mark.parametrize("way", ["address", "loopback", "out"])
def test_udp_class(lab, fam, to, way):
    """UDP-50 past the interface: DSCP and congestion marks of each datagram pass, both ways, also where the service is of the
    other family, and for the first one, which then is sent twice."""
    p = L.port()
    opts = {"address": ["-u", str(p)], "loopback": ["-u", str(p), "--host-lo-to-ns-lo"], "out": ["-U", str(p)]}[way]
    with lab.start(*opts) as i:
        near, far = (i.ct, lab.hst) if way == "out" else (lab.hst, i.ct)
        with far.udp(L.HST[to] if way == "address" else L.LO[to], p) as srv, near.udp(to=(L.LO[fam], p)) as s:
            srv.setsockopt(LEVEL[to], RECVTOS[to], 1)
            s.setsockopt(LEVEL[fam], RECVTOS[fam], 1)
            for tos in (0xba, 0, 1, 2, 3, 0xb8):
                s.setsockopt(LEVEL[fam], TOS[fam], tos)
                s.send(b"there")
                got, peer = class_of(srv, to, b"there")
                assert got == tos
                srv.setsockopt(LEVEL[to], TOS[to], tos ^ 1)
                srv.sendto(b"back", peer)
                assert class_of(s, fam, b"back")[0] == tos ^ 1


@FAM
def test_other_family_out(lab, fam):
    """The same from the namespace to the host (-T, -U), and not with one family only."""
    p = L.port()
    one = "-4" if fam == 4 else "-6"
    with lab.hst.serve(L.LO[other(fam)], p, hello), UdpServer(lab.hst.udp(L.LO[other(fam)], p)):
        with lab.start("-T", str(p), "-U", str(p)) as i:
            assert ask(i.ct, L.LO[fam], p) == f"hello {L.LO[other(fam)]}"
            with i.ct.udp(to=(L.LO[fam], p)) as s:
                s.send(b"first")
                assert s.recv(100) == b"first"
        with lab.start(one, "-T", str(p)) as i:
            assert refused(lambda: ask(i.ct, L.LO[fam], p) or 1 / 0)


@FAM
def test_no_splice(lab, fam):
    """--no-splice: through the interface, from our address or the alias."""
    p = L.port()
    with lab.start("--no-splice", "-t", str(p), "-u", str(p)) as i, i.ct.serve(L.ANY[fam], p, hello), \
            UdpServer(i.ct.udp(L.ANY[fam], p)) as udp:
        before = tap_packets(i)
        assert ask(lab.hst, L.LO[fam], p) == f"hello {L.GW[fam]}"
        with lab.hst.udp(to=(L.LO[fam], p)) as s:
            s.send(b"ask")
            assert s.recv(100) == b"ask"
        assert udp.seen[0][1][0] == L.GW[fam]
        assert tap_packets(i) - before >= 3
        assert not helper(i)


@FAM
@pytest.mark.parametrize("mode", ["command", "pid"])
def test_splice_only(lab, fam, mode):
    """NAT-35: no interface at all; loopback to loopback works both ways, anything else is refused at once."""
    p, q = L.port(), L.port()
    with lab.start("--splice-only", "-t", str(p), "-u", str(p), "-T", str(q), "-U", str(q), mode=mode, config=False) as i, \
            i.ct.serve(L.LO[fam], p, hello), UdpServer(i.ct.udp(L.LO[fam], p)), \
            lab.hst.serve(L.LO[fam], q, hello), UdpServer(lab.hst.udp(L.LO[fam], q)):
        assert i.tap is None
        for src, port in ((lab.hst, p), (i.ct, q)):
            assert ask(src, L.LO[fam], port) == f"hello {L.LO[fam]}"
            with src.udp(to=(L.LO[fam], port)) as s:
                s.send(b"ask")
                assert s.recv(100) == b"ask"
        for src in (lab.hst, lab.peer):
            assert refused(lambda src=src: ask(src, L.HST[fam], p) or 1 / 0)


@FAM
def test_refused(lab, fam):
    """Nobody listens in the namespace: reset at once, and nothing is left of it."""
    p = L.port()
    with lab.start("-t", str(p)) as i:
        with pytest.raises(ConnectionResetError), lab.hst.connect(L.LO[fam], p, timeout=5) as s:
            s.recv(1)
        fds = len(os.listdir(f"/proc/{i.pid}/fd"))
        for _ in range(40):
            with pytest.raises(ConnectionResetError), lab.hst.connect(L.LO[fam], p, timeout=5) as s:
                s.recv(1)
        until("its descriptors are closed", lambda: len(os.listdir(f"/proc/{i.pid}/fd")) <= fds + 64)


@FAM
def test_D07_bulk_both_directions(lab, fam):
    """D07: 200 MiB each way at the same time, whole; half-closed it sleeps."""
    size, p = 200 * MIB, L.port()
    with lab.start("-t", str(p)) as inst:
        host, ct = pair(lab, inst, fam, p)
        tasks = [Task(send_bulk, host, size, 1), Task(send_bulk, ct, size, 2)]
        a, b = Task(recv_bulk, ct, size), Task(recv_bulk, host, size)
        assert a.result() == (size, checksum(size, 1))
        assert b.result() == (size, checksum(size, 2))
        for t in tasks:
            t.result()
        host.close()
        ct.close()


@FAM
def test_steps_and_pauses(lab, fam):
    """Much data, then little, again and again on one connection: no answer is held back (SPL-9)."""
    p = L.port()
    with lab.start("-t", str(p)) as inst:
        host, ct = pair(lab, inst, fam, p)
        for n in range(60):
            size = (1, 100, 70_000, 3_000_000)[n % 4]
            for a, b in ((host, ct), (ct, host)):
                task = Task(send_bulk, a, size, n)
                assert recv_bulk(b, size) == (size, checksum(size, n))
                task.result()
        host.close()
        ct.close()


@FAM
@pytest.mark.parametrize("first", ["host", "ct"])
def test_D18_ends(lab, fam, first):
    """D18: half-close either way, with data after it; then a reset either way, which leaves other connections alone."""
    p = L.port()
    with lab.start("-t", str(p)) as inst:
        kept = pair(lab, inst, fam, p)
        check_ends(kept, lambda: pair(lab, inst, fam, p)[::1 if first == "host" else -1])


@FAM
def test_command_ends_with_data_queued(lab, fam):
    """The tail: the command has written, and ends; the slow client on the host gets all of it, then the end."""
    size, p = 16 * MIB, L.port()
    with lab.start("-t", str(p)) as inst:
        with inst.ct.listen(L.HST[fam], p) as srv:
            host = lab.hst.connect(L.LO[fam], p, rcvbuf=4096)
            ct, _ = srv.accept()
        ct.settimeout(60)
        task = Task(lambda: (send_bulk(ct, size), ct.close()))
        host.settimeout(60)
        first = recv_bulk(host, 65536)
        assert first[0] == 65536
        inst.hold.end(0)
        got, _ = recv_bulk(host)
        assert got + 65536 == size
        task.result()
        host.close()
        assert inst.gone(20) == 0


@FAM
def test_many_connections(lab, fam):
    """More at once than there are sockets in stock: all are served, and one after the other too."""
    p = L.port()
    with lab.start("-t", str(p), "-u", str(p)) as inst, inst.ct.serve(L.HST[fam], p, echo), \
            UdpServer(inst.ct.udp(L.HST[fam], p)):
        socks = [lab.hst.connect(L.LO[fam], p) for _ in range(200)]
        for n, s in enumerate(socks):
            s.sendall(b"%d" % n)
        for n, s in enumerate(socks):
            assert s.recv(100) == b"%d" % n
            s.close()
        socks = [lab.hst.udp(to=(L.LO[fam], p)) for _ in range(100)]
        for n, s in enumerate(socks):
            s.send(b"%d" % n)
        for n, s in enumerate(socks):
            assert s.recv(100) == b"%d" % n
            s.close()


@pytest.mark.parametrize("mode", L.MODES)
def test_helper_has_no_rights(lab, mode):
    """The process inside: no capability, no file, not dumpable, not to be seen in the namespace; it ends with the program,
    however that ends."""
    p = L.port()
    with lab.start("-t", str(p), mode=mode) as i:
        pid = until("the helper is there", lambda: helper(i))
        status = open(f"/proc/{pid}/status").read()
        assert set(re.findall(r"^Cap\w+:\t(\w+)$", status, re.M)) == {"0" * 16}
        assert re.search(r"^NoNewPrivs:\t1$", status, re.M)
        assert re.search(rf"^Uid:\t{L.UID}\t{L.UID}\t{L.UID}", status, re.M)
        assert os.stat(f"/proc/{pid}/environ").st_uid == 0, "dumpable"
        fds = [os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")]
        assert sorted(x.split(":")[0] for x in fds) == ["/dev/null"] * 3 + ["socket"]
        assert os.stat(f"/proc/{pid}/ns/net").st_ino == i.ct.inode()
        assert os.stat(f"/proc/{pid}/ns/pid").st_ino == os.stat("/proc/self/ns/pid").st_ino
        i.signal(signal.SIGKILL)
        until("the helper has ended", lambda: not os.path.exists(f"/proc/{pid}"))
    with lab.start("-t", str(p), mode=mode) as i:
        pid = until("the helper is there", lambda: helper(i))
        i.signal(signal.SIGTERM)
        i.gone(5)
        until("the helper has ended", lambda: not os.path.exists(f"/proc/{pid}"))


@FAM
def test_helper_killed(lab, fam):
    """Without it connections take the interface, with one line that says so; those that are open go on."""
    p = L.port()
    with lab.start("-t", str(p)) as i, i.ct.serve(L.HST[fam], p, echo):
        with lab.hst.connect(L.LO[fam], p) as s:
            s.sendall(b"before")
            assert s.recv(100) == b"before"
            os.kill(helper(i), signal.SIGKILL)
            until("it is told", lambda: i.stderr().count("has ended") == 1)
            before = tap_packets(i)
            with lab.hst.connect(L.LO[fam], p) as t:
                t.sendall(b"new")
                assert t.recv(100) == b"new"
            assert tap_packets(i) - before >= 3
            s.sendall(b"after")
            assert s.recv(100) == b"after"


def test_idle_costs_nothing(lab):
    """Nothing to do: no wake-up of either process, with the stock filled and an open connection."""
    p = L.port()
    with lab.start("-t", str(p)) as i:
        host, ct = pair(lab, i, 4, p)
        pid = helper(i)

        def switches():
            with open(f"/proc/{pid}/status") as f:
                return i.switches() + sum(int(x) for x in re.findall(r"ctxt_switches:\s+(\d+)", f.read()))
        seen = []
        until("both sleep", lambda: seen.append(switches()) or (len(seen) > 20 and len(set(seen[-20:])) == 1), step=.05)
        host.sendall(b"x")
        assert ct.recv(1) == b"x"
        host.close()
        ct.close()
