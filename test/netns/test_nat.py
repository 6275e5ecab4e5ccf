# SPDX-License-Identifier: BSD-3-Clause
"""Address translation by the recipes of the problem reports: the host by its own address, by its aliases, through published
ports; what stays closed; resolvers. Every recipe that concerns addresses has its id in a test's name."""
import contextlib
import os
import re
import signal
import socket

import pytest

import lab as L
from nsnet import Task, UdpServer, checksum, hello, recv_bulk, refused, send_bulk, until
from test_addr import MAPPED, ask, servers, udp_ask

FAM = pytest.mark.parametrize("fam", [4, 6], ids=["v4", "v6"])
SHARED = pytest.mark.parametrize("addr", [L.HST, L.HST2], ids=["first", "second"])
IP_PKTINFO = 8
pytestmark = pytest.mark.xdist_group("nat")


def says(text):
    return lambda s, _: s.sendall(text.encode() + b"\n")


class FromWhereAsked:
    """A UDP socket on the IPv4 wildcard that answers from the address it was asked at, not from the interface's first one."""

    def __init__(self, sock):
        sock.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
        self.sock, self.info, self.settimeout, self.close = sock, {}, sock.settimeout, sock.close

    def recvfrom(self, size):
        data, more, _, peer = self.sock.recvmsg(size, 64)
        self.info[peer] = bytes(4) + more[0][2][8:12] + bytes(4)
        return data, peer

    def sendto(self, data, peer):
        self.sock.sendmsg([data], [(socket.IPPROTO_IP, IP_PKTINFO, self.info[peer])], 0, peer)


@contextlib.contextmanager
def service(ns, addr, port, name):
    """A TCP and a UDP service that tell their name."""
    udp = ns.udp(addr, port)
    with ns.serve(addr, port, says(name)), \
            UdpServer(FromWhereAsked(udp) if addr == L.ANY[4] else udp, lambda d, p: name.encode()):
        yield


def both(ns, addr, port, timeout=5):
    """Names that the TCP and the UDP service tell; None: not reached."""
    tcp, udp = ask(ns, addr, port, timeout), udp_ask(ns, addr, port, timeout=timeout)
    return tcp, udp and udp.decode()


def closed(ns, addr, port):
    """Both protocols are refused, at once."""
    if not refused(lambda: ns.connect(addr, port, timeout=5).close()):
        return False
    with ns.udp(to=(addr, port), timeout=5) as s:
        s.send(b"x")
        try:
            s.recv(1)
        except ConnectionRefusedError:
            return True
    return False


LO_ALIAS = {4: "169.254.1.3", 6: "fd99::3"}


@pytest.fixture(scope="module", autouse=True)
def strangers(lab):
    """Another machine of the network has what we use as aliases: who gets there, by mistake, is refused at once."""
    lab.batch(lab.peer, *(f"addr add {a[f]}/{bits} dev lo" for a in (MAPPED, LO_ALIAS) for f, bits in ((4, 32), (6, 128))))


@pytest.fixture(scope="module")
def own(lab):
    with lab.start("--host-own-addr", "--no-map-gw") as i:
        yield i


# -- the host by its own address (--host-own-addr)

@FAM
@SHARED
@pytest.mark.parametrize("bound", ["any", "own"])
def test_B01_A31_host_by_its_own_address(lab, own, fam, addr, bound):
    """The namespace shares the address: with no listener there, the host's is reached."""
    p = L.port()
    with service(lab.hst, L.ANY[fam] if bound == "any" else addr[fam], p, "host"):
        assert both(own.ct, addr[fam], p) == ("host", "host")


@FAM
def test_B01_own_address_is_refused_without_the_option(lab, fam):
    p = L.port()
    with lab.start() as i, service(lab.hst, L.ANY[fam], p, "host"):
        assert closed(i.ct, L.HST[fam], p)


@FAM
@SHARED
@pytest.mark.parametrize("bound", ["any", "own"])
def test_B01_listener_in_the_namespace_goes_first(lab, own, fam, addr, bound):
    """It may bind the port at any time, gets what is sent from then on, and the host gets it again when it has gone."""
    p = L.port()
    with service(lab.hst, L.ANY[fam], p, "host"):
        for _ in range(2):
            assert both(own.ct, addr[fam], p) == ("host", "host")
            with service(own.ct, L.ANY[fam] if bound == "any" else addr[fam], p, "namespace"):
                assert both(own.ct, addr[fam], p) == ("namespace", "namespace")
                assert ask(lab.peer, addr[fam], p) == "host"


