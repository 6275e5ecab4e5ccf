# SPDX-License-Identifier: BSD-3-Clause
"""Start on hosts of every shape: no network, odd routes and addresses, no IPv6, VPN-like defaults. Starting never fails;
what cannot be expressed is left out with a warning; traffic works wherever the host itself could send it."""
import re
import time

import pytest

import lab as L
from nsnet import hello, measured, until, url_host

FAM = pytest.mark.parametrize("fam", [4, 6], ids=["v4", "v6"])
V = {4: "-4", 6: "-6"}


def reach(ns, addr, port, secs=0):
    """Connect and read a line; with `secs`, try again until then."""
    def once():
        try:
            with ns.connect(addr, port, timeout=3) as s:
                return s.recv(100).decode().strip()
        except OSError as e:
            reach.last = e
            return ""
    if not secs:
        got = once()
        assert got, f"[{addr}]:{port} not reached from {ns.label}: {reach.last}"
        return got
    return until(lambda: f"[{addr}]:{port} reached from {ns.label}: {reach.last}", once, secs, .1)


def far_works(lab, inst, fam, secs=0, addr=None):
    p = L.port()
    addr = addr or L.FAR[fam]
    with lab.peer.serve(addr, p, hello):
        return reach(inst.ct, addr, p, secs)


def published_works(lab, inst, p, fam=4, addr=None):
    with inst.ct.serve(L.ANY[fam], p, hello):
        return reach(lab.hst, addr or L.LO[fam], p)


def has_default(lab, inst, fam):
    return "default" in lab.out(*inst.ct.prefix, "ip", V[fam], "route")


def hst(lab, *lines):
    lab.batch(lab.hst, *lines)


# -- no network

def test_a01_uplink_down(bare_lab):
    """The uplink is down and has no address: start, local mode, published ports; outbound works once the uplink is there."""
    lab, p = bare_lab, L.port()
    with lab.start("-t", str(p)) as i:
        assert has_default(lab, i, 4)
        assert re.search(r"inet \d", lab.out(*i.ct.prefix, "ip", "-4", "addr", "show", "dev", i.tap))
        assert published_works(lab, i, p)
        lab.setup()
        assert far_works(lab, i, 4, 2) == f"hello {L.HST[4]}"
        # A07: published on the wildcard address: follows addresses that appear later
        with i.ct.serve("0.0.0.0", p, hello):
            assert reach(lab.peer, L.HST[4], p, 2) == f"hello {L.PEER[4]}"


def test_a02_links_come_up_late(bare_lab):
    """Several links, only unusable ones up at start; a usable one comes later."""
    lab = bare_lab
    hst(lab, "link add ifb7 type ifb", "link add br7 type bridge", "link set ifb7 up")
    with lab.start() as i:
        lab.setup()
        far_works(lab, i, 4, 2)


@FAM
def test_a03_offline(bare_lab, fam):
    """Nothing but the loopback."""
    lab, p = bare_lab, L.port()
    hst(lab, "link del up0")
    assert lab.invoke("--config-net", "-q", "--", "true").returncode == 0
    with lab.start("-t", str(p)) as i:
        assert published_works(lab, i, p, fam)


def test_offline_is_quick(bare_lab):
    """A10: no waiting for a network: a start takes about as long as with one."""
    lab = bare_lab

    def mean():
        began = time.monotonic()
        for _ in range(5):
            assert lab.invoke("--config-net", "-q", "--", "true").returncode == 0
        return (time.monotonic() - began) / 5
    measured("seconds of a start", lambda t: t < (.5 if not lab.tools.sanitized else 3), mean)


@FAM
def test_link_local_only(bare_lab, fam):
    """A26: no global address of a family: loopback and published ports of that family work all the same."""
    lab, p = bare_lab, L.port()
    lab.setup_peer()
    hst(lab, "link set up0 up")
    if fam == 6:
        hst(lab, f"addr add {L.HST[4]}/24 dev up0", f"route add default via {L.GW[4]}")
    else:
        hst(lab, f"addr add {L.HST[6]}/64 dev up0 nodad", f"-6 route add default via {L.GW[6]}")
    with lab.start("-t", str(p)) as i:
        assert published_works(lab, i, p, fam)
        assert far_works(lab, i, 10 - fam)


