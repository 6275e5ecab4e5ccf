# SPDX-License-Identifier: BSD-3-Clause
"""Much data: checksums both ways, many connections, loss, stalled readers, ends in the middle.

Environment: NETNS_MIB, size of the large transfers (200); NETNS_STALL, seconds that a reader stops (30).
"""
import os
import re
import selectors
import signal
import socket
import struct
import time

import pytest

import lab as L
from nsnet import Task, check_half_close, checksum, chunks, echo, hello, recv_bulk, send_bulk, until, url_host

MIB = 1 << 20
BULK = int(os.environ.get("NETNS_MIB", "200")) * MIB
STALL = float(os.environ.get("NETNS_STALL", "30"))
FAM = pytest.mark.parametrize("fam", [4, 6], ids=["v4", "v6"])
WAY = pytest.mark.parametrize("way", ["out", "in"])
BULK_SETS = [pytest.param((cc, mtu), id=f"{cc}-{mtu or 'default'}", marks=pytest.mark.xdist_group(f"bulk-{cc}-{mtu}"))
             for cc in ("cubic", "bbr") for mtu in (None, 1500)]


def pair(lab, inst, fam, way, p, **kw):
    """A connection through the program: (end in the container, end in the LAN)."""
    if way == "out":
        with lab.peer.listen(L.PEER[fam], p, **kw) as srv:
            ct = inst.ct.connect(L.PEER[fam], p)
            lan, _ = srv.accept()
    else:
        with inst.ct.listen(L.ANY[fam], p) as srv:
            lan = lab.peer.connect(L.HST[fam], p, **kw)
            ct, peer = srv.accept()
            assert peer[0] == L.PEER[fam]
    for s in (ct, lan):
        s.settimeout(60)
    return ct, lan


@pytest.fixture(scope="module", params=BULK_SETS)
def bulk(request, tools):
    cc, mtu = request.param
    with L.Lab(tools, cc=cc) as lab:
        ports = [L.port() for _ in range(12)]
        inst = lab.start("-t", ",".join(map(str, ports)), mtu=mtu, mode="pid")
        inst.ct.sysctl("net.ipv4.tcp_congestion_control", cc)
        lab.ports = iter(ports)
        yield lab, inst


@pytest.mark.heavy
@FAM
@WAY
@pytest.mark.parametrize("to", ["lan", "ct"])
def test_transfer(bulk, fam, way, to):
    """Each direction, whoever opened the connection: every byte arrives, in order, once, then the end of the stream."""
    lab, inst = bulk
    size = BULK if way == "out" else BULK // 8
    ct, lan = pair(lab, inst, fam, way, next(lab.ports) if way == "in" else L.port())
    src, dst = (ct, lan) if to == "lan" else (lan, ct)

    def send():
        send_bulk(src, size)
        src.shutdown(socket.SHUT_WR)
    start = time.monotonic()
    task = Task(send)
    got = recv_bulk(dst)
    task.result()
    print(f"{size / MIB:.0f} MiB in {time.monotonic() - start:.2f} s")
    assert got == (size, checksum(size))
    dst.close()
    assert src.recv(1) == b""  # the other end closed in order, no reset
    src.close()
    assert inst.alive()


@FAM
@WAY
def test_D07_both_directions_at_once(lab, fam, way):
    """D07: both ends send and read at the same time; nothing locks up."""
    size, p = 16 * MIB, L.port()
    with lab.start("-t", str(p)) as inst:
        ct, lan = pair(lab, inst, fam, way, p)
        tasks = [Task(send_bulk, ct, size, 1), Task(send_bulk, lan, size, 2)]
        a, b = Task(recv_bulk, lan, size), Task(recv_bulk, ct, size)
        assert a.result() == (size, checksum(size, 1))
        assert b.result() == (size, checksum(size, 2))
        for t in tasks:
            t.result()
        ct.close()
        lan.close()


@FAM
@WAY
@pytest.mark.parametrize("first", ["ct", "lan"])
def test_D18_half_close(lab, fam, way, first):
    """D18: either end closes its direction first; the other direction goes on until it ends as well."""
    p = L.port()
    with lab.start("-t", str(p)) as inst:
        ct, lan = pair(lab, inst, fam, way, p)
        check_half_close(*((ct, lan) if first == "ct" else (lan, ct)))


