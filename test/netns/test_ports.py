# SPDX-License-Identifier: BSD-3-Clause
"""Published ports: what is bound where, what leads where, what is said about a port that can't be had, and what waits for an
interface or address that comes later. One test per recipe of the reports (C02, C03, ...), and some for our own promises."""
import os
import re
import resource
import socket
import threading
import time

import pytest

import lab as L
from nsnet import Ns, UdpServer, measured, until
from test_limits import cpu_seconds

FAM = pytest.mark.parametrize("fam", [4, 6], ids=["v4", "v6"])
PROTO = pytest.mark.parametrize("proto", ["tcp", "udp"])
OPT = {"tcp": "-t", "udp": "-u"}
LATE = {4: "198.51.100.77", 6: "2001:db8:77::7"}
ONLY = ["-t", "none", "-u", "none", "-T", "none", "-U", "none"]


def spec(addr, *more):
    return (f"[{addr}]" if ":" in addr else addr) + "/" + "".join(str(m) for m in more)


class Serve:
    """A server in a namespace that answers with its own port."""

    def __init__(self, proto, ns, addr, port):
        text = f"port {port}".encode()
        self.srv = ns.serve(addr, port, lambda s, _peer: s.sendall(text)) if proto == "tcp" else \
            UdpServer(ns.udp(addr, port), lambda _data, _peer: text)

    def __enter__(self):
        return self

    def __exit__(self, *a):
        self.srv.close()


def ask(proto, ns, addr, port, timeout=3):
    """The port of the server that answers; None: nobody, or refused."""
    try:
        s = ns.connect(addr, port, timeout=timeout) if proto == "tcp" else ns.udp(to=(addr, port), timeout=timeout)
    except OSError:
        return None
    with s:
        try:
            if proto == "udp":
                s.send(b"?")
            text = s.recv(100).decode()
        except OSError:
            return None
    return int(text.split()[1]) if text else None


def fds(inst):
    return len(os.listdir(f"/proc/{inst.pid}/fd"))


def timed(invoke):
    """Run the program to its good and silent end: seconds, and seconds of CPU, which do not depend on what runs beside us."""
    def used():
        u = resource.getrusage(resource.RUSAGE_CHILDREN)
        return u.ru_utime + u.ru_stime
    begin, before = time.monotonic(), used()
    r = invoke()
    assert (r.returncode, r.stderr) == (0, "")
    return time.monotonic() - begin, used() - before


def link(lab, name):
    """Another link between hst (NAME) and peer."""
    lab.ip("link", "add", name, "netns", lab.hst.name, "type", "veth", "peer", "name", name + "p", "netns", lab.peer.name)
    lab.batch(lab.peer, f"addr add 10.79.0.1/24 dev {name}p", f"addr add fd79::1/64 dev {name}p nodad", f"link set {name}p up")
    lab.batch(lab.hst, f"addr add 10.79.0.2/24 dev {name}", f"addr add fd79::2/64 dev {name} nodad", f"link set {name} up")


# -- what leads where

@FAM
@PROTO
def test_ranges_exclusions_and_mapped_ports(own_lab, fam, proto):
    lab, p, q = own_lab, L.port(), L.port() + 20000
    for _ in range(4):
        L.port()
    with lab.start(OPT[proto], f"{p}-{p + 3}:{q}-{q + 3},~{p + 1}") as i:
        for n in range(4):
            with Serve(proto, i.ct, L.ANY[fam], q + n):
                assert ask(proto, lab.peer, L.HST[fam], p + n, .5 if n == 1 else 3) == (None if n == 1 else q + n)


@FAM
@PROTO
def test_listening_address(own_lab, fam, proto):
    """On one address of several, and of one family; the same port of the others leads elsewhere (R19)."""
    lab, p, q = own_lab, L.port(), L.port() + 20000
    other = 10 - fam
    with lab.start(OPT[proto], spec(L.HST2[fam], p, ":", q), OPT[proto], spec(L.HST[fam], p, ":", q + 1),
                   OPT[proto], spec(L.ANY[other], p, ":", q + 2)) as i:
        with Serve(proto, i.ct, L.ANY[fam], q), Serve(proto, i.ct, L.ANY[fam], q + 1), Serve(proto, i.ct, L.ANY[other], q + 2):
            assert ask(proto, lab.peer, L.HST2[fam], p) == q
            assert ask(proto, lab.peer, L.HST[fam], p) == q + 1
            assert ask(proto, lab.peer, L.HST[other], p) == q + 2
            assert ask(proto, lab.hst, L.LO[fam], p, .5) is None