@FAM
@SHARED
def test_B01_loopback_services_stay_closed(lab, own, fam, addr):
    p, q = L.port(), L.port()
    with servers(lab.hst, L.LO[fam], p):
        assert closed(own.ct, addr[fam], p)
    assert closed(own.ct, addr[fam], q)


@FAM
def test_B01_inside_as_before(lab, own, fam):
    """What the namespace's own programs say to each other by the shared address: addresses, sizes, a stream both ways, ping."""
    p, size = L.port(), 8 << 20
    with own.ct.serve(L.ANY[fam], p, lambda s, _: (send_bulk(s, size, 2), recv_bulk(s, size))) as srv:
        with own.ct.connect(L.HST[fam], p) as s:
            task = Task(send_bulk, s, size, 1)
            assert recv_bulk(s, size) == (size, checksum(size, 2))
            task.result()
    assert srv.seen[0][0] == L.HST[fam] and not srv.errors
    with UdpServer(own.ct.udp(L.ANY[fam], p)) as srv:
        for n in (0, 1, 1400, 40000, 65507 if fam == 4 else 65527):
            assert udp_ask(own.ct, L.HST[fam], p, b"z" * min(n, 65507)) == b"z" * min(n, 65507), n
        assert {peer[0] for _, peer in srv.seen} == {L.HST[fam]}
    assert " 0% packet loss" in own.ct.run("ping", "-n", "-c1", "-W5", L.HST[fam]).stdout
    # and by its loopback
    with service(own.ct, L.LO[fam], p, "loopback"):
        assert both(own.ct, L.LO[fam], p) == ("loopback", "loopback")


@FAM
def test_B01_much_data_to_the_host(lab, own, fam):
    p, size = L.port(), 8 << 20
    with lab.hst.serve(L.ANY[fam], p, lambda s, _: (send_bulk(s, size, 2), recv_bulk(s, size))) as srv:
        with own.ct.connect(L.HST[fam], p) as s:
            task = Task(send_bulk, s, size, 1)
            assert recv_bulk(s, size) == (size, checksum(size, 2))
            task.result()
    assert not srv.errors


@pytest.mark.parametrize("mode", L.MODES)
def test_B01_every_way_to_start(lab, mode):
    p = L.port()
    with lab.start("--host-own-addr", mode=mode, mtu=1500) as i:
        for fam in (4, 6):
            with service(lab.hst, L.ANY[fam], p, "host"):
                assert both(i.ct, L.HST[fam], p) == ("host", "host")
            with service(i.ct, L.ANY[fam], p, "namespace"):
                assert both(i.ct, L.HST[fam], p) == ("namespace", "namespace")


def test_B01_again_in_the_same_namespace(lab):
    """An instance that was killed leaves nothing behind that is in the way: not of the namespace, not of the next one."""
    p = L.port()
    opts = ["--config-net", "--host-own-addr", "-q", "-t", "none", "-u", "none", "-T", "none", "-U", "none"]
    with lab.start("--host-own-addr", mode="pid") as i:
        i.signal(signal.SIGKILL)
        i.gone(5)
        until("the device is gone", lambda: i.tap not in lab.out(*i.ct.prefix, "ip", "link"))
        i.ct.run("ip", "addr", "add", L.HST[4] + "/32", "dev", "lo")
        with service(i.ct, L.ANY[4], p, "namespace"):
            assert both(i.ct, L.HST[4], p) == ("namespace", "namespace")
        i.ct.run("ip", "addr", "del", L.HST[4] + "/32", "dev", "lo")
        pidfile = lab.file("pid")
        assert lab.invoke(*opts, "-P", pidfile, str(i.hold.pid)).returncode == 0
        with open(pidfile) as f:
            pid = int(f.read())
        try:
            for fam in (4, 6):
                with service(lab.hst, L.ANY[fam], p, "host"):
                    assert both(i.ct, L.HST[fam], p) == ("host", "host")
        finally:
            os.kill(pid, signal.SIGKILL)


# -- the same by other ways

