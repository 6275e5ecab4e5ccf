# SPDX-License-Identifier: BSD-3-Clause
"""Reports of people about UDP, by their recipes; how much of it can go on at once, and what others notice of that."""
import json
import os
import random
import socket
import struct
import threading
import time

import pytest

import lab as L
from nsnet import Task, UdpServer, echo, family, measured, until
from test_limits import cpu_seconds

FAM = pytest.mark.parametrize("fam", [4, 6], ids=["v4", "v6"])
MANY = {4: "10.80.", 6: "fd80::"}  # a network all of whose addresses are the peer's
UDP_SEGMENT, UDP_GRO, IP_PKTINFO, SO_RCVBUFFORCE, IP_FREEBIND = 103, 104, 8, 33, 15
pytestmark = [pytest.mark.xdist_group("reports_udp"), pytest.mark.first]


def many(fam, n):
    return f"10.80.{n >> 8}.{n & 255}" if fam == 4 else f"fd80::{n:x}"


def any_ip(lab):
    """Let the peer have 65,536 addresses of each family."""
    lab.batch(lab.peer, "route replace local 10.80.0.0/16 dev lo", "-6 route replace local fd80::/112 dev lo")


class ManyServer:
    """Answers each datagram from the address that it came to."""

    def __init__(self, ns, fam, port):
        self.sock = ns.sock(socket.AF_INET if fam == 4 else socket.AF_INET6, socket.SOCK_DGRAM)
        self.sock.setsockopt(*((socket.IPPROTO_IP, IP_PKTINFO) if fam == 4 else (socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO)), 1)
        self.sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
        self.sock.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)  # answers from any address
        if fam == 6:
            self.sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        self.sock.bind((L.ANY[fam], port))
        self.sock.settimeout(.2)
        self.cnt, self.ports, self.stop = 0, {}, False
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def _loop(self):
        while not self.stop:
            try:
                data, anc, _, peer = self.sock.recvmsg(2000, 200)
            except (socket.timeout, ConnectionError):
                continue
            self.cnt += 1
            self.ports[peer[1]] = self.ports.get(peer[1], 0) + 1
            lvl, kind, info = anc[0]
            if lvl == socket.IPPROTO_IP:  # the interface and the address in the header are not for sending
                info = struct.pack("i", 0) + info[8:12] + bytes(4)
                anc = [(lvl, kind, info)]
            else:
                anc = [(lvl, kind, info[:16] + bytes(4))]
            self.sock.sendmsg([data], anc, 0, peer)

    def __enter__(self):
        return self

    def __exit__(self, *a):
        self.stop = True
        self.thread.join()
        self.sock.close()


def fds(i):
    return len(os.listdir(f"/proc/{i.pid}/fd"))


