# SPDX-License-Identifier: BSD-3-Clause
"""What went wrong for users of such programs, TCP and load (D): the recipe of each report, in the size of a test."""
import json
import os
import selectors
import socket
import struct
import time

import pytest

import lab as L
from link import LinkLab
from nsnet import Task, checksum, measured, recv_bulk, send_bulk, until
from test_limits import cpu_seconds

MIB = 1 << 20
FAM = pytest.mark.parametrize("fam", [4, 6], ids=["v4", "v6"])
WAY = pytest.mark.parametrize("way", ["out", "in"])


def net_dev(ns, name):
    """(packets sent, dropped on sending) of an interface."""
    def read():
        with open("/proc/thread-self/net/dev") as f:
            return next(line.split(":")[1].split() for line in f if line.strip().startswith(name + ":"))
    f = ns.call(read)
    return int(f[9]), int(f[11])


def snmp(ns, proto, field):
    def read():
        with open("/proc/thread-self/net/snmp") as f:
            return [line.split() for line in f if line.startswith(proto + ":")]
    names, values = ns.call(read)
    return int(values[names.index(field)])


@FAM
def test_D01_many_downloads_slow_readers(tools, fam):
    """100 downloads at once over a far and slightly lossy path, by readers that pause: no silence of all, no spinning."""
    count, size, piece = 100, MIB, 128 << 10
    with LinkLab(tools, "host", delay=10000, loss=.1) as lab:
        p = L.port()

        def serve(s, _):
            s.sendall(bytes(size))
        with lab.peer.serve(L.PEER[fam], p, serve):
            sel, left = selectors.DefaultSelector(), {}
            for _ in range(count):
                s = lab.app.connect(L.PEER[fam], p)
                s.setblocking(False)
                sel.register(s, selectors.EVENT_READ)
                left[s] = size
            cpu, last, paused = cpu_seconds(lab.inst.pid), time.monotonic(), []
            while left:
                now = time.monotonic()
                while paused and paused[0][0] <= now:
                    sel.register(paused.pop(0)[1], selectors.EVENT_READ)
                for key, _ in sel.select(.05):
                    s = key.fileobj
                    n = len(s.recv(piece))
                    assert n, f"a download ended {left[s]} bytes early"
                    left[s] -= n
                    last = time.monotonic()
                    sel.unregister(s)
                    if left[s]:
                        paused.append((last + .05, s))
                    else:
                        del left[s]
                        s.close()
                assert time.monotonic() - last < 10, f"{len(left)} downloads stand still"
            if not tools.sanitized:
                assert cpu_seconds(lab.inst.pid) - cpu < 5, "busy out of proportion to 100 MiB"


def far_transfer(lab, fam, way, size):
    """Bytes a second of a transfer over the lab's link."""
    p = L.port()
    with lab.peer.listen(L.PEER[fam], p) as srv:
        app = lab.app.connect(L.PEER[fam], p)
        far, _ = srv.accept()
    src, dst = (app, far) if way == "out" else (far, app)
    with app, far:
        start = time.monotonic()
        task = Task(lambda: (send_bulk(src, size), src.shutdown(socket.SHUT_WR)))
        assert recv_bulk(dst) == (size, checksum(size))
        task.result()
        return size / (time.monotonic() - start)


@pytest.mark.first
@pytest.mark.xdist_group("link")
def test_D02_far_servers(tools, record_property):
    """100 ms away at 200 Mbit/s: windows open as far as those of the host's own programs do, both ways and families."""
    size = 12 * MIB
    far = {"delay": 50000, "rate": 200, "limit": 10000}
    with LinkLab(tools, "bare", **far) as without, LinkLab(tools, "host", **far) as lab:
        for fam in (4, 6):
            for way in ("out", "in"):
                # one after the other, so that both meet the same other work; a window that stays at 64 KiB, the fault of the
                # report, gives a ratio of 0.05
                bare, ours = measured("bytes a second without us, and with us", lambda r: r[1] > .5 * r[0],
                                      lambda fam=fam, way=way: [far_transfer(x, fam, way, size) for x in (without, lab)])
                record_property("figure", f"100 ms away, 200 Mbit/s, v{fam} {way:3}: {ours * 8e-6:6.1f} Mbit/s, without us "
                                          f"{bare * 8e-6:6.1f}, ratio {ours / bare:5.2f}")


@FAM
@WAY
def test_D03_D04_no_queue_overflows(own_lab, fam, way):
    """Bulk at MTU 1500, where others' bursts overflow the device's queue: next to nothing is dropped or sent again."""
    lab, size, p = own_lab, 128 * MIB, L.port()
    with lab.start("-t", str(p), mode="pid", mtu=1500) as inst:
        if way == "out":
            with lab.peer.listen(L.PEER[fam], p) as srv:
                ct = inst.ct.connect(L.PEER[fam], p)
                lan, _ = srv.accept()
        else:
            with inst.ct.listen(L.ANY[fam], p) as srv:
                lan = lab.peer.connect(L.HST[fam], p)
                ct, _ = srv.accept()
        for src, dst in ((ct, lan), (lan, ct)):
            for s in (src, dst):
                s.settimeout(60)
            task = Task(send_bulk, src, size)
            assert recv_bulk(dst, size) == (size, checksum(size))
            task.result()
        sent, dropped = net_dev(inst.ct, inst.tap)
        again, segs = snmp(inst.ct, "Tcp", "RetransSegs"), snmp(inst.ct, "Tcp", "OutSegs")
        assert segs > 1000
        assert dropped * 100 <= sent and again * 100 <= segs, f"{dropped} of {sent} frames dropped, {again} of {segs} sent again"
        ct.close()
        lan.close()