@contextlib.contextmanager
def resolver(ns, addr, names):
    """dnsmasq on port 53 of one address."""
    srv = ns.spawn("dnsmasq", "--keep-in-foreground", "--no-resolv", "--no-hosts", "--conf-file=/dev/null", "--pid-file=", "--user=root",
                   "--bind-interfaces", f"--listen-address={addr}", *(f"--address=/{n}/{a}" for n, a in names))
    try:
        until("dnsmasq answers", lambda: lookup(ns, addr, names[0][0], names[0][1]))
        yield
    finally:
        srv.kill()
        srv.wait()


def lookup(ns, server, name, addr, *opts):
    kind = "AAAA" if ":" in addr else "A"
    return addr in ns.lab.out(*ns.prefix, "dig", "+short", "+tries=1", "+time=2", *opts, f"@{server}", name, kind).split()


@FAM
def test_B02_resolver_on_the_shared_address(lab, own, fam):
    """The host's resolv.conf names the host's own address: from inside it answers there, over UDP and TCP."""
    with resolver(lab.hst, L.HST[fam], [("a.test", L.FAR[fam])]):
        for opt in ("+notcp", "+tcp"):
            assert lookup(own.ct, L.HST[fam], "a.test", L.FAR[fam], opt), opt


@FAM
def test_B03_name_of_the_host(lab, own, fam):
    """A resolver of the network gives the host's own address for its name."""
    p = L.port()
    with resolver(lab.peer, L.PEER[fam], [("host.test", L.HST[fam])]), service(lab.hst, L.ANY[fam], p, "host"):
        assert lookup(own.ct, L.PEER[fam], "host.test", L.HST[fam])
        assert both(own.ct, L.HST[fam], p) == ("host", "host")


@FAM
def test_B04_port_of_another_instance(lab, own, fam):
    """What another instance publishes on the host is reached by the host's own address and by the mapped one."""
    p = L.port()
    with lab.start("-t", str(p), "-u", str(p)) as a, service(a.ct, L.ANY[fam], p, "other"), \
            lab.start("--map-guest-addr", MAPPED[4], "--map-guest-addr", MAPPED[6], mode="pid") as b:
        assert both(own.ct, L.HST[fam], p) == ("other", "other")
        assert both(b.ct, MAPPED[fam], p) == ("other", "other")


ACTIVATED = """
import socket
srv = socket.socket(fileno=0)
while True:
    s, _ = srv.accept()
    s.sendall(b"activated\\n")
    s.close()
"""


@FAM
def test_B05_socket_activated_service(lab, fam):
    """A listener that one process opened and another one serves, on port 443: by host address and by mapped address."""
    srv = lab.hst.listen(L.ANY[fam], 443)
    srv.setblocking(True)
    proc = lab.spawn("/usr/bin/python3", "-c", ACTIVATED, stdin=srv)
    srv.close()
    try:
        with lab.start("--host-own-addr", "--map-guest-addr", MAPPED[4], "--map-guest-addr", MAPPED[6]) as i:
            assert ask(i.ct, L.HST[fam], 443) == "activated"
            assert ask(i.ct, MAPPED[fam], 443) == "activated"
    finally:
        proc.kill()
        proc.wait()


INNER = {4: ("10.89.0.1", "10.89.0.2", 24), 6: ("fd89::1", "fd89::2", 64)}


@FAM
@pytest.mark.parametrize("masquerade", [True, False], ids=["masquerade", "routed"])
def test_B06_from_behind_a_bridge(own_lab, fam, masquerade):
    """A bridge with a second namespace inside: the host by its mapped address. The shared one is that of the namespace with the
    bridge: --host-own-addr is for its own programs only."""
    lab, p = own_lab, L.port()
    name = lab.hst.name + "i"
    with lab.start("--host-own-addr", "--map-guest-addr", MAPPED[4], "--map-guest-addr", MAPPED[6]) as i:
        inner = lab.netns(name, "inner")
        here, there, bits = INNER[fam]
        nodad = " nodad" if fam == 6 else ""
        lab.batch(i.ct, "link add br0 type bridge", f"link add b0 type veth peer name eth0 netns {name}", "link set b0 master br0 up",
                  f"addr add {here}/{bits} dev br0{nodad}", "link set br0 up")
        lab.batch(inner, f"addr add {there}/{bits} dev eth0{nodad}", "link set eth0 up", f"-{fam} route add default via {here}")
        i.ct.sysctl("net.ipv4.ip_forward" if fam == 4 else "net.ipv6.conf.all.forwarding", 1)
        if masquerade:
            i.ct.run("nft", "-f", "-", input="table inet b06 { chain post { type nat hook postrouting priority 100; "
                     f'iifname "br0" oifname "{i.tap}" masquerade; }}; }}')
        until("the bridge forwards", lambda: inner.run("ping", "-n", "-c1", "-W1", here, check=False).returncode == 0)
        try:
            with service(lab.hst, L.HST[fam], p, "host"):
                assert both(inner, MAPPED[fam], p) == ("host", "host")
                assert both(i.ct, L.HST[fam], p) == ("host", "host")
                assert closed(inner, L.HST[fam], p)
                with service(i.ct, L.HST[fam], p, "namespace"):
                    assert both(inner, L.HST[fam], p) == ("namespace", "namespace")
        finally:
            inner.close()