def soak(lab, i, total, port):
    """TOTAL flows, half of each family, from one port of the container; how many were answered."""
    got = 0
    with ManyServer(lab.peer, 4, port) as s4, ManyServer(lab.peer, 6, port) as s6, \
            i.ct.udp("0.0.0.0", 7777) as c4, v6only(i.ct, 7777) as c6:
        for s in (c4, c6):
            s.settimeout(.2)
        for n in range(1, total // 2 + 1, 200):
            for s, fam in ((c4, 4), (c6, 6)):
                for k in range(200):
                    s.sendto(b"soak", (many(fam, n + k), port))
                try:
                    for k in range(200):
                        s.recv(100)
                        got += 1
                except socket.timeout:
                    pass
        assert s4.cnt + s6.cnt >= got
        return got


@pytest.mark.heavy
def test_udp_soak(own_lab):
    """100,000 flows come and go: every descriptor comes back, memory is that of those that live at the same time and does not
    grow the second time, and others work all the time."""
    lab, p, q = own_lab, L.port(), L.port()
    any_ip(lab)
    lab.hst.sysctl("net.netfilter.nf_conntrack_udp_timeout", 2)
    lab.hst.sysctl("net.netfilter.nf_conntrack_udp_timeout_stream", 4)
    with lab.start() as i, UdpServer(lab.peer.udp(L.PEER[4], q)), lab.peer.serve(L.PEER[6], q, echo), \
            i.ct.connect(L.PEER[6], q) as tcp, i.ct.udp(to=(L.PEER[4], q)) as udp:
        def alive():
            tcp.sendall(b"t")
            assert tcp.recv(1) == b"t"
            udp.send(b"u")
            assert udp.recv(10) == b"u"
        alive()
        before, mem = fds(i), []
        for total in (100000, 8000):
            got = soak(lab, i, total, p)
            alive()
            assert got > total * .98, f"{got} of {total} answered"
            until(lambda: f"descriptors {fds(i)}, before {before}", lambda: fds(i) <= before + 1, 15, .05)
            alive()
            mem.append(i.rss_kib("RssAnon"))
        assert fds(i) <= before + 2
        if not lab.tools.sanitized:
            assert mem[0] < 40 << 10 and mem[1] <= mem[0] + 512, f"KiB after each round: {mem}"


class Others:
    """What goes on besides a scan: an open connection, an open UDP flow (which asks again, for a queue may overflow), and new
    connections, one after the other."""

    def __init__(self, ns, addr, port, tcp, udp):
        self.ns, self.to, self.tcp, self.udp = ns, (addr, port), tcp, udp
        self.stop, self.worst, self.again = threading.Event(), 0, 0
        self.task = Task(self._loop)

    def _ask(self, data):
        for _ in range(20):
            self.udp.send(data)
            try:
                while self.udp.recv(10) != data:
                    pass
                return
            except socket.timeout:
                self.again += 1
        raise AssertionError("20 datagrams of an open flow were not answered")

    def _loop(self):
        n = 0
        self.udp.settimeout(.2)
        while not self.stop.is_set():
            t = time.monotonic()
            self.tcp.sendall(b"%4d" % (n % 9999))
            assert self.tcp.recv(4) == b"%4d" % (n % 9999)
            self._ask(b"%d" % n)
            with self.ns.connect(*self.to, timeout=8) as s:
                s.sendall(b"new")
                assert s.recv(3) == b"new"
            self.worst = max(self.worst, time.monotonic() - t)
            n += 1
        return n

    def done(self):
        self.stop.set()
        rounds = self.task.result(20)
        print(f"{rounds} rounds, worst {self.worst:.3f} s, asked again {self.again} times")
        assert rounds


@FAM
def test_scan_inside(own_lab, fam):
    """A scan of all 65,535 ports of the host from the container, by TCP and UDP: what was open stays, new ones get through."""
    lab, p = own_lab, L.port()
    with lab.start() as i, UdpServer(lab.peer.udp(L.PEER[fam], p)), lab.peer.serve(L.PEER[fam], p, echo), \
            i.ct.connect(L.PEER[fam], p) as tcp, i.ct.udp(to=(L.PEER[fam], p)) as udp:
        others = Others(i.ct, L.PEER[fam], p, tcp, udp)
        scan_udp(i.ct, L.PEER[fam], fam, skip=p)
        scan_tcp(i.ct, L.PEER[fam], fam)
        others.done()
        with i.ct.udp(to=(L.PEER[fam], p)) as s:
            s.send(b"after")
            assert s.recv(10) == b"after"


def scan_udp(ns, addr, fam, ports=range(1, 65536), skip=0):
    """One datagram to each port."""
    with ns.udp(L.ANY[fam], 0) as s:
        s.setblocking(False)
        for n in ports:
            if n != skip:
                s.sendto(b"scan", (addr, n))
            if not n % 100:  # some 50,000 a second
                time.sleep(.002)


def scan_tcp(ns, addr, fam, ports=range(1, 65536)):
    """One connection attempt to each port, 400 at a time."""
    def go():
        open_socks = []
        for n in ports:
            s = socket.socket(family(addr), socket.SOCK_STREAM)
            s.setblocking(False)
            s.connect_ex((addr, n))
            open_socks.append(s)
            if len(open_socks) == 400:
                for s in open_socks:
                    s.close()
                open_socks.clear()
        for s in open_socks:
            s.close()
    ns.call(go)


@FAM
def test_scan_outside(own_lab, fam):
    """A scan of 65,535 ports of the host from outside, 1,000 of them published, and 65,535 datagrams from as many peers to one of
    them: what was open stays, new ones get through."""
    lab, p, r = own_lab, 20000, 21500
    any_ip(lab)
    pub = f"{p}-{p + 499}"
    lab.hst.sysctl("net.ipv4.conf.all.rp_filter", 0)
    with lab.start("-t", pub, "-u", pub, "-t", str(r), "-u", str(r)) as i, UdpServer(i.ct.udp(L.ANY[fam], r)), \
            i.ct.serve(L.ANY[fam], r, echo), lab.peer.connect(L.HST[fam], r) as tcp, lab.peer.udp(to=(L.HST[fam], r)) as udp:
        others = Others(lab.peer, L.HST[fam], r, tcp, udp)
        scan_udp(lab.peer, L.HST[fam], fam, skip=r)
        scan_tcp(lab.peer, L.HST[fam], fam)

        def flood():
            for n in range(1, 65536, 4):  # a peer each: as many flows
                with socket.socket(family(L.HST[fam]), socket.SOCK_DGRAM) as s:
                    s.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
                    s.bind((many(fam, n), 5000))
                    s.sendto(b"flood", (L.HST[fam], p + 1))
        lab.peer.call(flood)
        others.done()
        with lab.peer.udp(to=(L.HST[fam], r)) as s:
            s.send(b"after")
            assert s.recv(10) == b"after"
        assert i.alive()


@FAM
def test_U01_lookups_under_churn(lab, fam):
    """Lookups from a new port each, while thousands of other flows come and go: none fails."""
    p, q = L.port(), L.port()
    any_ip(lab)
    with lab.start() as i, UdpServer(lab.peer.udp(L.PEER[fam], p)), ManyServer(lab.peer, fam, q) as churned:
        i.deep_queue()
        stop = threading.Event()

        def churn():
            n = 0
            with i.ct.udp(L.ANY[fam], 0) as s:
                s.setblocking(False)
                while not stop.is_set():
                    n = n % 5000 + 1
                    s.sendto(b"churn", (many(fam, n), q))
                    if not n % 50:
                        time.sleep(.005)
        task = Task(churn)
        for n in range(600):
            with i.ct.udp(to=(L.PEER[fam], p), timeout=5) as s:
                s.send(b"%d" % n)
                assert s.recv(10) == b"%d" % n, n
        stop.set()
        task.result()
        assert churned.cnt > 1000


@FAM
def test_D12_many_peers(own_lab, fam, record_property):
    """D12: 2,000 peers, a datagram of 1200 bytes to and from each in turn, as BitTorrent has them: none is lost, and each costs
    little."""
    lab, p, peers, rounds, burst = own_lab, L.port(), 2000, 4, 50
    any_ip(lab)
    with lab.start() as i, ManyServer(lab.peer, fam, p), i.ct.udp(L.ANY[fam], 0) as s:
        s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)

        def once():
            for n in range(1, peers + 1, burst):
                for k in range(burst):
                    s.sendto(b"x" * 1200, (many(fam, n + k), p))
                assert {s.recvfrom(2000)[1][0] for _ in range(burst)} == {many(fam, n + k) for k in range(burst)}
        once()

        def each_costs():
            cpu = cpu_seconds(i.pid)
            for _ in range(rounds):
                once()
            return (cpu_seconds(i.pid) - cpu) / (2 * peers * rounds)
        # what the host's kernel does in our calls is in it: a socket's send on a veth ends in the receiver's queue
        each = measured("seconds of CPU for a datagram", lambda c: lab.tools.sanitized or c < 25e-6, each_costs)
        record_property("figure", f"2,000 UDP peers in turn, v{fam}: {each * 1e6:.1f} us of CPU a datagram")