@FAM
@WAY
def test_D11_half_closed_and_unread(lab, fam, way):
    """Peers that have sent their end to a container that does not read, and containers to peers that do not: no spinning."""
    p, size = L.port(), MIB
    with lab.start(mode="pid") as inst, lab.peer.listen(L.PEER[fam], p, backlog=512, rcvbuf=4096) as srv:
        keep = []
        for _ in range(100):
            near = inst.ct.connect(L.PEER[fam], p, rcvbuf=4096)
            far, _ = srv.accept()
            for s in (near, far):
                s.setblocking(False)
            src, dst = (far, near) if way == "in" else (near, far)
            src.send(bytes(size))  # more than fits anywhere on the way
            src.shutdown(socket.SHUT_WR)
            dst.shutdown(socket.SHUT_WR)
            keep += [near, far]

        def calm():
            before = inst.switches()
            time.sleep(.5)  # the span that is measured
            return inst.switches() - before < 150
        until("what is possible was sent", calm, 20)
        cpu, before, start = cpu_seconds(inst.pid), inst.switches(), time.monotonic()
        time.sleep(2)  # the span that is measured
        took = time.monotonic() - start
        # each closed window is probed now and then, and a probe takes no time to speak of
        assert inst.switches() - before < 100 * took and cpu_seconds(inst.pid) - cpu < .03 * took * (1 if not lab.tools.sanitized else 10)
        for s in keep:
            s.close()


def test_D13_multicast_flood(lab):
    """A client that searches its peers by groups nobody has joined: at most one line, and no other traffic suffers."""
    with lab.start(fg=True, mode="pid") as inst:
        before = len(inst.stderr().splitlines())
        socks = {"239.255.255.250": inst.ct.udp("0.0.0.0", 0), "ff15::1": inst.ct.udp("::", 0)}
        p = L.port()
        with lab.peer.serve(L.PEER[4], p, lambda s, _: s.sendall(s.recv(100))):
            for i in range(1000):
                for group, s in socks.items():
                    s.sendto(b"search", (group, 6771))
                if i % 250 == 0:
                    with inst.ct.connect(L.PEER[4], p) as c:
                        c.sendall(b"x")
                        assert c.recv(1) == b"x"
        assert inst.alive()
        assert len(inst.stderr().splitlines()) <= before + 1, inst.stderr()
        for s in socks.values():
            s.close()


@FAM
@pytest.mark.parametrize("same", [True, False], ids=["same-tuple", "other-tuples"])
def test_D17_reset_after_handshake(lab, fam, same):
    """Health checks that reset each connection once it stands: every one gets through, also on the very same tuple, and no
    flow stays."""
    p = L.port()
    with lab.start(mode="pid") as inst, lab.peer.listen(L.PEER[fam], p, backlog=4096):
        fds = len(os.listdir(f"/proc/{inst.pid}/fd"))
        src = (L.HST[fam], L.port()) if same else None
        for _ in range(300):
            s = inst.ct.sock(socket.AF_INET6 if fam == 6 else socket.AF_INET, socket.SOCK_STREAM)
            s.settimeout(5)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if src:
                s.bind(src)
            s.connect((L.PEER[fam], p))
            s.close()
        until(lambda: f"descriptors back to {fds}, now {len(os.listdir(f'/proc/{inst.pid}/fd'))}",
              lambda: len(os.listdir(f"/proc/{inst.pid}/fd")) <= fds)
        assert inst.alive()


@WAY
def test_D23_datagrams_of_all_sizes(lab, way, record_property):
    """iperf3 with datagrams of 1400, 8972 and 65507 bytes, both ways: nearly all arrive at a moderate rate."""
    p = L.port()
    with lab.start("-t", str(p), "-u", str(p), mode="pid") as inst:
        srv_ns, cli, dst = (lab.peer, inst.ct, L.PEER[4]) if way == "out" else (inst.ct, lab.peer, L.HST[4])
        for size in (1400, 8972, 65507):
            for back in (False, True):
                def run(size=size, back=back):
                    srv = srv_ns.spawn("iperf3", "-s", "-1", "-p", str(p))
                    until("iperf3 listens", lambda: f":{p} " in lab.out(*srv_ns.prefix, "ss", "-Hltn"))
                    got = cli.run("iperf3", "-c", dst, "-p", str(p), "-u", "-l", str(size), "-b", "100M", "-t", "1", "-J",
                                  *["-R"] * back, timeout=60)
                    srv.wait(20)
                    return json.loads(got.stdout)["end"]["sum"]
                end = measured("what iperf3 says", lambda e: e["packets"] > 100 and e["lost_percent"] < 20, run)
                record_property("figure", f"iperf3 -u -l {size:5} {way:3} {'back' if back else 'to  '}: "
                                          f"{end['lost_percent']:.2f} % lost at 100 Mbit/s")