# -- what stays closed

def index(ns, dev):
    return ns.call(lambda: socket.if_nametoindex(dev))


def linklocal(ns, dev):
    return re.search(r"inet6 (fe80::[0-9a-f:]+)/", ns.lab.out(*ns.prefix, "ip", "-6", "addr", "show", "dev", dev)).group(1)


PODMAN = ["--dns-forward", "169.254.1.1", "--no-map-gw", "--quiet", "--map-guest-addr", "169.254.1.2"]


@FAM
def test_B07_host_loopback_is_closed(lab, fam):
    """With Podman's options no address leads to a service on the host's loopback; --map-host-loopback opens it, by that address."""
    p = L.port()
    with servers(lab.hst, L.LO[fam], p), lab.start(*PODMAN, mode="path") as i:
        addrs = [L.HST[fam], L.HST2[fam], L.LO[fam], L.GW[fam]] + \
            (["169.254.1.1", "169.254.1.2", "127.0.0.5"] if fam == 4 else [f"{a}%{index(i.ct, i.tap)}" for a in (linklocal(lab.hst, "up0"), "fe80::1")])
        for addr in addrs:
            assert ask(i.ct, addr, p, .7) is None, addr
            assert udp_ask(i.ct, addr, p, timeout=.3) is None, addr
    with servers(lab.hst, L.LO[fam], p), lab.start(*PODMAN, "--map-host-loopback", "169.254.1.3", "--map-host-loopback", "fd99::3") as i:
        alias = {4: "169.254.1.3", 6: "fd99::3"}[fam]
        assert ask(i.ct, alias, p) == f"hello {L.LO[fam]}" and udp_ask(i.ct, alias, p) == b"ask"
        assert ask(i.ct, L.GW[fam], p, 1) is None


# options, and which of the namespace's addresses then lead to a service on the host's loopback
TO_LOOPBACK = [
    ([], {"gateway"}),
    (["--no-map-gw"], set()),
    (["--map-host-loopback", "none"], set()),
    (["-T", "PORT", "-U", "PORT"], {"gateway", "loopback"}),
    (["--no-map-gw", "-T", "PORT", "-U", "PORT"], {"loopback"}),
    (["--map-host-loopback", "none", "-T", "none", "-U", "none"], set()),
    (["--no-map-gw", "--map-guest-addr", MAPPED[4], "--map-guest-addr", MAPPED[6]], set()),
    (["--no-map-gw", "--host-own-addr"], set()),
    (["--no-map-gw", "--map-host-loopback", LO_ALIAS[4], "--map-host-loopback", LO_ALIAS[6]], {"alias"}),
    (["--map-host-loopback", LO_ALIAS[4], "--map-host-loopback", LO_ALIAS[6]], {"alias"}),
    # several: the last one of a family, and "none" is for both families
    (["--map-host-loopback", L.FAR[4], "--map-host-loopback", LO_ALIAS[4], "--map-host-loopback", LO_ALIAS[6]], {"alias"}),
    (["--map-host-loopback", LO_ALIAS[4], "--map-host-loopback", LO_ALIAS[6], "--map-host-loopback", "none"], set()),
    (["--map-host-loopback", "none", "--map-host-loopback", LO_ALIAS[4], "--map-host-loopback", LO_ALIAS[6]], {"alias"}),
]


