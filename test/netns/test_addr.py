# SPDX-License-Identifier: BSD-3-Clause
"""Which address stands for what: host loopback, host address, resolver, outbound address and interface, loopback ports."""
import contextlib

import pytest

import lab as L
from nsnet import UdpServer, hello, refused, until

FAM = pytest.mark.parametrize("fam", [4, 6], ids=["v4", "v6"])
MAPPED = {4: "169.254.1.2", 6: "fd99::2"}
pytestmark = pytest.mark.xdist_group("addr")


def ask(ns, addr, port, timeout=5):
    """What a `hello` server tells us, or None if we cannot get there."""
    try:
        with ns.connect(addr, port, timeout=timeout) as s:
            return s.makefile().readline().strip() or None
    except OSError:
        return None


def udp_ask(ns, addr, port, data=b"ask", timeout=5):
    with ns.udp(to=(addr, port), timeout=timeout) as s:
        try:
            s.send(data)
            return s.recv(65536)
        except OSError:
            return None


@contextlib.contextmanager
def servers(ns, addr, port):
    with ns.serve(addr, port, hello) as tcp, UdpServer(ns.udp(addr, port)) as udp:
        yield tcp, udp


# -- host loopback (NAT-3, B07)

@FAM
def test_gateway_is_host_loopback(lab, fam):
    """By default the gateway's address stands for the host's loopback, TCP and UDP."""
    p = L.port()
    with lab.start() as i, servers(lab.hst, L.LO[fam], p):
        assert ask(i.ct, L.GW[fam], p) == f"hello {L.LO[fam]}"
        assert udp_ask(i.ct, L.GW[fam], p) == b"ask"


@FAM
def test_no_map_gw(lab, fam):
    """With --no-map-gw no address of the container reaches a service bound to the host's loopback."""
    p = L.port()
    with lab.start("--no-map-gw") as i, servers(lab.hst, L.LO[fam], p), lab.peer.serve(L.GW[fam], p, hello):
        for addr in (L.HST[fam], L.HST2[fam], L.LO[fam], MAPPED[fam]):
            assert ask(i.ct, addr, p, 1.5) is None, addr
        assert ask(i.ct, L.GW[fam], p) in (f"hello {L.HST[fam]}", f"hello {L.HST2[fam]}")  # the real gateway


@FAM
def test_map_host_loopback(lab, fam):
    p = L.port()
    with lab.start("--map-host-loopback", MAPPED[4], "--map-host-loopback", MAPPED[6]) as i, servers(lab.hst, L.LO[fam], p), \
            lab.peer.serve(L.GW[fam], p, lambda s, _: s.sendall(b"real gateway\n")):
        assert ask(i.ct, MAPPED[fam], p) == f"hello {L.LO[fam]}"
        assert udp_ask(i.ct, MAPPED[fam], p) == b"ask"
        assert ask(i.ct, L.GW[fam], p) == "real gateway"
        r = i.ct.run("ping", "-n", "-c1", "-W5", MAPPED[fam])
        assert " 0% packet loss" in r.stdout


def test_map_host_loopback_none(lab):
    p = L.port()
    with lab.start("--map-host-loopback", "none") as i:
        for fam in (4, 6):
            with servers(lab.hst, L.LO[fam], p), lab.peer.serve(L.GW[fam], p, lambda s, _: s.sendall(b"real gateway\n")):
                assert ask(i.ct, L.GW[fam], p) == "real gateway"


@FAM
def test_map_guest_addr(lab, fam):
    """An address that stands for the host's own address, which the container has as well."""
    p, q = L.port(), L.port()
    with lab.start("--map-guest-addr", MAPPED[4], "--map-guest-addr", MAPPED[6]) as i, servers(lab.hst, L.HST[fam], p), \
            servers(lab.hst, L.LO[fam], q):
        assert ask(i.ct, MAPPED[fam], p) == f"hello {L.HST[fam]}"
        assert udp_ask(i.ct, MAPPED[fam], p) == b"ask"
        assert ask(i.ct, MAPPED[fam], q, 1.5) is None  # not the loopback


# -- published ports, seen from the host

