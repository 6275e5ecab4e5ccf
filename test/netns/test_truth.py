# SPDX-License-Identifier: BSD-3-Clause
"""The container's applications hear what the network says: why a connect failed, who is still there, which class."""
import errno
import fcntl
import os
import select
import socket
import struct
import time

import pytest

import lab as L
from nsnet import Task, echo, measured, until
from test_limits import cpu_seconds

SIOCATMARK = 0x8905
FAM = pytest.mark.parametrize("fam", [4, 6], ids=["v4", "v6"])
NET = {4: "198.51.100.%d", 6: "2001:db8:2::%x"}  # behind the peer
SILENT = {4: "10.77.0.99", 6: "fd77::99"}  # on the link, but nobody is there
REJECTS = {4: ["net-unreachable", "host-unreachable", "prot-unreachable", "port-unreachable", "net-prohibited",
               "host-prohibited", "admin-prohibited"],
           6: ["no-route", "admin-prohibited", "addr-unreachable", "port-unreachable"]}


def why(ns, addr, port):
    """(errno of a connect, how long it took)"""
    began = time.monotonic()
    try:
        ns.connect(addr, port, timeout=20).close()
        got = 0
    except OSError as e:
        got = e.errno or errno.ETIMEDOUT  # Python's own time-out has none
    return got, time.monotonic() - began


def heard(code, fam):
    """What the container can see of an errno of the host: IPv4 has no ICMP error that Linux turns into EACCES, and EINVAL,
    what a blackhole route says, is no answer of a network."""
    if code == errno.EACCES and fam == 4:
        return errno.EHOSTUNREACH
    return errno.ENETUNREACH if code == errno.EINVAL else code


def compare(lab, inst, cases, fam, want=None):
    """Connect from the host's namespace and from the container; both must fail alike, and as fast."""
    bad = []
    for what, addr, port in cases:
        host, host_secs = why(lab.hst, addr, port)
        cont, cont_secs = why(inst.ct, addr, port)
        names = [errno.errorcode.get(e, e) for e in (host, cont)]
        print(what, *names, f"{host_secs:.3f} {cont_secs:.3f}")
        if not host or cont != heard(host, fam) or cont_secs > host_secs + .9:
            bad.append((what, *names, host_secs, cont_secs))
        if want and what in want and host != want[what]:
            bad.append((what, names[0], "is not what this test is about"))
    assert not bad


@FAM
def test_connect_errno_routes(own_lab, fam):
    """TCP-24: refused, and each kind of route that leads nowhere."""
    lab, v = own_lab, f"-{fam}"
    kinds = {"unreachable": errno.EHOSTUNREACH, "prohibit": errno.EACCES, "blackhole": errno.EINVAL}
    with lab.start() as i:
        for n, kind in enumerate(kinds):
            lab.hst.run("ip", v, "route", "add", kind, NET[fam] % (50 + n))
        cases = [(k, NET[fam] % (50 + n), 80) for n, k in enumerate(kinds)] + [("refused", L.PEER[fam], L.port())]
        compare(lab, i, cases, fam, dict(kinds, refused=errno.ECONNREFUSED))
        lab.hst.run("ip", v, "route", "del", "default")
        compare(lab, i, [("no route", NET[fam] % 60, 80)], fam, {"no route": errno.ENETUNREACH})


@FAM
def test_connect_errno_no_network(bare_lab, fam):
    """A host without any network, the container's routes are its own: there is not even a router to say so."""
    lab = bare_lab
    addr = ["-a", "10.9.0.2"] if fam == 4 else ["-a", "fd09::2"]
    with lab.start(f"-{fam}", *addr, config=False) as i:
        i.ct.run("ip", "link", "set", i.tap, "up")
        i.ct.run("ip", "addr", "add", addr[1] + ("/24" if fam == 4 else "/64"), "dev", i.tap, *(["nodad"] if fam == 6 else []))
        i.ct.run("ip", f"-{fam}", "route", "add", "default", "dev", i.tap)
        compare(lab, i, [("no network", NET[fam] % 1, 80)], fam, {"no network": errno.ENETUNREACH})


@FAM
@pytest.mark.heavy
def test_connect_errno_silent_neighbour(lab, fam):
    """Nobody answers on the link: the kernel takes about three seconds to say so."""
    with lab.start() as i:
        compare(lab, i, [("silent", SILENT[fam], 80)], fam, {"silent": errno.EHOSTUNREACH})