# -- VPN and several uplinks

@pytest.mark.parametrize("kind", ["halves", "default"])
def test_a04_tunnel_without_gateway(own_lab, kind):
    """Default (or two half defaults) through a point-to-point device without gateway; LAN beside it."""
    lab = own_lab
    wire = L.TunWire(lab.hst, "tun0", lab.peer, "tun1")
    lab.undo.append(wire.close)
    lab.batch(lab.peer, "addr add 10.8.0.5 peer 10.8.0.6 dev tun1", "link set tun1 up", "addr add 203.0.113.80/32 dev lo")
    hst(lab, "addr add 10.8.0.6 peer 10.8.0.5 dev tun0", "link set tun0 up", "route del default",
        *(["route add 0.0.0.0/1 dev tun0", "route add 128.0.0.0/1 dev tun0"] if kind == "halves" else ["route add default dev tun0"]))
    with lab.start() as i:
        assert far_works(lab, i, 4, addr="203.0.113.80") == "hello 10.8.0.6"
        assert far_works(lab, i, 4, addr="10.8.0.5") == "hello 10.8.0.6"
        assert far_works(lab, i, 4, addr=L.PEER[4]) == f"hello {L.HST[4]}"
        assert far_works(lab, i, 6)


def second_uplink(lab, up=True):
    lab.ip("link", "add", "up1", "netns", lab.hst.name, "type", "veth", "peer", "name", "e1", "netns", lab.peer.name)
    lab.batch(lab.peer, "addr add 10.78.0.1/24 dev e1", "addr add fd78::1/64 dev e1 nodad", "link set e1 up")
    hst(lab, "addr add 10.78.0.2/24 dev up1", "addr add fd78::2/64 dev up1 nodad", "link set up1 up")


@FAM
def test_a09_first_default_without_carrier(own_lab, fam):
    """Two defaults; the better one's link just lost its carrier: start, traffic leaves through the other one."""
    lab = own_lab
    second_uplink(lab)
    hst(lab, "route add default via 10.78.0.1 metric 600", "-6 route add default via fd78::1 metric 6000")
    lab.hst.sysctl("net.ipv4.conf.all.ignore_routes_with_linkdown", 1)
    lab.hst.sysctl("net.ipv4.conf.up0.ignore_routes_with_linkdown", 1)
    lab.hst.sysctl("net.ipv6.conf.up0.ignore_routes_with_linkdown", 1)
    lab.batch(lab.peer, "link set e0 down")
    until("up0 has no carrier", lambda: "NO-CARRIER" in lab.out(*lab.hst.prefix, "ip", "link", "show", "up0"))
    with lab.start() as i:
        assert far_works(lab, i, fam, 2) == "hello " + {4: "10.78.0.2", 6: "fd78::2"}[fam]


@FAM
def test_two_uplinks(own_lab, fam):
    """A20: both LANs are reachable, each with the source address that the host's routing chooses."""
    lab = own_lab
    second_uplink(lab)
    lab.settled()
    with lab.start() as i:
        assert far_works(lab, i, fam, addr={4: "10.78.0.1", 6: "fd78::1"}[fam]) == "hello " + {4: "10.78.0.2", 6: "fd78::2"}[fam]
        assert far_works(lab, i, fam, addr=L.PEER[fam])


@FAM
def test_template_interface(own_lab, fam):
    """-i: the addresses of that interface are the container's."""
    lab = own_lab
    second_uplink(lab)
    lab.settled()
    with lab.start("-i", "up1") as i:
        text = lab.out(*i.ct.prefix, "ip", "addr")
        assert i.tap == "up1" and {4: "10.78.0.2/24", 6: "fd78::2/64"}[fam] in text and L.HST[fam] + "/" not in text


# -- addresses