@FAM
def test_D15_empty_datagrams_and_errors(lab, fam):
    """D15: empty datagrams both ways and ICMP errors, by the thousand: all arrive, and nothing spins afterwards."""
    p, closed = L.port(), L.port()
    lab.peer.no_icmp_limit()
    with lab.start("-u", str(p)) as i, i.ct.udp(L.ANY[fam], p) as near, lab.peer.udp(to=(L.HST[fam], p)) as far, \
            i.ct.udp(to=(L.PEER[fam], closed)) as lost:
        for s in (near, far):
            s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20)
        for _ in range(1000):
            lost.send(b"")
            far.send(b"")
            data, who = near.recvfrom(10)
            assert data == b""
            near.sendto(b"", who)
            assert far.recv(10) == b""
            with pytest.raises(ConnectionRefusedError):  # each before the next: two that wait are told as one
                lost.recv(10)
        until("it sleeps", lambda: i.switches() == i.switches())
        before = i.switches()
        time.sleep(1)  # that nothing happens has no other sign
        assert i.switches() - before < 10
        far.send(b"still")
        assert near.recv(10) == b"still"


def test_U04_reply_source(lab):
    """A published port on the wildcard: each of the host's addresses answers as itself, connected clients hear it."""
    p = L.port()
    with lab.start("-u", str(p)) as i, UdpServer(i.ct.udp(L.ANY[4], p)), UdpServer(v6only(i.ct, p)):
        ll = lab.hst.run("ip", "-6", "-o", "addr", "show", "dev", "up0", "scope", "link").stdout.split()[3].split("/")[0]
        scope = lab.peer.call(lambda: socket.if_nametoindex("e0"))
        for to in ((L.HST[4], p), (L.HST2[4], p), (L.HST[6], p), (L.HST2[6], p), (ll, p, 0, scope)):
            with lab.peer.udp(to=to) as s:
                for n in range(3):
                    s.send(b"%d" % n)
                    assert s.recv(10) == b"%d" % n, to
        for to in ((L.HST[4], p), (L.HST2[4], p), (L.HST[6], p), (L.HST2[6], p)):
            with lab.peer.udp(L.ANY[6 if ":" in to[0] else 4], 0) as s:  # one socket, all of them
                s.sendto(b"x", to)
                assert s.recvfrom(10)[1][:2] == to