@FAM
def test_connect_errno_firewall(own_lab, fam):
    """Each way in which a firewall of the host rejects."""
    lab, cases, rules = own_lab, [], ["add table inet t", "add chain inet t o { type filter hook output priority 0; }"]
    icmp = "icmp" if fam == 4 else "icmpv6"
    for n, kind in enumerate([*REJECTS[fam], "tcp reset"]):
        how = f"with {icmp} type {kind}" if kind != "tcp reset" else "with tcp reset"
        rules.append(f"add rule inet t o tcp dport {7000 + n} reject {how}")
        cases.append((kind, L.PEER[fam], 7000 + n))
    with lab.start() as i:
        lab.hst.run("nft", "-f", "-", input="\n".join(rules) + "\n")
        compare(lab, i, cases, fam, {"port-unreachable": errno.ECONNREFUSED, "tcp reset": errno.ECONNREFUSED})


@FAM
def test_inbound_refused(lab, fam):
    """TCP-33: nobody listens in the container: the client, connected to the host's port already, hears it at once."""
    p = L.port()
    with lab.start("-t", str(p)):
        why(lab.peer, L.HST[fam], 9)  # peer and host know each other's link addresses from here on
        for _ in range(3):
            began = time.monotonic()
            with pytest.raises(ConnectionResetError), lab.peer.connect(L.HST[fam], p) as s:
                s.recv(1)
            assert time.monotonic() - began < .5


def sockets(inst):
    count = 0
    for name in os.listdir(f"/proc/{inst.pid}/fd"):
        try:
            count += os.readlink(f"/proc/{inst.pid}/fd/{name}").startswith("socket:")
        except FileNotFoundError:  # closed meanwhile
            pass
    return count


@FAM
def test_inbound_half_open(own_lab, fam):
    """A container that answers no SYN: 512 connections of a published port wait in the program, the rest in the kernel's
    queue. Nothing spins; other ports work; when the container answers, all are served."""
    lab, p, other, count = own_lab, L.port(), L.port(), 600
    with lab.start("-t", f"{p},{other}") as i, i.ct.serve(L.ANY[fam], p, echo), i.ct.serve(L.ANY[fam], other, echo):
        i.ct.run("nft", "-f", "-", input=f"add table inet t\nadd chain inet t i {{ type filter hook input priority 0; }}\n"
                 f"add rule inet t i tcp dport {p} drop\n")
        base = sockets(i)
        clients = [lab.peer.connect(L.HST[fam], p) for _ in range(count)]
        until(lambda: f"{sockets(i) - base} connections taken", lambda: sockets(i) - base == 512)
        used = cpu_seconds(i.pid)
        time.sleep(1)  # that nothing happens has no other sign
        assert cpu_seconds(i.pid) - used < .3, "spins while connections wait"
        assert sockets(i) - base == 512
        with lab.peer.connect(L.HST[fam], other) as s:
            s.sendall(b"x")
            assert s.recv(1) == b"x"
        i.ct.run("nft", "flush", "ruleset")
        for s in clients:
            s.sendall(b"y")
        for s in clients:
            assert s.recv(1) == b"y"
        for s in clients:
            s.close()
        until(lambda: f"{sockets(i) - base} sockets left", lambda: sockets(i) <= base)


@FAM
def test_inbound_syn_again(own_lab, fam):
    """TCP-34: SYNs come again as often, and as far apart, as the host's own kernel would send them."""
    lab, p = own_lab, L.port()
    lab.hst.sysctl("net.ipv4.tcp_syn_retries", 1)
    lab.hst.sysctl("net.ipv4.tcp_syn_linear_timeouts", 1)
    with lab.start("-t", str(p)) as i:
        i.ct.run("nft", "-f", "-", input="add table inet t\nadd chain inet t i { type filter hook input priority 0; }\n"
                 f"add rule inet t i tcp dport {p} counter drop\n")
        why(lab.peer, L.HST[fam], 9)  # peer and host know each other's link addresses from here on
        tries = []

        def attempt():
            began = time.monotonic()
            with pytest.raises(ConnectionResetError), lab.peer.connect(L.HST[fam], p) as s:
                s.recv(1)
            tries.append(time.monotonic() - began)
            # three SYNs, and the reset
            assert f"counter packets {4 * len(tries)} " in i.ct.run("nft", "list", "ruleset").stdout
            return tries[-1]
        # at 0, 1 and 2 s; given up 2 s after that
        measured("seconds until it is given up", lambda t: 3.9 < t < 5, attempt)