@FAM
@pytest.mark.parametrize("kind", ["route", "onlink"])
def test_a16_gateway_outside_the_subnet(bare_lab, fam, kind):
    """A /32 (or /128) address and a gateway that is reached by a link-scope route or by `onlink`."""
    lab = bare_lab
    gw = {4: "172.31.1.1", 6: "fd31::1"}[fam]
    lab.setup_peer()
    back = {4: "203.0.113.9/32", 6: "2001:db8:9::9/128"}[fam]
    lab.batch(lab.peer, f"addr add {gw}/{32 if fam == 4 else 128} dev e0" + (" nodad" if fam == 6 else ""), f"route add {back} dev e0")
    hst(lab, f"addr add {back} dev up0" + (" nodad" if fam == 6 else ""), "link set up0 up")
    if kind == "route":
        hst(lab, f"route add {gw} dev up0" + (" scope link" if fam == 4 else ""))
    hst(lab, f"{V[fam]} route add default via {gw} dev up0" + (" onlink" if kind == "onlink" else ""))
    with lab.start() as i:
        assert has_default(lab, i, fam)
        assert far_works(lab, i, fam, 2) == "hello " + back.split("/")[0]


def test_a18_static_address(own_lab):
    """-a, -n, -g, as many people have it in their configuration: exactly that address and a default by that gateway."""
    lab = own_lab
    srv = lab.hst.spawn("dnsmasq", "--keep-in-foreground", "--no-resolv", "--no-hosts", "--conf-file=/dev/null", "--pid-file=", "--bind-interfaces",
                        "--listen-address=127.0.0.1", "--user=root", "--address=/a.test/192.0.2.7")
    until("dnsmasq answers", lambda: "192.0.2.7" in lab.out(*lab.hst.prefix, "dig", "+short", "+tries=1", "+time=1", "@127.0.0.1", "a.test"))
    with lab.start("-a", "10.0.2.0", "-n", "24", "-g", "10.0.2.2", "--dns-forward", "10.0.2.3", "-m", "1500", "--no-ndp", "--no-dhcp",
                   "--no-dhcpv6", "--dns-host", "127.0.0.1") as i:
        addr = lab.out(*i.ct.prefix, "ip", "-4", "-o", "addr", "show", "dev", i.tap)
        assert addr.count("inet ") == 1 and "10.0.2.0/24" in addr
        routes = lab.out(*i.ct.prefix, "ip", "-4", "route")
        assert "default via 10.0.2.2" in routes and "10.77" not in routes
        assert i.ct.run("dig", "+short", "+tries=1", "+time=5", "@10.0.2.3", "a.test").stdout.strip() == "192.0.2.7"
        assert far_works(lab, i, 4) == f"hello {L.HST[4]}"
    srv.kill()


@FAM
def test_own_address(own_lab, fam):
    """-a and -g of one family: that family has them, the other one is copied."""
    lab = own_lab
    a, g = {4: ("10.99.0.7/16", "10.99.0.1"), 6: ("fd99::7", "fd99::1")}[fam]
    with lab.start("-a", a, "-g", g) as i:
        assert a.split("/")[0] in lab.out(*i.ct.prefix, "ip", V[fam], "addr")
        assert f"default via {g}" in lab.out(*i.ct.prefix, "ip", V[fam], "route")
        for f in (4, 6):
            assert far_works(lab, i, f).startswith("hello")
        assert L.HST[10 - fam] in lab.out(*i.ct.prefix, "ip", V[10 - fam], "addr")


def test_a19_finite_lifetimes(own_lab):
    """The host's addresses expire; the container's copies do not."""
    lab = own_lab
    hst(lab, f"addr change {L.HST[4]}/24 dev up0 valid_lft 600 preferred_lft 300",
        f"addr change {L.HST[6]}/64 dev up0 valid_lft 600 preferred_lft 300")
    with lab.start() as i:
        for addr in (L.HST[4], L.HST[6]):
            entry = re.search(rf"{addr}/.*\n\s+valid_lft (\S+) preferred_lft (\S+)", lab.out(*i.ct.prefix, "ip", "addr"))
            assert entry and entry.groups() == ("forever", "forever")