@FAM
def test_published_from_host(lab, fam):
    """The host reaches a published port through its loopback and through its own address."""
    p = L.port()
    with lab.start("-t", str(p), "-u", str(p)) as i, servers(i.ct, L.ANY[fam], p):
        for addr in (L.LO[fam], L.HST[fam], L.HST2[fam]):
            assert ask(lab.hst, addr, p), addr
        assert udp_ask(lab.hst, L.LO[fam], p) == b"ask"
        assert udp_ask(lab.hst, L.HST[fam], p) == b"ask"


@FAM
def test_B10_loopback_service_is_not_published(lab, fam):
    """B10: a service bound to the container's loopback stays private."""
    p = L.port()
    with lab.start("-t", str(p)) as i, i.ct.serve(L.LO[fam], p, hello):
        for ns, addr in ((lab.hst, L.LO[fam]), (lab.hst, L.HST[fam]), (lab.peer, L.HST[fam])):
            assert ask(ns, addr, p) is None, addr


@FAM
def test_not_published(lab, fam):
    """A port that is not published is refused at once, whatever listens in the container."""
    p = L.port()
    with lab.start("-t", str(L.port())) as i, i.ct.serve(L.ANY[fam], p, hello):
        assert refused(lambda: lab.peer.connect(L.HST[fam], p, timeout=5))


@FAM
def test_port_lists_and_ranges(lab, fam):
    a = L.port()
    b = [L.port() for _ in range(3)]
    with lab.start("-t", f"{a},{b[0]}-{b[2]}", "-u", f"{b[0]}-{b[1]}") as i:
        for p in (a, *b):
            with i.ct.serve(L.ANY[fam], p, hello):
                assert ask(lab.peer, L.HST[fam], p) == f"hello {L.PEER[fam]}", p
        for p in b[:2]:
            with UdpServer(i.ct.udp(L.ANY[fam], p)):
                assert udp_ask(lab.peer, L.HST[fam], p) == b"ask"


@FAM
def test_U04_udp_reply_address(lab, fam):
    """U04: whichever of the host's addresses a client asks, the reply comes from there, many clients at once."""
    p = L.port()
    with lab.start("-u", str(p)) as i, UdpServer(i.ct.udp(L.ANY[fam], p)) as srv:
        socks = [lab.peer.udp(src, to=(dst, p)) for src in (L.PEER[fam], L.GW[fam]) for dst in (L.HST[fam], L.HST2[fam])
                 for _ in range(5)]
        for n, s in enumerate(socks):
            s.send(b"%d" % n)
        for n, s in enumerate(socks):
            assert s.recv(100) == b"%d" % n
        ports = {(s.getsockname()[0], s.getsockname()[1]) for s in socks}
        assert {peer[:2] for _, peer in srv.seen} == ports  # the real client addresses and ports
        for s in socks:
            s.close()


@FAM
def test_D15_udp_empty_and_large(lab, fam):
    """D15: empty datagrams are datagrams; large ones keep their size, both ways."""
    p = L.port()
    with lab.start("-u", str(p)) as i, UdpServer(i.ct.udp(L.ANY[fam], p)), UdpServer(lab.peer.udp(L.PEER[fam], p)):
        for ns, addr in ((lab.peer, L.HST[fam]), (i.ct, L.PEER[fam])):
            for size in (0, 1, 8192, 65000):
                assert udp_ask(ns, addr, p, b"z" * size) == b"z" * size, size


# -- namespace loopback to host loopback

@FAM
def test_loopback_ports_to_host(lab, fam):
    """-T and -U: a port of the container's loopback is the same port of the host's loopback."""
    p = L.port()
    with lab.start("-T", str(p), "-U", str(p)) as i, servers(lab.hst, L.LO[fam], p):
        assert ask(i.ct, L.LO[fam], p) == f"hello {L.LO[fam]}"
        assert udp_ask(i.ct, L.LO[fam], p) == b"ask"
        assert ask(i.ct, L.HST[fam], p, 1.5) is None  # only the loopback


@FAM
def test_loopback_ports_none(lab, fam):
    p = L.port()
    with lab.start() as i, servers(lab.hst, L.LO[fam], p):
        assert ask(i.ct, L.LO[fam], p, 1.5) is None


# -- resolver