def v6only(ns, port):
    s = ns.sock(socket.AF_INET6, socket.SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    s.bind(("::", port))
    return s


def test_U09_tunnel(own_lab):
    """A tunnel in UDP with the container's default MTU, as WireGuard makes it: a transfer through it comes to its end."""
    lab, p, q = own_lab, L.port(), L.port()
    with lab.start() as i:
        ends = []
        for ns, mine, port, to in ((i.ct, 1, 0, (L.PEER[4], p)), (lab.peer, 2, p, None)):
            tun = ns.call(lambda: L._tun("tunnel"))
            # the largest inner packet that makes one datagram, by the interface's MTU
            lab.batch(ns, "link set tunnel mtu 65400 up", f"addr add 10.99.0.{mine}/24 dev tunnel")
            ends.append((tun, ns.udp(L.ANY[4], port, to=to)))
        stop, learned = [], {1: None}

        def out(k):
            tun, sock = ends[k]
            while not stop:
                try:
                    data = os.read(tun, 65536)
                    sock.send(data) if not k else learned[1] and sock.sendto(data, learned[1])
                except BlockingIOError:
                    time.sleep(.0005)

        def back(k):
            tun, sock = ends[k]
            sock.settimeout(.1)
            while not stop:
                try:
                    data, frm = sock.recvfrom(65536)
                except socket.timeout:
                    continue
                learned[1] = frm if k else learned[1]
                os.write(tun, data)
        tasks = [Task(fn, k) for fn in (out, back) for k in (0, 1)]
        size = 20 << 20
        with lab.peer.serve("10.99.0.2", q, echo), i.ct.connect("10.99.0.2", q, timeout=30) as s:
            task = Task(lambda: s.sendall(bytes(size)))
            got = 0
            while got < size:
                got += len(s.recv(1 << 18))
            task.result()
        stop.append(True)
        for t in tasks:
            t.result()
        for tun, sock in ends:
            os.close(tun)
            sock.close()


def test_U10_anything_to_published_ports(own_lab):
    """Random UDP, impossible addresses and ports, broken headers and ICMP errors about them at published ports, while both sides
    open the same flows and the table fills: the program goes on."""
    lab, rnd = own_lab, random.Random(1)
    ports = [5353, 5683, L.port()]
    opts = [o for p in ports for o in ("-u", str(p))]
    with lab.start(*opts, "--multicast") as i:
        raw = lab.peer.sock(socket.AF_PACKET, socket.SOCK_RAW)
        raw.bind(("e0", 0))
        mac = bytes.fromhex(lab.out(*lab.hst.prefix, "cat", "/sys/class/net/up0/address").strip().replace(":", "")) or b"\xff" * 6
        if len(mac) != 6:
            mac = b"\xff" * 6
        lab.hst.sysctl("net.ipv4.conf.all.rp_filter", 0)
        with i.ct.udp("0.0.0.0", ports[0]) as srv, i.ct.udp("0.0.0.0", ports[1]) as out:
            srv.setblocking(False)
            for n in range(6000):
                src = rnd.choice([bytes(4), b"\xe0\0\0\1", b"\xff" * 4, b"\x7f\0\0\1", socket.inet_aton(L.HST[4]),
                                  rnd.randbytes(4), socket.inet_aton(L.PEER[4])])
                dst = rnd.choice([L.HST[4], L.HST2[4], "10.77.0.255", "255.255.255.255", "224.0.0.251", "224.0.1.187"])
                sport, dport = rnd.choice([0, 53, 5353, rnd.randrange(65536)]), rnd.choice(ports)
                body = rnd.randbytes(rnd.choice([0, 1, 8, 100, 1400]))
                udp = struct.pack(">4H", sport, dport, len(body) + rnd.choice([8, 8, 8, 8, 7, 0, 2000]), 0) + body
                if not n % 7:  # an error about something that we might have sent
                    inner = ip4(17, socket.inet_aton(L.HST[4]), socket.inet_aton(L.PEER[4]), udp[2:4] + udp[:2] + udp[4:])
                    kind = rnd.choice([(3, 3), (3, 4), (11, 0), (12, 0), (5, 0)])
                    udp = struct.pack(">BBHI", *kind, 0, rnd.choice([0, 68, 576, 1500])) + inner[:rnd.choice([20, 28, 60])]
                    udp = udp[:2] + struct.pack(">H", csum(udp)) + udp[4:]
                pkt = ip4(1 if not n % 7 else 17, src, socket.inet_aton(dst), udp)
                raw.send(mac + b"\x02\0\0\0\0\x09" + b"\x08\0" + pkt)
                if not n % 3:
                    try:
                        srv.sendto(b"same", (L.PEER[4], sport or 1))
                        srv.recv(2000)
                    except (BlockingIOError, ConnectionError, OSError):
                        pass
        raw.close()
        assert i.alive()
        with UdpServer(i.ct.udp("0.0.0.0", ports[2])), lab.peer.udp(to=(L.HST[4], ports[2])) as s:
            s.send(b"still there")
            assert s.recv(100) == b"still there"


def csum(b):
    b += b"\0" * (len(b) % 2)
    s = sum(struct.unpack(f">{len(b) // 2}H", b))
    while s >> 16:
        s = (s & 0xffff) + (s >> 16)
    return ~s & 0xffff


def ip4(proto, src, dst, body):
    h = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, proto, 0) + src + dst
    return h[:10] + struct.pack(">H", csum(h)) + h[12:] + body