def test_deprecated_and_labelled_addresses(own_lab):
    """Deprecated addresses stay away; labels, peers, /31, /32 and broadcast addresses do no harm."""
    lab = own_lab
    hst(lab, "addr add 10.79.0.1/24 dev up0 label up0:x", "addr add 10.79.1.1 peer 10.79.1.2 dev up0", "addr add 10.79.2.0/31 dev up0",
        "addr add 10.79.3.1/32 dev up0", "addr add fd79::d/64 dev up0 preferred_lft 0", "addr add fd79::1/128 dev up0 nodad")
    with lab.start() as i:
        text = lab.out(*i.ct.prefix, "ip", "addr")
        for addr in ("10.79.0.1/24", "10.79.1.1", "10.79.2.0/31", "10.79.3.1/32", "fd79::1/128"):
            assert addr in text, addr
        assert "fd79::d" not in text
        for fam in (4, 6):
            far_works(lab, i, fam)


def test_many_addresses_and_routes(own_lab):
    """More than one netlink message can hold: 300 addresses and 600 routes of each family, all copied."""
    lab = own_lab
    hst(lab, *[f"addr add 10.80.{n // 250}.{n % 250 + 1}/32 dev up0" for n in range(300)],
        *[f"addr add fd80::{n:x}/128 dev up0 nodad" for n in range(1, 301)],
        *[f"route add 10.81.{n // 250}.{n % 250}/32 via {L.GW[4]}" for n in range(600)],
        *[f"route add fd81::{n:x}/128 via {L.GW[6]}" for n in range(1, 601)])
    with lab.start() as i:
        addrs, routes = lab.out(*i.ct.prefix, "ip", "-o", "addr"), lab.out(*i.ct.prefix, "ip", "route")
        assert len(re.findall(r"10\.80\.", addrs)) == 300 and len(re.findall(r"fd80::", addrs)) == 300
        assert len(re.findall(r"^10\.81\.", routes, re.M)) == 600
        assert len(re.findall(r"^fd81::", lab.out(*i.ct.prefix, "ip", "-6", "route"), re.M)) == 600
        for fam in (4, 6):
            far_works(lab, i, fam)


# -- routes: each line alone, in both orders with the defaults there already

ROUTES4 = ["blackhole 10.90.0.0/24", "unreachable 10.90.1.0/24", "prohibit 10.90.2.0/24", "throw 10.90.3.0/24",
           "10.90.4.0/24 nexthop via 10.77.0.1 weight 1 nexthop via 10.77.0.3 weight 3", "10.90.5.0/24 via 10.77.0.1 metric 77",
           "10.90.6.0/24 via 10.77.0.1 src 10.77.0.4", "10.90.7.0/24 via 10.77.0.1 table 77", "10.90.8.0/24 dev up0 scope link",
           "10.90.9.0/24 via 10.90.8.1 onlink dev up0", "10.90.10.0/24 via inet6 fd77::1 dev up0", "10.90.11.0/24 via 10.77.0.1 mtu 1400 advmss 1200",
           "10.90.12.0/24 via 10.77.0.1 mtu lock 1300 initcwnd 20 quickack 1", "10.90.13.0/24 via 10.77.0.1 tos 0x10", "10.90.14.0/24 dev lo",
           "local 10.90.15.1/32 dev up0", "broadcast 10.90.16.255/32 dev up0", "multicast 239.1.1.1/32 dev up0",
           "10.90.17.0/24 via 10.77.0.1 proto bird realm 5", "default via 10.77.0.3 metric 4000", "10.90.18.0/24 nhid 4",
           "10.90.19.0/24 nhid 7", "default dev up0 metric 9000", "10.90.20.0/24 via 10.77.0.1 congctl cubic",
           "10.90.21.0/24 encap ip id 3 dst 10.77.0.1 dev up0"]
