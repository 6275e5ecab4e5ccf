# SPDX-License-Identifier: BSD-3-Clause
"""The container's applications hear what the network says: why a connect failed, who is still there, which class."""
import errno
import os
import time

import pytest

import lab as L
from nsnet import echo, until
from test_limits import cpu_seconds

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
        began = time.monotonic()
        with pytest.raises(ConnectionResetError), lab.peer.connect(L.HST[fam], p) as s:
            s.recv(1)
        # at 0, 1 and 2 s; given up 2 s after that
        assert 3.9 < time.monotonic() - began < 5
        assert "counter packets 4" in i.ct.run("nft", "list", "ruleset").stdout  # and the reset
