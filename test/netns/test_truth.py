# SPDX-License-Identifier: BSD-3-Clause
"""The container's applications hear what the network says: why a connect failed, who is still there, which class."""
import errno
import time

import pytest

import lab as L

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