ROUTES6 = ["blackhole fd90::/64", "unreachable fd90:1::/64", "prohibit fd90:2::/64", "throw fd90:3::/64",
           "fd90:4::/64 nexthop via fd77::1 weight 1 nexthop via fd77::3 weight 3", "fd90:5::/64 via fd77::1 metric 77",
           "fd90:6::/64 via fd77::1 src fd77::4", "fd90:7::/64 via fd77::1 table 77", "fd90:8::/64 dev up0",
           "fd90:9::/64 via fe80::1 dev up0", "fd90:a::/64 via fd77::1 expires 600", "fd90:b::/64 via fd77::1 mtu 1400 pref high",
           "fd90:c::/64 via fd77::1 proto ra", "local fd90:d::1/128 dev up0", "default via fe80::1 dev up0 metric 4000", "fd90:e::/64 nhid 6",
           "fd90:f::/64 nhid 8", "default dev up0 metric 9000", "multicast ff05::5/128 dev up0 table main", "fd90:10::/64 from fd77::4 via fd77::1",
           "fd90:11::/64 encap seg6 mode encap segs fd77::1 dev up0"]
NEXTHOPS = ["nexthop add id 4 via 10.77.0.1 dev up0", "nexthop add id 5 via 10.77.0.3 dev up0", "nexthop add id 7 group 4,2/5,1",
            "nexthop add id 6 via fd77::1 dev up0", "nexthop add id 8 group 6", "nexthop add id 9 blackhole"]


def add_route(lab, line):
    """Add an odd route; None where this kernel does not have that kind."""
    r = lab.run(*lab.hst.prefix, "ip", "-6" if ":" in line and "inet6" not in line else "-4", "route", "add", *line.split(), check=False)
    return line if r.returncode == 0 else None


@pytest.mark.parametrize("order", ["before", "after"])
def test_odd_routes_all_at_once(own_lab, order):
    """Everything that a routing table may hold: start, both families work, what can be copied is there."""
    lab = own_lab
    for line in NEXTHOPS:
        hst(lab, line)
    if order == "before":  # the defaults come last
        hst(lab, "route del default", "-6 route del default")
    done = [x for x in map(lambda r: add_route(lab, r), ROUTES4 + ROUTES6) if x]
    if order == "before":
        hst(lab, f"route add default via {L.GW[4]}", f"-6 route add default via {L.GW[6]}")
    assert len(done) > 35, done
    with lab.start() as i:
        for fam in (4, 6):
            far_works(lab, i, fam)
        have = lab.out(*i.ct.prefix, "ip", "-4", "route") + lab.out(*i.ct.prefix, "ip", "-6", "route")
        for line in ("10.90.4.0/24", "10.90.5.0/24", "10.90.6.0/24", "10.90.8.0/24", "10.90.9.0/24", "10.90.11.0/24", "10.90.18.0/24",
                     "fd90:4::/64", "fd90:5::/64", "fd90:6::/64", "fd90:9::/64", "fd90:e::/64"):
            assert line in have, f"{line} is missing in:\n{have}"
        for line in ("10.90.7.0/24", "fd90:7::/64"):  # another table
            assert line not in have


@pytest.mark.parametrize("line", [x for x in ROUTES4 if x.startswith("default") or "nhid" in x or "inet6" in x or "blackhole" in x]
                         + [x for x in ROUTES6 if x.startswith("default") or "nhid" in x])
def test_odd_route_as_only_route(bare_lab, line):
    """The odd one is the host's only route beside its subnet."""
    lab = bare_lab
    lab.setup_peer()
    hst(lab, f"addr add {L.HST[4]}/24 dev up0", f"addr add {L.HST[6]}/64 dev up0 nodad", "link set up0 up")
    lab.settled()
    for n in NEXTHOPS:
        hst(lab, n)
    assert add_route(lab, line)
    with lab.start("--no-map-gw") as i:
        for fam in (4, 6):
            assert far_works(lab, i, fam, addr=L.PEER[fam]).startswith("hello")


@pytest.mark.parametrize("line", ["default nexthop via 10.77.0.1 weight 1 nexthop via 10.77.0.3 weight 2", "default nhid 7", "default nhid 4",
                                  "default via inet6 fd77::1 dev up0", "default via 10.77.0.1 src 10.77.0.4", "default via 10.77.0.1 metric 4294967295",
                                  "default via 10.77.0.1 mtu 1400", "default nhid 6", "default via fd77::1 src fd77::4",
                                  "default nexthop via fd77::1 weight 1 nexthop via fd77::3 weight 2", "default via fd77::1 proto ra expires 900"])