class Sniff:
    """Traffic classes of TCP packets as they pass a device: a set for each (port from, port to) of 0 for any."""

    def __init__(self, ns, dev):
        self.sock = ns.sock(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.sock.bind((dev, 3))
        self.sock.setblocking(False)
        self.seen = []

    def classes(self, src=0, dst=0, data=False):
        """What went from port SRC to port DST so far; `data`: only packets with payload."""
        while True:
            try:
                p = self.sock.recv(200)[14:]
            except BlockingIOError:
                break
            if p[0] >> 4 == 4 and p[9] == 6:
                tos, tcp, size = p[1], p[(p[0] & 15) * 4:], struct.unpack_from("!H", p, 2)[0] - (p[0] & 15) * 4
            elif p[0] >> 4 == 6 and p[6] == 6:
                tos, tcp, size = (p[0] << 4 | p[1] >> 4) & 255, p[40:], struct.unpack_from("!H", p, 4)[0]
            else:
                continue
            self.seen.append((*struct.unpack_from("!HH", tcp), size > (tcp[12] >> 4) * 4, tos & 0xfc))
        return {t for s, d, full, t in self.seen if src in (0, s) and dst in (0, d) and (full or not data)}

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *a):
        self.close()


def set_class(s, tos):
    if s.family == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, tos)
    else:
        s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)


@FAM
def test_class_out(lab, fam):
    """UDP-50 for TCP: the DSCP of the container's connection is that of the host's, from the SYN on, and may change."""
    p = L.port()
    with lab.start() as i, lab.peer.serve(L.PEER[fam], p, echo), Sniff(lab.peer, "e0") as net:
        s = i.ct.sock(socket.AF_INET6 if fam == 6 else socket.AF_INET, socket.SOCK_STREAM)
        with s:
            s.settimeout(10)
            set_class(s, 0xb8)
            s.connect((L.PEER[fam], p))
            s.sendall(b"x")
            assert s.recv(1) == b"x"
            assert net.classes(dst=p) == {0xb8}
            set_class(s, 0x28)
            s.sendall(b"y" * 100000)
            left = 100000
            while left:
                left -= len(s.recv(left))
            assert net.classes(dst=p, data=True) == {0xb8, 0x28}


@FAM
@pytest.mark.parametrize("any_family", [True, False], ids=["any", "one"])
def test_class_in(lab, fam, any_family):
    """A client's DSCP is what the container sees, and the other way round; on a listener of both families too."""
    p = L.port()
    spec = f"{p}" if any_family else f"{L.HST[fam]}/{p}"

    def answer(s, _peer):
        set_class(s, 0x48)
        echo(s, _peer)
    with lab.start("-t", spec) as i, i.ct.serve(L.ANY[fam], p, answer), Sniff(lab.peer, "e0") as net, \
            Sniff(i.ct, i.tap) as tap:
        with lab.peer.sock(socket.AF_INET6 if fam == 6 else socket.AF_INET, socket.SOCK_STREAM) as s:
            s.settimeout(10)
            set_class(s, 0x88)
            s.connect((L.HST[fam], p))
            s.sendall(b"x")
            assert s.recv(1) == b"x"
            assert tap.classes(dst=p) == {0x88}
            assert net.classes(src=p, data=True) == {0x48}
        with lab.peer.connect(L.HST[fam], p) as s:
            s.sendall(b"x")
            assert s.recv(1) == b"x"
        assert tap.classes(dst=p) == {0x88, 0}


@pytest.mark.first
@FAM
@pytest.mark.heavy
def test_keep_alive_passes(own_lab, fam):
    """TCP-57: a container that probes its peer makes the host's kernel probe as well, and hears when the peer is dead."""
    lab, p = own_lab, L.port()
    with lab.start() as i, lab.peer.serve(L.PEER[fam], p, echo):
        with i.ct.connect(L.PEER[fam], p) as s:
            s.sendall(b"x")
            assert s.recv(1) == b"x"

            def timer():
                return lab.out(*lab.hst.prefix, "ss", "-tnoH", "dport", "=", str(p))
            assert "keepalive" not in timer()
            for opt, value in ((socket.TCP_KEEPIDLE, 1), (socket.TCP_KEEPINTVL, 1)):
                s.setsockopt(socket.IPPROTO_TCP, opt, value)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            # two probes show how patient the container is; the timer then counts seconds, not hours
            until(lambda: f"keep-alive of a second: {timer()}", lambda: "keepalive" in timer() and "min" not in timer())
            lab.peer.run("nft", "-f", "-", input="add table inet t\nadd chain inet t i { type filter hook input priority 0; }\n"
                         f"add rule inet t i tcp dport {p} drop\n")
            s.settimeout(30)
            with pytest.raises(OSError) as e:
                s.recv(1)
            assert e.value.errno in (errno.ECONNRESET, errno.ETIMEDOUT)