@FAM
@WAY
def test_reset(lab, fam, way):
    """A reset by either end reaches the other one, and only that connection."""
    p = L.port()
    with lab.start("-t", str(p)) as inst:
        kept = pair(lab, inst, fam, way, p)
        for side in (0, 1):
            ends = pair(lab, inst, fam, way, p)
            ends[0].sendall(b"x")
            assert ends[1].recv(1) == b"x"
            ends[side].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            ends[side].close()
            with pytest.raises(ConnectionResetError):
                ends[1 - side].recv(1)
            ends[1 - side].close()
        kept[0].sendall(b"ok")
        assert kept[1].recv(2) == b"ok"
        kept[1].sendall(b"ok")
        assert kept[0].recv(2) == b"ok"


@FAM
@WAY
def test_urgent(lab, fam, way):
    """W-49: urgent data stays in its place in the stream."""
    p = L.port()
    with lab.start("-t", str(p)) as inst:
        for n in (0, 1):
            src, dst = pair(lab, inst, fam, way, p)[::-1 if n else 1]
            dst.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
            src.sendall(b"ab")
            src.send(b"X", socket.MSG_OOB)
            src.sendall(b"cd")
            src.shutdown(socket.SHUT_WR)
            got = b""
            while True:
                more = dst.recv(100)
                if not more:
                    break
                got += more
            assert got == b"abXcd"
            src.close()
            dst.close()


@pytest.mark.heavy
@FAM
@WAY
def test_thousand_connections(lab, fam, way):
    """1,000 connections at the same time, each exchanging its own data, none lost or mixed up."""
    count, p = 1000, L.port()
    with lab.start("-t", str(p)) as inst:
        cli, srv = (inst.ct, lab.peer) if way == "out" else (lab.peer, inst.ct)
        dst = L.PEER[fam] if way == "out" else L.HST[fam]
        proc = srv.spawn(lab.tools.nt, "echo", dst if way == "out" else L.ANY[fam], str(p), stdout=-1)
        assert proc.stdout.readline() == b"ready\n"
        sel, conns = selectors.DefaultSelector(), {}

        def open_all():
            for n in range(count):
                s = socket.socket(socket.AF_INET6 if fam == 6 else socket.AF_INET)
                s.setblocking(False)
                s.connect_ex((dst, p))
                conns[s] = [n, (b"%06d" % n) * 500, b""]
                sel.register(s, selectors.EVENT_WRITE)
        cli.call(open_all)
        open_now, end = count, time.monotonic() + 60
        while open_now and time.monotonic() < end:
            for key, ev in sel.select(1):
                s = key.fileobj
                c = conns[s]
                if ev & selectors.EVENT_WRITE:
                    sent = s.send(c[1])  # raises if the connection was refused
                    assert sent == len(c[1])
                    sel.modify(s, selectors.EVENT_READ)
                else:
                    data = s.recv(65536)
                    assert data, f"connection {c[0]} ended after {len(c[2])} bytes"
                    c[2] += data
                    if len(c[2]) >= len(c[1]):
                        sel.unregister(s)
                        open_now -= 1
        wrong = [c[0] for c in conns.values() if c[1] != c[2]]
        assert not wrong, f"{len(wrong)} connections without their data, first {wrong[:5]}"
        for s in conns:
            s.close()
        proc.kill()
        assert inst.alive()


@FAM
@pytest.mark.parametrize("victim", ["lan-reader", "lan-writer", "ct-reader", "ct-writer"])
def test_killed_peer(lab, fam, victim):
    """An end killed with SIGKILL while data flow: the other end learns of it; other connections go on."""
    p, q = L.port(), L.port()
    where, role = victim.split("-")
    with lab.start("-t", str(p)) as inst, lab.peer.serve(L.PEER[fam], q, echo):
        other = inst.ct.connect(L.PEER[fam], q)
        ns, here, dst = (lab.peer, inst.ct, L.PEER[fam]) if where == "lan" else (inst.ct, lab.peer, L.HST[fam])
        listen = f"TCP{fam}-LISTEN:{p},bind={url_host(dst if where == 'lan' else L.ANY[fam])},reuseaddr"
        args = ["-u", listen, "OPEN:/dev/null,append"] if role == "reader" else ["-u", "OPEN:/dev/zero", listen]
        proc = ns.spawn("socat", *args)

        def up():
            try:
                return here.connect(dst, p, timeout=10)
            except OSError:
                return None
        got = [0]

        def flow(s):
            try:
                while True:
                    n = s.send(b"z" * 65536) if role == "reader" else len(s.recv(65536))
                    if not n:
                        return "end"
                    got[0] += n
            except ConnectionError:
                return "reset"
        if where == "ct":  # a published port accepts before the service listens
            path = f"/proc/{inst.hold.pid}/net/tcp" + ("6" if fam == 6 else "")
            until("socat listens", lambda: f":{p:04X} " in open(path).read())
        s = until("socat listens", up)
        s.settimeout(20)
        task = Task(flow, s)
        until("data flow", lambda: got[0] > MIB)
        proc.kill()
        proc.wait()
        assert task.result(20) == ("reset" if role == "reader" else task.val)
        s.close()
        other.sendall(b"still here")
        assert other.recv(100) == b"still here"
        assert inst.alive()