@FAM
@pytest.mark.parametrize("where", ["host-loopback", "lan"])
def test_N01_dns_forward(lab, fam, where):
    """--dns-forward ADDR is the resolver --dns-host, over UDP and TCP (N01), with a real resolver and a real client."""
    fwd = {4: "169.254.1.1", 6: "fd99::53"}[fam]
    ns, host = (lab.hst, L.LO[fam]) if where == "host-loopback" else (lab.peer, L.PEER[fam])
    long = "txt-record=long.test," + ",".join("x" * 250 for _ in range(8))
    with lab.start("--dns-forward", fwd, "--dns-host", host) as i:
        srv = ns.spawn("dnsmasq", "--keep-in-foreground", "--no-resolv", "--no-hosts", "--conf-file=/dev/null", "--pid-file=",
                       "--bind-interfaces", f"--listen-address={host}", "--user=root", "--address=/a.test/192.0.2.7", "--" + long)
        try:
            until("dnsmasq answers", lambda: "192.0.2.7" in lab.out(*ns.prefix, "dig", "+short", "+tries=1", "+time=1", f"@{host}", "a.test"))
            for opt in ("+notcp", "+tcp"):
                r = i.ct.run("dig", "+short", "+tries=1", "+time=5", opt, f"@{fwd}", "a.test")
                assert r.stdout.strip() == "192.0.2.7", opt
            r = i.ct.run("dig", "+short", "+tries=1", "+time=5", "+bufsize=512", f"@{fwd}", "long.test", "TXT")
            assert r.stdout.count("x" * 250) == 8  # truncated over UDP, then TCP
        finally:
            srv.kill()
            srv.wait()


# -- how connections leave

@FAM
@pytest.mark.parametrize("to", [L.PEER, L.FAR], ids=["near", "far"])
def test_preferred_address(lab, fam, to):
    """Of several addresses the guest's kernel takes the same as source as the host's, and names it first."""
    def listed(ns):
        return [x.split()[3] for x in lab.out(*ns.prefix, "ip", "-o", f"-{fam}", "addr", "show", "scope", "global").splitlines()]
    with lab.start() as i:
        assert len(listed(lab.hst)) == 2
        assert listed(i.ct) == listed(lab.hst)
        with i.ct.udp(to=(to[fam], 9)) as inside, lab.hst.udp(to=(to[fam], 9)) as outside:
            assert inside.getsockname()[0] == outside.getsockname()[0]


@FAM
def test_outbound_address(lab, fam):
    """-o: TCP, UDP and ping leave from the address given."""
    p = L.port()
    with lab.start("-o", L.HST2[4], "-o", L.HST2[6]) as i:
        with lab.peer.serve(L.PEER[fam], p, hello), UdpServer(lab.peer.udp(L.PEER[fam], p), lambda d, a: a[0].encode()):
            assert ask(i.ct, L.PEER[fam], p) == f"hello {L.HST2[fam]}"
            assert udp_ask(i.ct, L.PEER[fam], p).decode() == L.HST2[fam]
        assert " 0% packet loss" in i.ct.run("ping", "-n", "-c1", "-W5", L.PEER[fam]).stdout


@FAM
def test_A22_outbound_interface(own_lab, fam):
    """A22: --outbound-if4/6: traffic leaves through that interface though the route prefers another."""
    lab = own_lab
    lab.ip("link", "add", "up1", "netns", lab.hst.name, "type", "veth", "peer", "name", "e1", "netns", lab.peer.name)
    lab.batch(lab.peer, "addr add 10.78.0.1/24 dev e1", "addr add fd78::1/64 dev e1 nodad", "link set e1 up")
    lab.batch(lab.hst, "addr add 10.78.0.2/24 dev up1", "addr add fd78::2/64 dev up1 nodad", "link set up1 up",
              "route add default via 10.78.0.1 metric 900", "-6 route add default via fd78::1 metric 9000")
    lab.settled()
    p, up1 = L.port(), {4: "10.78.0.2", 6: "fd78::2"}
    with lab.start("--outbound-if4", "up1", "--outbound-if6", "up1") as i, lab.peer.serve(L.FAR[fam], p, hello), \
            UdpServer(lab.peer.udp(L.FAR[fam], p), lambda d, a: a[0].encode()), servers(lab.hst, L.LO[fam], p):
        assert ask(i.ct, L.FAR[fam], p) == f"hello {up1[fam]}"
        assert udp_ask(i.ct, L.FAR[fam], p).decode() == up1[fam]
        gw = {4: "10.78.0.1", 6: "fd78::1"}[fam]
        assert ask(i.ct, gw, p) == f"hello {L.LO[fam]}"  # W-54: host loopback is not bound to that interface