def test_odd_default(own_lab, line):
    """The default itself is odd: it works all the same."""
    lab = own_lab
    for n in NEXTHOPS:
        hst(lab, n)
    fam = 6 if "fd77" in line and "inet6" not in line or "nhid 6" in line else 4
    hst(lab, f"{V[fam]} route del default")
    r = lab.run(*lab.hst.prefix, "ip", V[fam], "route", "add", *line.split(), check=False)
    assert r.returncode == 0, r.stderr
    with lab.start() as i:
        assert has_default(lab, i, fam)
        got = far_works(lab, i, fam)
        if " src " in line:
            assert got == "hello " + line.split()[-1]


# -- no IPv6

@pytest.mark.parametrize("where", ["all", "up0"])
def test_a23_ipv6_disabled(bare_lab, where):
    """IPv6 switched off on the host, or on the uplink: IPv4 as ever, dual-stack ports do no harm."""
    lab, p = bare_lab, L.port()
    for key in ("all", "default") if where == "all" else ("up0",):
        lab.hst.sysctl(f"net.ipv6.conf.{key}.disable_ipv6", 1)
    lab.setup_peer()
    hst(lab, f"addr add {L.HST[4]}/24 dev up0", "link set up0 up", f"route add default via {L.GW[4]}")
    with lab.start("-t", str(p), "-u", str(p)) as i:
        far_works(lab, i, 4)
        assert published_works(lab, i, p)


def test_one_family_only_on_host(bare_lab):
    lab = bare_lab
    lab.setup_peer()
    hst(lab, f"addr add {L.HST[6]}/64 dev up0 nodad", "link set up0 up", f"-6 route add default via {L.GW[6]}")
    lab.settled()
    with lab.start() as i:
        far_works(lab, i, 6)


def test_U05_ping_not_allowed(own_lab):
    """U05: ping sockets are forbidden by the sysctl: start and all else work."""
    lab = own_lab
    lab.hst.sysctl("net.ipv4.ping_group_range", "1 0")
    with lab.start() as i:
        far_works(lab, i, 4)
        assert i.ct.run("ping", "-n", "-c1", "-W1", L.PEER[4], check=False).returncode == 1


@pytest.mark.parametrize("mtu", [68, 576, 1280, 9000, 65520, 65521])
def test_mtu(own_lab, mtu):
    """Odd MTUs: the device has it (IPv6 needs 1280: below, IPv4 alone), and traffic works."""
    lab = own_lab
    with lab.start("-m", str(mtu), *(["-4"] if mtu < 1280 else [])) as i:
        assert f"mtu {mtu} " in lab.out(*i.ct.prefix, "ip", "link", "show", "dev", i.tap)
        for fam in (4, 6) if mtu >= 1280 else (4,):
            far_works(lab, i, fam)


def test_without_config_net(own_lab):
    """Without --config-net the device is there, down and unnumbered; the loopback is up."""
    lab = own_lab
    with lab.start(config=False) as i:
        links = lab.out(*i.ct.prefix, "ip", "-o", "addr")
        assert L.HST[4] not in links and "127.0.0.1" in links
        assert "UP" not in re.search(r"<(.*?)>", lab.out(*i.ct.prefix, "ip", "-o", "link", "show", "dev", i.tap)).group(1).split(",")


@FAM
def test_url_by_curl_at_once(own_lab, fam):
    """A32: the container's first process uses the network right away, many times over."""
    lab, p = own_lab, L.port()
    page = "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"
    with lab.peer.serve(L.PEER[fam], p, lambda s, _: (s.recv(4096), s.sendall(page.encode()))):
        for _ in range(10):
            r = lab.invoke("--config-net", "-q", "-t", "none", "-u", "none", "-T", "none", "-U", "none", "--", "curl", "-sS", "-m3",
                           f"http://{url_host(L.PEER[fam])}:{p}/")
            assert (r.returncode, r.stdout, r.stderr) == (0, "ok", "")