@PROTO
def test_both_wildcards_beside_each_other(own_lab, proto):
    lab, p, q = own_lab, L.port(), L.port() + 20000
    with lab.start(OPT[proto], f"0.0.0.0/{p}:{q}", OPT[proto], f"[::]/{p}:{q + 1}") as i:
        for fam in (4, 6):
            with Serve(proto, i.ct, L.ANY[fam], q + (fam == 6)):
                assert ask(proto, lab.peer, L.HST[fam], p) == q + (fam == 6)


@PROTO
def test_one_socket_serves_both_families(own_lab, proto):
    """Whatever net.ipv6.bindv6only says."""
    lab, p = own_lab, L.port()
    lab.hst.sysctl("net.ipv6.bindv6only", 1)
    with lab.start(*ONLY, mode="pid") as i:
        none = fds(i)
    with lab.start(*ONLY, "--no-splice", OPT[proto], str(p), mode="pid") as i:
        assert fds(i) == none + 1
        for fam in (4, 6):
            with Serve(proto, i.ct, L.ANY[fam], p):
                assert ask(proto, lab.peer, L.HST[fam], p) == p


@FAM
@PROTO
def test_target_address(own_lab, fam, proto):
    """A service on one particular address of the namespace."""
    lab, p, q = own_lab, L.port(), L.port() + 20000
    target = {4: "10.99.0.5", 6: "fd99::5"}[fam]
    with lab.start(OPT[proto], spec(L.ANY[fam], p, ":", target, "/", q)) as i:
        lab.batch(i.ct, f"addr add {target}/{32 if fam == 4 else '128 nodad'} dev {i.tap}")
        with Serve(proto, i.ct, target, q):
            assert ask(proto, lab.peer, L.HST[fam], p) == q


@FAM
@PROTO
def test_interfaces(own_lab, fam, proto):
    """The same port of two interfaces leads to two services."""
    lab, p, q = own_lab, L.port(), L.port() + 20000
    link(lab, "up7")
    with lab.start(OPT[proto], f"%up0/{p}:{q}", OPT[proto], f"%up7/{p}:{q + 1}") as i:
        with Serve(proto, i.ct, L.ANY[fam], q), Serve(proto, i.ct, L.ANY[fam], q + 1):
            assert ask(proto, lab.peer, L.HST[fam], p) == q
            assert ask(proto, lab.peer, {4: "10.79.0.2", 6: "fd79::2"}[fam], p) == q + 1
            assert ask(proto, lab.hst, L.LO[fam], p, .5) is None


# -- what can't be had

@FAM
@PROTO
def test_C13_port_in_use(own_lab, fam, proto):
    """Protocol, address, port, why, and who, in one line."""
    lab, p = own_lab, L.port()
    name = f"{proto.upper()} port {p} on {L.HST[fam]}: Address already in use"
    kind = f"{proto.upper()}{fam}" + ("-LISTEN" if proto == "tcp" else "-RECV")
    with lab.hst.listen(L.ANY[fam], p) if proto == "tcp" else lab.hst.udp(L.ANY[fam], p):
        r = lab.invoke("--config-net", OPT[proto], spec(L.HST[fam], p - 1, ",", p), "--", "true")
        assert (r.returncode, r.stdout, r.stderr.count("\n")) == (1, "", 1)
        assert f"{name}; a program of user 0 uses it" in r.stderr
    own = lab.spawn(*lab.hst.prefix, *L.AS_USER, "socat", f"{kind}:{p}{',ipv6only' if fam == 6 else ''}", "-", stdin=-1)
    until("socat listens", lambda: f":{p} " in lab.out(*lab.hst.prefix, "ss", "-Hln" + proto[0]))
    r = lab.invoke("--config-net", OPT[proto], spec(L.HST[fam], p), "--", "true")
    assert r.returncode == 1 and f"{name}; socat (process {own.pid}) uses it" in r.stderr