@FAM
def test_small_writes_wait_for_nothing(lab, fam):
    """TCP_NODELAY semantics: one small write after the other is on its way at once, in both directions."""
    p = L.port()
    with lab.start("-t", str(p)) as i, lab.peer.serve(L.PEER[fam], p, echo), i.ct.serve(L.ANY[fam], p, echo):
        for ns, addr in ((i.ct, L.PEER[fam]), (lab.peer, L.HST[fam])):
            with ns.connect(addr, p) as s:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                s.sendall(b"warm")
                assert s.recv(4) == b"warm"

                def rounds():
                    began = time.monotonic()
                    for _ in range(50):
                        for c in (b"a", b"b", b"c"):
                            s.sendall(c)
                        got = b""
                        while len(got) < 3:
                            got += s.recv(3)
                        assert got == b"abc"
                    return time.monotonic() - began
                measured("seconds of 50 rounds; a delayed ACK of 40 ms in each would make 2", lambda t: t < 1.5, rounds)


def exactly(sock, size):
    got = b""
    while len(got) < size:
        more = sock.recv(size - len(got))
        assert more, f"the end after {got}"
        got += more
    return got


def at_mark(sock):
    buf = bytearray(4)
    fcntl.ioctl(sock, SIOCATMARK, buf)
    return any(buf)


def until_mark(sock):
    """What stands before the mark; a read of what is there never crosses it."""
    p = select.poll()
    p.register(sock, select.POLLIN | select.POLLPRI)
    got = b""
    while True:
        assert p.poll(5000), f"no urgent data after {got[-20:]}"
        if at_mark(sock):
            return got
        got += sock.recv(65536)


@FAM
@pytest.mark.parametrize("way", ["out", "in"])
def test_urgent(lab, fam, way):
    """The mark of MSG_OOB passes, at its place among the bytes, and the receiver chooses how to read it."""
    p = L.port()
    with lab.start("-t", str(p)) as i:
        src_ns, srv_ns, addr = (i.ct, lab.peer, L.PEER[fam]) if way == "out" else (lab.peer, i.ct, L.HST[fam])
        with srv_ns.listen(addr if way == "out" else L.ANY[fam], p) as srv, src_ns.connect(addr, p) as src:
            dst, _ = srv.accept()
            with dst:
                dst.settimeout(10)
                src.sendall(b"before")
                src.send(b"urgent!", socket.MSG_OOB)
                src.sendall(b"after")
                assert until_mark(dst) == b"beforeurgent"
                assert dst.recv(1, socket.MSG_OOB) == b"!"
                assert exactly(dst, 5) == b"after"
                dst.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
                for size in (1, 5, 200000):  # more than a frame before it
                    task = Task(lambda size=size: (src.sendall(b"x" * size), src.send(b"Y", socket.MSG_OOB), src.sendall(b"z" * 9)))
                    assert until_mark(dst) == b"x" * size
                    assert exactly(dst, 10) == b"Y" + b"z" * 9
                    task.result()
                src.sendall(b"no more")
                assert exactly(dst, 7) == b"no more" and not at_mark(dst)


@FAM
def test_debug_names_flows(lab, fam):
    """FLOW-7: with -d each new flow is a line with the addresses that the container sees, or each side's own if it is spliced;
    without it there is none."""
    p, q, s, lo = L.port(), L.port(), L.port(), L.LO[fam]
    for opts in (["-d"], []):
        with lab.start("-t", str(p), "-T", f"{s}:{q}", "-U", f"{s}:{q}", *opts, mode="pid", fg=True) as i:
            with i.ct.listen(L.ANY[fam], p), lab.peer.listen(L.PEER[fam], q), lab.peer.connect(L.HST[fam], p, src=L.PEER[fam]) as a, \
                    i.ct.connect(L.PEER[fam], q) as b, i.ct.udp(to=(L.PEER[fam], q)) as c, lab.hst.listen(lo, q), \
                    i.ct.connect(lo, s) as d, i.ct.udp(to=(lo, s)) as e, lab.hst.connect(lo, p) as f:
                c.send(b"x")
                e.send(b"x")
                want = [f"{proto}, guest {near[0]} port {near[1]}, far side {L.PEER[fam]} port {far}" for proto, near, far in
                        (("TCP", (L.HST[fam], p), a.getsockname()[1]), ("TCP", b.getsockname(), q), ("UDP", c.getsockname(), q))]
                want += [f"{proto}, guest {near[0]} port {near[1]}, far side {lo} port {far}" for proto, near, far in
                         (("TCP", d.getsockname(), q), ("UDP", e.getsockname(), q), ("TCP", (L.HST[fam], p), f.getsockname()[1]))]
                if opts:
                    until(lambda: f"{want} in {i.stderr()}", lambda: all(w in i.stderr() for w in want))
            assert "flow" not in i.stderr() or opts
            assert "tcp phase" not in i.stderr()  # that is for --trace