@pytest.mark.parametrize("opts,leads", TO_LOOPBACK, ids=[" ".join(o).replace("--", "") or "defaults" for o, _ in TO_LOOPBACK])
def test_B11_ways_to_the_host_loopback(lab, opts, leads):
    p = L.port()
    with lab.start(*(str(p) if o == "PORT" else o for o in opts)) as i:
        for fam in (4, 6):
            ways = {"gateway": L.GW[fam], "loopback": L.LO[fam], "own": L.HST[fam], "alias": LO_ALIAS[fam], "guest": MAPPED[fam]}
            with servers(lab.hst, L.LO[fam], p):
                for name, addr in ways.items():
                    opens = name in leads
                    assert (ask(i.ct, addr, p, 5 if opens else .5) == f"hello {L.LO[fam]}") == opens, name
                    assert (udp_ask(i.ct, addr, p, timeout=5 if opens else .2) == b"ask") == opens, name


@FAM
@pytest.mark.parametrize("opt", ["map-host-loopback", "map-guest-addr"])
def test_alias_refuses_and_pings(lab, fam, opt):
    """Behind an alias a closed port is refused at once, in the alias's name, and ping is answered."""
    with lab.start("--no-map-gw", f"--{opt}", MAPPED[4], f"--{opt}", MAPPED[6]) as i:
        assert closed(i.ct, MAPPED[fam], L.port())
        r = i.ct.run("ping", "-n", "-c1", "-W5", MAPPED[fam])
        assert " 0% packet loss" in r.stdout and f"from {MAPPED[fam]}" in r.stdout


@FAM
def test_alias_that_is_the_namespaces_own(lab, fam):
    """It can't be used, and one line says so; unless that address leads out."""
    for opt in ("--map-host-loopback", "--map-guest-addr", "--dns-forward"):
        opts = ["--config-net", "-q", "-T", "none", "-U", "none", opt, L.HST[fam]]
        r = lab.invoke(*opts, "--", "true")
        assert r.returncode == 0 and r.stderr.count("\n") == 1 and opt in r.stderr and L.HST[fam] in r.stderr
        assert lab.invoke(*opts, "--host-own-addr", "--", "true").stderr == ""
    p = L.port()
    with servers(lab.hst, L.LO[fam], p), lab.start("--map-host-loopback", L.HST[fam], "--host-own-addr") as i:
        assert ask(i.ct, L.HST[fam], p) == f"hello {L.LO[fam]}"


# -- who calls (T-3), over the interface

ALIASES = {
    "default": ([], L.GW, None),
    "off": (["--no-map-gw", "--map-guest-addr", MAPPED[4], "--map-guest-addr", MAPPED[6]], None, MAPPED),
    "custom": (["--map-host-loopback", LO_ALIAS[4], "--map-host-loopback", LO_ALIAS[6]], LO_ALIAS, None),
}


def seen_as(client, src, addr, port):
    """What the TCP and the UDP service in the namespace take us for."""
    with client.connect(addr, port, src=src, timeout=5) as s, client.udp(src, to=(addr, port)) as u:
        tcp = s.makefile().readline().split()[1]
        u.send(b"x")
        return tcp, u.recv(100).decode()


@FAM
@pytest.mark.parametrize("aliases", ALIASES)
def test_T3_callers(lab, fam, aliases):
    """Loopback, another loopback address, the host's own ones, and strangers: as whom the namespace sees them."""
    opts, lo, guest = ALIASES[aliases]
    p = L.port()
    ours = L.GW[4] if fam == 4 else linklocal(lab.hst, "up0")
    rows = [(lab.hst, L.LO, L.LO, lo and lo[fam] or ours), (lab.hst, L.HST, L.HST, guest and guest[fam] or ours),
            (lab.hst, L.HST2, L.HST, ours), (lab.peer, L.PEER, L.HST, L.PEER[fam]), (lab.peer, L.PEER, L.HST2, L.PEER[fam]),
            (lab.peer, L.GW, L.HST, L.GW[fam]), (lab.peer, L.FAR, L.HST, L.FAR[fam])]
    if fam == 4:
        rows.append((lab.hst, {4: "127.0.0.5"}, {4: "127.0.0.9"}, ours))
    with lab.start("-t", str(p), "-u", str(p), "--no-splice", *opts) as i, i.ct.serve(L.ANY[fam], p, hello), \
            UdpServer(i.ct.udp(L.ANY[fam], p), lambda d, a: a[0].split("%")[0].encode()):
        for client, src, dst, seen in rows:
            assert seen_as(client, src[fam], dst[fam], p) == (seen, seen), (client.label, src[fam], dst[fam])