@PROTO
def test_port_in_use_inside(own_lab, proto):
    lab, p = own_lab, L.port()
    _, hold = lab.holder(["unshare", "-rUn"])
    ct = Ns(f"/proc/{hold.pid}/ns/net", "ct", lab)
    with ct.listen("0.0.0.0", p) if proto == "tcp" else ct.udp("0.0.0.0", p):
        r = lab.invoke("-f", "-q", OPT[proto].upper(), str(p), str(hold.pid))
    ct.close()
    assert (r.returncode, r.stdout, r.stderr.count("\n")) == (1, "", 1)
    assert f"{proto.upper()} port {p} on the namespace's loopback: Address already in use; " in r.stderr


def test_own_rules_that_overlap(own_lab):
    r = own_lab.invoke("-t", "8000-8010", "-t", "127.0.0.1/8005", "--", "true")
    assert (r.returncode, r.stdout) == (1, "")
    assert r.stderr == ("--tcp-ports: overlap of TCP port 8005 on 127.0.0.1 and, given before, "
                        "TCP ports 8000 to 8010 on any address\n")


@PROTO
def test_C05_privileged_ports(own_lab, proto):
    """Refused with what helps; both things that are named do help."""
    lab = own_lab
    argv = ["--config-net", *ONLY, OPT[proto], "22", "--", "true"]
    r = lab.invoke(*argv)
    assert (r.returncode, r.stdout, r.stderr.count("\n")) == (1, "", 1)
    assert f"{proto.upper()} port 22 on any address: Permission denied" in r.stderr
    assert "CAP_NET_BIND_SERVICE" in r.stderr and "sysctl -w net.ipv4.ip_unprivileged_port_start=22" in r.stderr
    cap = ["setpriv", *L.AS_USER[1:4], "--inh-caps=-all,+net_bind_service", "--ambient-caps=-all,+net_bind_service"]
    r = lab.invoke(*argv, user=False, wrap=cap)
    assert (r.returncode, r.stderr) == (0, "")
    lab.hst.sysctl("net.ipv4.ip_unprivileged_port_start", 22)
    with lab.start(OPT[proto], "22") as i, Serve(proto, i.ct, "0.0.0.0", 22):
        assert ask(proto, lab.peer, L.HST[4], 22) == 22


def test_C15_other_protocols_are_no_ports(own_lab):
    r = own_lab.invoke("-t", "8080/sctp", "--", "true")
    assert r.returncode == 1 and "expected a port" in r.stderr


# -- many

@pytest.mark.heavy
@pytest.mark.parametrize("opts", [["-t", "10000-24999"], ["-u", "10000-24999"], ["-t", "10000-17499", "-u", "10000-17499"]],
                         ids=["tcp", "udp", "both"])