# -- ports on the host

@FAM
def test_one_port_for_all_peers(lab, fam):
    """RFC 4787 REQ-1: one socket of the container is one port on the host, however many peers it talks to; 300 here."""
    p, q = L.port(), L.port()
    any_ip(lab)
    with lab.start() as i, ManyServer(lab.peer, fam, p) as srv, i.ct.udp(L.ANY[fam], q) as s:
        for n in range(1, 301):
            s.sendto(b"peer %d" % n, (many(fam, n), p))
            data, frm = s.recvfrom(100)
            assert data == b"peer %d" % n and frm[0] == many(fam, n)
        assert srv.ports == {q: 300}


@FAM
def test_port_taken_on_the_host(lab, fam):
    """W-62: a port that a program of the host has is no black hole: another one is used, and the host's own is not disturbed."""
    p, q = L.port(), L.port()
    with lab.start() as i, UdpServer(lab.peer.udp(L.PEER[fam], p)) as srv, lab.hst.udp(L.ANY[fam], q) as own, \
            i.ct.udp(L.ANY[fam], q) as s:
        for _ in range(2):
            s.sendto(b"x", (L.PEER[fam], p))
            assert s.recvfrom(10)[0] == b"x"
        assert srv.seen[0][1][1] != q
        own.sendto(b"y", (L.PEER[fam], p))
        assert own.recv(10) == b"y"


@FAM
def test_same_port_of_two_addresses(lab, fam):
    """Two addresses of the container talk to the same peer from the same port: each hears its own answers."""
    p, q = L.port(), L.port()
    with lab.start() as i, UdpServer(lab.peer.udp(L.PEER[fam], p)) as srv, i.ct.udp(L.HST[fam], q) as a, i.ct.udp(L.HST2[fam], q) as b:
        for n in range(3):
            for s in (a, b):
                s.sendto(b"%d" % n + (b"a" if s is a else b"b"), (L.PEER[fam], p))
            for s in (a, b):
                assert s.recv(10) == b"%d" % n + (b"a" if s is a else b"b")
        assert len({peer[1] for _, peer in srv.seen}) == 2