def test_T3_link_local_callers(lab):
    """They are seen as they are, by the namespace's link-local address."""
    p = L.port()
    host, peer = linklocal(lab.hst, "up0"), linklocal(lab.peer, "e0")
    with lab.start("-t", str(p), "-u", str(p), "--no-splice") as i:
        to = linklocal(i.ct, i.tap)
        with i.ct.sock(socket.AF_INET6, socket.SOCK_STREAM) as srv, i.ct.sock(socket.AF_INET6, socket.SOCK_DGRAM) as udp:
            for s in (srv, udp):
                s.settimeout(5)
                s.bind(("::", p))
            srv.listen()
            for ns, dev, src in ((lab.hst, "up0", host), (lab.peer, "e0", peer)):
                with ns.connect(f"{host}%{index(ns, dev)}", p), ns.udp(to=(f"{host}%{index(ns, dev)}", p)) as u:
                    s, addr = srv.accept()
                    assert addr[0].split("%")[0] == src and s.getsockname()[0].split("%")[0] == to
                    s.close()
                    u.send(b"x")
                    data, addr = udp.recvfrom(9)
                    assert addr[0].split("%")[0] == src
                    udp.sendto(b"yes", addr)
                    assert u.recv(9) == b"yes"


# -- the host's addresses change

OTHER = {4: "10.77.0.77", 6: "fd77::77"}


@FAM
def test_A11_mapped_address_follows_the_host(own_lab, fam):
    """A VPN or a new lease: --map-guest-addr means the address that the host has now, also after it had none."""
    lab, p = own_lab, L.port()
    bits, nodad = (24, "") if fam == 4 else (64, " nodad")
    with service(lab.hst, L.ANY[fam], p, "host"), lab.start("--map-guest-addr", MAPPED[4], "--map-guest-addr", MAPPED[6]) as i:
        assert both(i.ct, MAPPED[fam], p) == ("host", "host")
        lab.batch(lab.hst, f"-{fam} addr flush dev up0 scope global")
        lab.batch(lab.hst, f"addr add {OTHER[fam]}/{bits} dev up0{nodad}")
        until("the new address", lambda: both(i.ct, MAPPED[fam], p, 1) == ("host", "host"))
        lab.batch(lab.hst, f"-{fam} addr flush dev up0 scope global")
        lab.batch(lab.hst, f"addr add {L.HST2[fam]}/{bits} dev up0{nodad}")
        until("an address again", lambda: both(i.ct, MAPPED[fam], p, 1) == ("host", "host"))


@FAM
def test_B01_address_that_the_host_loses(own_lab, fam):
    """It is the namespace's alone then, though another machine has it now; and shared again when it comes back."""
    lab, p = own_lab, L.port()
    bits, nodad = (24, "") if fam == 4 else (64, " nodad")
    with lab.start("--host-own-addr") as i, service(lab.hst, L.ANY[fam], p, "host"):
        assert both(i.ct, L.HST[fam], p) == ("host", "host")
        lab.batch(lab.hst, f"addr del {L.HST[fam]}/{bits} dev up0", f"addr replace {L.HST2[fam]}/{bits} dev up0{nodad}")
        lab.batch(lab.peer, f"addr add {L.HST[fam]}/{bits} dev e0{nodad}")
        with service(lab.peer, L.ANY[fam], p, "stranger"):
            until("it is refused", lambda: closed(i.ct, L.HST[fam], p))
        lab.batch(lab.peer, f"addr del {L.HST[fam]}/{bits} dev e0")
        lab.batch(lab.hst, f"addr add {L.HST[fam]}/{bits} dev up0{nodad}")
        until("it is shared again", lambda: both(i.ct, L.HST[fam], p, 1) == ("host", "host"))


# -- given addresses, link-local ones

def test_A18_given_address_and_aliases(lab):
    """Addresses that are not the host's: the default route, the resolver and the host's own address by its alias."""
    p = L.port()
    with resolver(lab.peer, L.PEER[4], [("a.test", L.FAR[4])]), service(lab.hst, L.HST[4], p, "host"), \
            lab.start("-a", "10.0.2.0", "-n", "24", "-g", "10.0.2.2", "--dns-forward", "10.0.2.3", "--dns-host", L.PEER[4], "-m", "1500",
                      "--no-ndp", "--no-dhcp", "--no-dhcpv6", "--map-guest-addr", MAPPED[4], "--host-own-addr") as i:
        assert "default via 10.0.2.2" in lab.out(*i.ct.prefix, "ip", "route")
        for opt in ("+notcp", "+tcp"):
            assert lookup(i.ct, "10.0.2.3", "a.test", L.FAR[4], opt), opt
        assert both(i.ct, MAPPED[4], p) == ("host", "host")
        assert both(i.ct, L.HST[4], p) == ("host", "host")  # not shared now: by its own address as well
        assert closed(i.ct, "10.0.2.0", p)