@FAM
def test_source_port_taken(lab, fam):
    """W-62: a UDP source port that the host uses itself falls back to another one instead of losing the datagram."""
    p, sport = L.port(), L.port()
    busy = lab.hst.udp(L.ANY[fam], sport)
    with lab.start() as i, UdpServer(lab.peer.udp(L.PEER[fam], p)) as srv:
        with i.ct.udp(L.ANY[fam], sport, to=(L.PEER[fam], p)) as s:
            s.send(b"x")
            assert s.recv(10) == b"x"
        assert srv.seen[0][1][1] != sport
    busy.close()


@pytest.mark.parametrize("off", ["tcp", "udp", "icmp"])
def test_no_protocol(lab, off):
    """--no-tcp, --no-udp, --no-icmp: that protocol gets nowhere, the others work."""
    p = L.port()
    with lab.start(f"--no-{off}") as i:
        if off == "icmp":
            # it also switches neighbour discovery off: only IPv4 is expected to go on
            assert i.ct.run("ping", "-n", "-c1", "-W1", L.PEER[4], check=False).returncode == 1
        for fam in (4, 6) if off != "icmp" else (4,):
            with lab.peer.serve(L.PEER[fam], p, hello), UdpServer(lab.peer.udp(L.PEER[fam], p)):
                assert bool(ask(i.ct, L.PEER[fam], p, 1.5)) == (off != "tcp")
                assert bool(udp_ask(i.ct, L.PEER[fam], p, timeout=1.5)) == (off != "udp")


@pytest.mark.parametrize("only", [4, 6])
def test_one_family(lab, only):
    p = L.port()
    with lab.start(f"-{only}", "-t", str(p)) as i:
        for fam in (4, 6):
            with lab.peer.serve(L.PEER[fam], p, hello), i.ct.serve(L.ANY[fam], p, hello):
                assert bool(ask(i.ct, L.PEER[fam], p, 1.5)) == (fam == only)
                assert bool(ask(lab.peer, L.HST[fam], p, 1.5)) == (fam == only)


# -- one instance beside another

@FAM
def test_B04_two_instances(lab, fam):
    """B04: the container of one instance reaches a port published by another one through the mapped address."""
    p = L.port()
    with lab.start("-t", str(p)) as a, lab.start("--map-guest-addr", MAPPED[4], "--map-guest-addr", MAPPED[6], mode="pid") as b, \
            a.ct.serve(L.ANY[fam], p, hello):
        assert ask(b.ct, MAPPED[fam], p)


@FAM
def test_refused_out(lab, fam):
    """A refused connection is refused inside as well, at once; UDP learns of a closed port."""
    with lab.start() as i:
        assert refused(lambda: i.ct.connect(L.PEER[fam], L.port(), timeout=5))
        with i.ct.udp(to=(L.PEER[fam], L.port()), timeout=5) as s:
            s.send(b"x")
            with pytest.raises(ConnectionRefusedError):
                s.recv(10)


@FAM
def test_refused_in(lab, fam):
    """A published port without a service inside: refused or reset at once, never accepted and left hanging."""
    p = L.port()
    with lab.start("-t", str(p)):
        for ns, addr in ((lab.peer, L.HST[fam]), (lab.hst, L.LO[fam])):
            def try_it(ns=ns, addr=addr):
                with ns.connect(addr, p, timeout=5) as s:
                    if not s.recv(1):
                        raise ConnectionResetError(104, "closed")
            assert refused(try_it)


@FAM
def test_B13_interface_identity(lab, fam):
    """B13, -I, -M and --ns-mac-addr: names and addresses of the device are those that were asked for."""
    with lab.start("-I", "blue0", "--ns-mac-addr", "02:00:00:00:00:07", "-M", "02:00:00:00:00:08") as i:
        assert i.tap == "blue0"
        assert "02:00:00:00:00:07" in lab.out(*i.ct.prefix, "ip", "link", "show", "blue0")
        p = L.port()
        with lab.hst.serve(L.LO[fam], p, hello):
            assert ask(i.ct, L.GW[fam], p)
        neigh = lab.out(*i.ct.prefix, "ip", f"-{fam}", "neigh", "show", L.GW[fam])
        assert "02:00:00:00:00:08" in neigh