def test_C03_many_ports(own_lab, opts, record_property):
    """15,000 ports: up in less than a second, with little memory, all of them work, and they cost nothing while idle."""
    lab = own_lab
    limit = ["prlimit", "--nofile=1024:20000"]
    took, cpu = measured("seconds of a start, of CPU", lambda t: lab.tools.sanitized or t[1] < .7,
                         lambda: timed(lambda: lab.invoke("--config-net", *ONLY, *opts, "--", "true", wrap=limit)))
    with lab.start(*ONLY, *opts, wrap=limit) as i:
        assert fds(i) >= 15000
        record_property("figure", f"15,000 published ports, {' '.join(opts)}: {took:.2f} s ({cpu:.2f} s of CPU), {i.rss_kib()} KiB")
        if not lab.tools.sanitized:
            assert i.rss_kib("VmHWM") < 32768
        for opt, ports in zip(opts[::2], opts[1::2]):
            proto, (first, last) = "tcp" if opt == "-t" else "udp", map(int, ports.split("-"))
            for fam, p in ((4, first), (6, (first + last) // 2), (4, last)):
                with Serve(proto, i.ct, L.ANY[fam], p):
                    assert ask(proto, lab.peer, L.HST[fam], p) == p
        cpu = cpu_seconds(i.pid)
        time.sleep(.5)  # that nothing happens has no other sign
        assert cpu_seconds(i.pid) - cpu < .05


@pytest.mark.parametrize("opts,ports", [(["-t", "1024-65535", "-u", "1024-65535"], 129024), (["-t", "10000-13999", "-T", "1-99"], 4099),
                                        (["-u", "10000-14095"], 4096)], ids=["C03", "inside", "edge"])
def test_C03_range_that_cannot_fit(own_lab, opts, ports):
    """Refused with one line that names the limit that it takes; with that it starts."""
    r = own_lab.invoke("--config-net", *ONLY, *opts, "--", "true", wrap=["prlimit", "--nofile=1024:4096"])
    assert (r.returncode, r.stdout, r.stderr.count("\n")) == (1, "", 1)
    m = re.match(rf"{ports} ports to forward need (\d+) open files, but the hard limit is 4096: raise it", r.stderr)
    assert m and ports < int(m[1]) < ports + 200
    if ports < 20000 - 200:
        r = own_lab.invoke("--config-net", *ONLY, *opts, "--", "true", wrap=["prlimit", f"--nofile={m[1]}:{m[1]}"])
        assert (r.returncode, r.stderr) == (0, "")


def test_all_takes_what_fits(own_lab):
    """Two of "all" share; what could not be had is one line for each kind, not for each port."""
    lab, p = own_lab, 1024
    with lab.start(*ONLY, "-t", "all", "-u", "all", wrap=["prlimit", "--nofile=464:464"], cmd=["sleep", "1000"],
                   wait=False) as i:
        until("all bound", lambda: i.stderr().count("open files") == 2 or not i.alive())
        text = i.stderr()
        assert 150 <= fds(i) <= 400, text
        for proto in ("TCP", "UDP"):
            assert f"Not forwarded: {proto} ports 1 to 1023 on any address: Permission denied" in text
            assert re.search(rf"^150 of \d+ {proto} ports forwarded: for all it takes \d+ open files, and the hard limit is 464", text, re.M)
        assert text.count("\n") == 4, text
        inside = Ns(f"/proc/{_child(i)}/ns/net", "ct", lab)
        try:
            for proto in ("tcp", "udp"):
                with Serve(proto, inside, "0.0.0.0", p + 149):
                    assert ask(proto, lab.peer, L.HST[4], p + 149) == p + 149
        finally:
            inside.close()


def _child(inst):
    def find():
        with open(f"/proc/{inst.pid}/task/{inst.pid}/children") as f:
            pids = f.read().split()
        return pids[0] if pids else None
    return until("the command runs", find)


def test_all_around_what_is_taken(own_lab):
    """Ports that others have are left out; what is left after exclusions is taken."""
    lab, p = own_lab, 20000 + L.port() % 1000
    text = f"~1-{p - 1},~{p + 10}-65535"
    taken = [lab.hst.listen("0.0.0.0", p + n) for n in (3, 5)]
    with lab.start(*ONLY, "-t", text) as i:
        assert f"Not forwarded: 2 of TCP ports {p + 3} to {p + 5} on any address: Address already in use" in i.stderr()
        with Serve("tcp", i.ct, "0.0.0.0", p + 4):
            assert ask("tcp", lab.peer, L.HST[4], p + 4) == p + 4
    for s in taken:
        s.close()


def test_C01_all_while_the_predecessor_ends(own_lab):
    """Many of the ports are in use, and free a moment later: whoever has them is asked for a little time."""
    lab, p = own_lab, 20000 + L.port() % 1000
    taken = [lab.hst.listen("0.0.0.0", p + n) for n in range(3)]
    timer = threading.Timer(.1, lambda: [s.close() for s in taken])
    timer.start()
    with lab.start(*ONLY, "-t", f"~1-{p - 1},~{p + 4}-65535") as i:
        timer.join()
        assert i.stderr() == ""
        with Serve("tcp", i.ct, "0.0.0.0", p):
            assert ask("tcp", lab.peer, L.HST[4], p) == p


def test_all_with_nothing_to_show(own_lab):
    r = own_lab.invoke(*ONLY, "-t", "~1024-65535", "--", "true")
    assert r.returncode == 1 and "None of 1023 TCP ports could be bound" in r.stderr


def test_C02_a_thousand_options(own_lab):
    """Single ports by the thousand; the one that is taken is named."""
    lab, opts = own_lab, []
    for n in range(500):
        opts += ["-t", str(20000 + 7 * n), "-u", str(20001 + 5 * n)]
    measured("seconds of a start, of CPU", lambda t: lab.tools.sanitized or t[1] < .3,
             lambda: timed(lambda: lab.invoke("--config-net", *opts, "--", "true")))
    with lab.hst.listen("0.0.0.0", 20000 + 7 * 321):
        r = lab.invoke("--config-net", *opts, "--", "true")
    assert r.returncode == 1 and f"TCP port {20000 + 7 * 321} on any address: Address already in use" in r.stderr


@pytest.mark.parametrize("without", [4, 6, None], ids=["only-v6", "only-v4", "dual"])
@pytest.mark.parametrize("opts", [["--ipv4-only"], []], ids=["ipv4-only", "both"])
def test_A24_best_effort_never_prevents_a_start(own_lab, without, opts):
    lab = own_lab
    if without == 6:
        lab.hst.sysctl("net.ipv6.conf.all.disable_ipv6", 1)
    elif without == 4:
        lab.batch(lab.hst, "addr flush dev up0 scope global")
    r = lab.invoke("--config-net", *opts, "--tcp-ports=auto", "--udp-ports=auto", "--", "true")
    assert (r.returncode, r.stderr) == (0, "")


# -- what comes later

@FAM
@PROTO
def test_C14_address_that_comes_later(own_lab, fam, proto):
    """One notice that it is waited for, one when it is there; the port is ours meanwhile; nothing is watched afterwards."""
    lab, p = own_lab, L.port()
    addr = LATE[fam] + {4: "/32", 6: "/128"}[fam]
    with lab.start(*ONLY, "-d", "--no-splice", OPT[proto], spec(LATE[fam], p, "-", p + 1), mode="pid", fg=True) as i:
        assert i.stderr().count(f"Not forwarded yet: {proto.upper()} ports {p} to {p + 1} on {LATE[fam]}: there is no such address") == 1
        watched = fds(i)
        with Serve(proto, i.ct, L.ANY[fam], p):
            lab.batch(lab.hst, f"addr add {addr} dev lo")
            until("notice", lambda: f"Now forwarded: {proto.upper()} ports {p} to {p + 1} on {LATE[fam]}\n" in i.stderr())
            lab.batch(lab.peer, f"{'-6 ' if fam == 6 else ''}route add {LATE[fam]} via {L.HST[fam]}")
            assert ask(proto, lab.peer, LATE[fam], p) == p
            assert fds(i) <= watched
            lab.batch(lab.hst, f"addr del {addr} dev lo")
            until("gone", lambda: ask(proto, lab.peer, LATE[fam], p, .3) is None)
            lab.batch(lab.hst, f"addr add {addr} dev lo")
            until("there again", lambda: ask(proto, lab.peer, LATE[fam], p, .3) == p)
        assert i.stderr().count("orwarded") - i.stderr().count("forwarded:") <= 2


@FAM
def test_address_that_comes_later_is_reserved(own_lab, fam):
    lab, p = own_lab, L.port()
    with lab.start(*ONLY, "-t", spec(LATE[fam], p)):
        lab.batch(lab.hst, f"addr add {LATE[fam]}/{32 if fam == 4 else 128} dev lo")
        with pytest.raises(OSError):
            lab.hst.listen(LATE[fam], p)


@FAM
@PROTO
def test_freebind_waits_in_silence(own_lab, fam, proto):
    lab, p = own_lab, L.port()
    with lab.start(*ONLY, "--freebind", OPT[proto], spec(LATE[fam], p)) as i:
        lab.batch(lab.hst, f"addr add {LATE[fam]}/{32 if fam == 4 else 128} dev lo")
        with Serve(proto, i.ct, L.ANY[fam], p):
            lab.batch(lab.peer, f"{'-6 ' if fam == 6 else ''}route add {LATE[fam]} via {L.HST[fam]}")
            assert ask(proto, lab.peer, LATE[fam], p) == p
        assert i.stderr() == ""


@PROTO
def test_interface_that_comes_later(own_lab, proto):
    """It comes, goes, and comes again under another number; link-local addresses belong to it, too."""
    lab, p, q = own_lab, L.port(), L.port() + 20000
    name = f"{proto.upper()} port {p} on any address of interface up8"
    with lab.start(*ONLY, "-d", OPT[proto], f"%up8/{p}:{q}", mode="pid", fg=True) as i:
        text = lambda: i.stderr().count(f"Not forwarded yet: {name}: there is no such interface"), lambda: i.stderr().count(f"Now forwarded: {name}")
        assert (text[0](), text[1]()) == (1, 0)
        for n in (1, 2):
            link(lab, "up8")
            until("served", lambda n=n: text[1]() == n)
            for fam in (4, 6):
                with Serve(proto, i.ct, L.ANY[fam], q):
                    assert ask(proto, lab.peer, {4: "10.79.0.2", 6: "fd79::2"}[fam], p) == q
                    assert ask(proto, lab.peer, L.HST[fam], p, .3) is None
            lab.batch(lab.hst, "link del up8")
            until("waits again", lambda n=n: text[0]() == n + 1)
        assert i.alive()


def test_link_local_address_of_an_interface_that_comes_later(own_lab):
    lab, p, q = own_lab, L.port(), L.port() + 20000
    with lab.start(*ONLY, "-d", "-t", f"[fe80::77]%up8/{p}:{q}", mode="pid", fg=True) as i:
        link(lab, "up8")
        until("the interface is seen", lambda: "up8" in i.stderr())
        lab.batch(lab.hst, "addr add fe80::77/64 dev up8 nodad")
        until("served", lambda: "Now forwarded" in i.stderr())
        with Serve("tcp", i.ct, "::", q):
            scope = lab.peer.call(lambda: socket.if_nametoindex("up8p"))
            with lab.peer.sock(socket.AF_INET6, socket.SOCK_STREAM) as s:
                s.settimeout(5)
                s.connect(("fe80::77", p, 0, scope))
                assert s.recv(100) == f"port {q}".encode()
    r = lab.invoke("-t", f"[fe80::77]/{p}", "--", "true")
    assert r.returncode == 1 and "a link-local address needs its interface" in r.stderr


def test_port_that_is_taken_when_the_interface_comes(own_lab):
    lab, p = own_lab, L.port()
    with lab.start(*ONLY, "-d", "-t", f"%up8/{p}", mode="pid", fg=True) as i:
        with lab.hst.listen("0.0.0.0", p):
            link(lab, "up8")
            until("said so", lambda: f"TCP port {p} on any address of interface up8: Address already in use" in i.stderr())
        assert "Now forwarded" not in i.stderr()
        lab.batch(lab.hst, "link del up8")
        link(lab, "up8")
        until("served", lambda: "Now forwarded" in i.stderr())


def test_nothing_is_watched_without_need(own_lab):
    """Only an instance with a rule that names an interface, other than lo, is told of all changes of the host's network; any
    other that has a link, of addresses and default routes."""
    lab, p = own_lab, L.port()

    def watches(*opts):
        with lab.start(*ONLY, *opts, mode="pid") as i:
            kernel = lab.out(*lab.hst.prefix, "cat", "/proc/net/netlink").split("\n")[1:-1]
            have = [os.readlink(f"/proc/{i.pid}/fd/{n}") for n in os.listdir(f"/proc/{i.pid}/fd")]
            return [x for x in kernel if f"socket:[{x.split()[-1]}]" in have]
    assert len(watches("-t", str(p), "-u", f"%lo/{p}", "-t", spec(L.HST[4], p + 1))) == 1
    assert not watches("-t", str(p), "--splice-only")
    assert len(watches("-t", f"%up0/{p}")) == 2