@FAM
def test_published_port_is_the_source(lab, fam):
    """What the container sends from a published port leaves from it, to any peer, and who comes to it is served all the time."""
    p, q = L.port(), L.port()
    with lab.start("-u", str(q)) as i, ManyServer(lab.peer, fam, p) as srv, i.ct.udp(L.ANY[fam], q) as s:
        for addr in (L.PEER[fam], L.FAR[fam]):
            s.sendto(b"out", (addr, p))
            data, frm = s.recvfrom(10)
            assert (data, frm[:2]) == (b"out", (addr, p))
        assert srv.ports == {q: 2}
        with lab.peer.udp(to=(L.HST[fam], q)) as c:
            c.send(b"in")
            data, peer = s.recvfrom(10)
            assert data == b"in"
            s.sendto(b"back", peer)
            assert c.recv(10) == b"back"
        thief = lab.hst.sock(family(L.HST[fam]), socket.SOCK_DGRAM)
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with thief, pytest.raises(OSError):  # others can't share it, and what comes to it
            thief.bind((L.ANY[fam], q))


# -- sizes and bursts

@FAM
def test_empty_and_bursts(lab, fam):
    """UDP-9: empty datagrams are datagrams; a burst arrives whole and in order; connected and unconnected peers, both ways."""
    p = L.port()
    with lab.start("-u", str(p)) as i:
        for src, dst, addr in ((i.ct, lab.peer, L.PEER[fam]), (lab.peer, i.ct, L.HST[fam])):
            with dst.udp(L.ANY[fam], p) as r, src.udp(to=(addr, p)) as conn, src.udp(L.ANY[fam], 0) as free:
                r.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20)
                free.sendto(b"first", (addr, p))  # what waits for the gateway's MAC is sent out of order
                assert r.recv(10) == b"first"
                for s in (conn, free):
                    want = [b"" if n % 3 == 0 else b"%d" % n * (n % 7) for n in range(200)]
                    for data in want:
                        s.sendto(data, (addr, p)) if s is free else s.send(data)
                    got = [r.recvfrom(2000) for _ in want]
                    assert [g[0] for g in got] == want
                    r.sendto(b"", got[0][1])
                    assert s.recv(10) == b""
                    r.sendto(b"end", got[0][1])
                    assert s.recv(10) == b"end"


@FAM
def test_quic_like_runs(lab, fam):
    """Runs of 40 datagrams of 1200 bytes, as QUIC hands them over, 2,000 of them each way: in order, none cut or joined."""
    p, seg, cnt = L.port(), 1200, 40
    with lab.start("-u", str(p)) as i:
        for src, dst, addr in ((i.ct, lab.peer, L.PEER[fam]), (lab.peer, i.ct, L.HST[fam])):
            with dst.udp(L.ANY[fam], p) as r, src.udp(to=(addr, p)) as s:
                r.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
                r.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
                s.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, seg)
                n = calls = 0
                for k in range(50):
                    s.send(b"".join(struct.pack(">I", k * cnt + j) * (seg // 4) for j in range(cnt)))
                    while n < (k + 1) * cnt:  # the receiver keeps pace, so that nothing may be lost
                        data, anc, _, _ = r.recvmsg(70000, 100)
                        step = struct.unpack("i", anc[0][2])[0] if anc else len(data)
                        assert step == seg and len(data) % seg == 0, (len(data), step)
                        for off in range(0, len(data), seg):
                            assert data[off:off + seg] == struct.pack(">I", n) * (seg // 4), (n, src.label)
                            n += 1
                        calls += 1
                assert calls < n / 4, f"{calls} calls for {n} datagrams: the runs were taken apart"


@FAM
@pytest.mark.parametrize("way", ["out", "in"])
def test_iperf3_udp(lab, fam, way):
    """iperf3 -u with both kinds of flow in one program: control by TCP, data by UDP."""
    p = L.port()
    with lab.start("-t", str(p), "-u", str(p)) as i:
        srv, cli, addr = (lab.peer, i.ct, L.PEER[fam]) if way == "out" else (i.ct, lab.peer, L.HST[fam])
        proc = srv.spawn("iperf3", "-s", "-1", "-p", str(p), stdout=-1)
        until("iperf3 listens", lambda: f":{p} " in lab.out(*srv.prefix, "ss", "-Hltn"))
        r = cli.run("iperf3", "-c", addr, "-p", str(p), "-u", "-b", "40M", "-t", "1", "-l", "1200", "-J")
        end = json.loads(r.stdout)["end"]["sum"]
        assert end["packets"] > 3000 and end["lost_percent"] < 5, end
        proc.wait(10)