@pytest.mark.parametrize("bound", ["any", "own"])
def test_host_by_its_link_local_address(lab, own, bound):
    """NAT-8: the namespace has a link-local address of its own, so the host's is reached by it."""
    p, addr = L.port(), linklocal(lab.hst, "up0")
    tcp, udp = lab.hst.sock(socket.AF_INET6, socket.SOCK_STREAM), lab.hst.sock(socket.AF_INET6, socket.SOCK_DGRAM)
    for s in (tcp, udp):
        s.bind((addr, p, 0, index(lab.hst, "up0")) if bound == "own" else ("::", p))
    tcp.listen()
    with UdpServer(udp):
        assert udp_ask(own.ct, f"{addr}%{index(own.ct, own.tap)}", p) == b"ask"
    with own.ct.connect(f"{addr}%{index(own.ct, own.tap)}", p) as s:
        t, peer = tcp.accept()
        t.sendall(b"host")
        assert s.recv(9) == b"host" and peer[0].split("%")[0] == addr
        t.close()
    tcp.close()


def test_link_local_neighbour(lab, own):
    p, addr = L.port(), linklocal(lab.peer, "e0")
    tcp, udp = lab.peer.sock(socket.AF_INET6, socket.SOCK_STREAM), lab.peer.sock(socket.AF_INET6, socket.SOCK_DGRAM)
    for s in (tcp, udp):
        s.bind((addr, p, 0, index(lab.peer, "e0")))
    tcp.listen()
    with UdpServer(udp):
        assert udp_ask(own.ct, f"{addr}%{index(own.ct, own.tap)}", p) == b"ask"
    own.ct.connect(f"{addr}%{index(own.ct, own.tap)}", p).close()
    tcp.close()


# -- back in by a published port

@FAM
def test_B05_hairpin(lab, fam):
    """From the namespace to a port that it has published itself: by each address that leads to the host."""
    p, q = L.port(), L.port()
    with lab.start("-t", f"{p}:{q}", "-u", f"{p}:{q}", "--host-own-addr", "--map-guest-addr", MAPPED[4],
                   "--map-guest-addr", MAPPED[6]) as i:
        for addr in (L.HST[fam], L.HST2[fam], MAPPED[fam], L.GW[fam]):
            assert ask(i.ct, addr, p) is None  # nobody is there, and no loop either
        with service(i.ct, L.ANY[fam], q, "inside"):
            for addr in (L.HST[fam], MAPPED[fam], L.GW[fam]):
                assert both(i.ct, addr, p) == ("inside", "inside"), addr
            assert both(lab.peer, L.HST[fam], p) == ("inside", "inside")


@FAM
def test_published_port_does_not_lead_to_the_host(lab, fam):
    """--host-own-addr is for what the namespace's programs send: a port published to one without a service stays closed, though
    the host has a service on that number."""
    p, q = L.port(), L.port()
    with lab.start("-t", f"{p}:{q}", "-u", f"{p}:{q}", "--host-own-addr") as i, service(lab.hst, L.HST[fam], q, "host"):
        for ns, addr in ((lab.peer, L.HST[fam]), (lab.hst, L.HST[fam]), (lab.hst, L.LO[fam])):
            assert both(ns, addr, p, .3) == (None, None)
        assert both(i.ct, L.HST[fam], q) == ("host", "host")


def test_B13_the_device_is_not_the_hosts(lab, own):
    """Name and addresses are those of the host's interface; MAC address and kind tell them apart."""
    def show(ns, dev):
        return lab.out(*ns.prefix, "ip", "-d", "link", "show", "dev", dev)
    ours, hosts = show(own.ct, own.tap), show(lab.hst, "up0")
    assert own.tap == "up0"
    assert "tun type tap" in ours and "tun type tap" not in hosts
    assert re.search("link/ether (\\S+)", ours).group(1) != re.search("link/ether (\\S+)", hosts).group(1)