def socket_memory(lab, pid):
    """Kernel memory of the TCP sockets of a process in hst, in bytes (ss -m)."""
    text = lab.out(*lab.hst.prefix, "ss", "-tmnp")
    total = 0
    for head, mem in re.findall(r"^(\S.*)\n\s+skmem:\((.*?)\)", text, re.M):
        if f"pid={pid}," in head or "users:" not in head:
            total += sum(int(x) for x in re.findall(r"(?:^|,)[rtwf](\d+)", mem))
    return total


@pytest.mark.first
@pytest.mark.heavy
def test_stalled_reader(own_lab):
    """Readers that stop for long, both families and directions: nobody buffers without bound, then all data arrive."""
    size, lab = 256 * MIB, own_lab
    inst = lab.start(mode="pid")
    flows = []
    for fam in (4, 6):
        for to in ("lan", "ct"):
            ct, lan = pair(lab, inst, fam, "out", L.port())
            flows.append(((ct, lan) if to == "lan" else (lan, ct), [0], to))

    def send(s, count):
        n = 0
        for c in chunk_list:
            s.sendall(c)
            n += len(c)
            count[0] = n
        s.shutdown(socket.SHUT_WR)
    chunk_list = [bytes(c) for c in chunks(4 * MIB)] * (size // (4 * MIB))
    tasks = []
    for (src, _), count, _ in flows:
        src.settimeout(STALL + 60)
        tasks.append(Task(send, src, count))

    def pushed():
        return [c[0] for _, c, _ in flows]

    def settled():
        a = pushed()
        time.sleep(1)  # that nothing moves has no other sign
        return a == pushed() and all(a)
    until("senders come to a stop", settled, 15)
    end = time.monotonic() + STALL
    stalled_at, idle_from = pushed(), inst.switches()
    while time.monotonic() < end:
        time.sleep(min(2, STALL / 4))
        assert inst.alive()
        if not lab.tools.sanitized:
            assert inst.rss_kib() <= 24 * 1024
        assert socket_memory(lab, inst.pid) < 160 * MIB  # four sockets, tcp_rmem up to 32 MiB
    assert pushed() == stalled_at, "a sender went on although nobody reads"
    for ((_, _), count, to) in flows:
        # towards the LAN: send buffers of container and host (4 MiB each), receive buffer of the peer, our budget
        assert count[0] <= 96 * MIB, f"{count[0]} bytes accepted towards {to} while the reader stood still"
    # zero window probes only: a handful of wake-ups a second for four connections at the most
    assert (inst.switches() - idle_from) < 40 * STALL + 40
    readers = [Task(drain, dst) for (_, dst), _, _ in flows]
    for t in tasks + readers:
        assert t.result(90) in (None, size)


def drain(s):
    n, buf = 0, bytearray(MIB)
    s.settimeout(60)
    while True:
        got = s.recv_into(buf)
        if not got:
            return n
        n += got


@pytest.mark.heavy
@FAM
@pytest.mark.parametrize("to", ["lan", "ct"])
def test_loss(own_lab, fam, to):
    """1 % of the packets between host and LAN are lost, both ways: slower, but complete and right."""
    lab, size = own_lab, 64 * MIB
    for ns in (lab.hst, lab.peer):
        ns.run("nft", "-f", "-", input="table inet loss { chain in { type filter hook input priority 0; "
                                       "iifname != \"lo\" meta l4proto tcp numgen random mod 100 == 0 counter drop\n }\n}")
    inst = lab.start()
    ct, lan = pair(lab, inst, fam, "out", L.port())
    src, dst = (ct, lan) if to == "lan" else (lan, ct)
    task = Task(lambda: (send_bulk(src, size), src.shutdown(socket.SHUT_WR)))
    assert recv_bulk(dst) == (size, checksum(size))
    task.result()
    dropped = sum(int(n) for ns in (lab.hst, lab.peer)
                  for n in re.findall(r"packets (\d+)", lab.out(*ns.prefix, "nft", "list", "table", "inet", "loss")))
    assert dropped, "the rule lost nothing: the test proves nothing"


@pytest.mark.heavy
@FAM
def test_loss_on_tap(own_lab, fam):
    """Frames lost between us and the container (its input drops 5 %; super-frames are few): we retransmit, nothing is missing."""
    lab, size = own_lab, 32 * MIB
    inst = lab.start()
    inst.ct.run("nft", "-f", "-", input="table inet loss { chain in { type filter hook input priority 0; "
                                        "iifname != \"lo\" meta l4proto tcp numgen random mod 20 == 0 counter drop\n }\n}")
    ct, lan = pair(lab, inst, fam, "out", L.port())
    task = Task(lambda: (send_bulk(lan, size), lan.shutdown(socket.SHUT_WR)))
    assert recv_bulk(ct) == (size, checksum(size))
    task.result()
    assert re.findall(r"packets [1-9]", lab.out(*inst.ct.prefix, "nft", "list", "table", "inet", "loss"))


def counters(total):
    return b"".join(i.to_bytes(4, "little") for i in range(total // 4))


@FAM
@pytest.mark.parametrize("mode,size", [("drained", MIB), ("drained", 32768), ("queued", 8192)])
def test_command_ends_with_data_queued(lab, fam, mode, size):
    """The command ends while the slow peer still has to read: all that was accepted arrives, then FIN, no reset.

    drained: the command ends when everything is acknowledged, so that we owe it; queued: it ends with its data on the tap
    """
    p = L.port()
    with lab.peer.listen(L.PEER[fam], p, rcvbuf=4096) as srv:
        inst = lab.start(cmd=[lab.tools.nt, "push", L.PEER[fam], str(p), str(size), mode], wait=False)
        s, _ = srv.accept()
        s.settimeout(30)
        got, at_end = bytearray(), []

        def slowly():
            while True:
                if not inst.alive() and not at_end:
                    at_end.append(len(got))
                if size > 65536 or at_end:
                    more = s.recv(4096)  # ConnectionResetError fails the test
                    if not more:
                        return
                    got.extend(more)
                time.sleep(.001)
        task = Task(slowly)
        assert inst.gone(20) == 0, inst.stderr()
        task.result()
        s.close()
    assert len(got) == size and bytes(got) == counters(size)
    assert at_end and at_end[0] < size, "nothing was queued when the command ended: the test proves nothing"


@FAM
def test_D06_ping_pong(lab, fam):
    """Small messages to and fro: no fixed stalls (D06). 2,000 round trips in a few seconds."""
    p = L.port()
    with lab.start("-t", str(p)) as inst, lab.peer.serve(L.PEER[fam], p, echo):
        with inst.ct.connect(L.PEER[fam], p) as s:
            worst = 0
            for n in range(2000):
                t = time.monotonic()
                s.sendall(b"%04d" % n)
                assert s.recv(100) == b"%04d" % n
                worst = max(worst, time.monotonic() - t)
            assert worst < (1 if not lab.tools.sanitized else 5), f"a round trip took {worst:.3f} s"


@FAM
@WAY
def test_D09_short_connections(lab, fam, way):
    """D09: 500 short connections in turn, each closed by the server: no reset, nothing left over."""
    p = L.port()
    with lab.start("-t", str(p)) as inst:
        srv_ns, cli, dst = (lab.peer, inst.ct, L.PEER[fam]) if way == "out" else (inst.ct, lab.peer, L.HST[fam])
        fds = len(os.listdir(f"/proc/{inst.pid}/fd"))
        with srv_ns.serve(dst if way == "out" else L.ANY[fam], p, hello) as srv:
            for _ in range(500):
                with cli.connect(dst, p) as s:
                    assert recv_bulk(s)[0] > 5
            assert not srv.errors
        until(lambda: f"descriptors back to {fds}, now {len(os.listdir(f'/proc/{inst.pid}/fd'))}",
              lambda: len(os.listdir(f"/proc/{inst.pid}/fd")) <= fds + 40)


@FAM
def test_D09_same_port_again(lab, fam):
    """D09: a client with one port, and a published service that ends first: no connection of 300 is reset, though the client
    comes again before the container has acknowledged its end."""
    p, src = L.port(), (L.ANY[fam], L.port())
    with lab.start("-t", str(p)) as inst, inst.ct.serve(L.ANY[fam], p, lambda s, _: s.sendall(s.recv(1))):
        for _ in range(300):
            with lab.peer.sock(socket.AF_INET6 if fam == 6 else socket.AF_INET, socket.SOCK_STREAM) as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                s.settimeout(10)
                s.bind(src)
                s.connect((L.HST[fam], p))
                s.sendall(b"x")
                assert s.recv(1) == b"x" and s.recv(1) == b""
