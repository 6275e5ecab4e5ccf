# SPDX-License-Identifier: BSD-3-Clause
"""Layouts of a host's network, and what a namespace gets from each: template choice and configuration, without the rest.

Two namespaces, "hst" with the layout and "ct" with the tap; tools/nl_probe does the work and holds the tap. Statement
numbers are those of the reports that the layouts come from. Needs root; run alone: pytest test/netns/test_nl_layouts.py
"""
import glob
import itertools
import json
import os
import subprocess
import time

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
COUNT = itertools.count()


@pytest.fixture(scope="session")
def probe(tmp_path_factory):
    """The probe, with sanitizers: whatever the layouts make the parsers read is checked on the way."""
    out = str(tmp_path_factory.mktemp("nl") / "nl_probe")
    src = [f"{HERE}/tools/nl_probe.c", *glob.glob(f"{ROOT}/src/host/nl*.c"), *glob.glob(f"{ROOT}/src/base/*.c")]
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu11", "-g", "-O1", "-D_GNU_SOURCE", f"-I{ROOT}/include",
                    "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-o", out, *src, "-lmnl"], check=True)
    return out


class Pair:
    def __init__(self, probe):
        tag = f"nl{os.getpid()}-{next(COUNT)}"
        self.probe, self.proc, self.client, self.log = probe, None, None, []
        self.hst, self.ct = f"{tag}-hst", f"{tag}-ct"
        for ns in (self.hst, self.ct):
            self.run("ip", "netns", "add", ns)
        self.host("link set lo up")

    def run(self, *argv, **kw):
        self.log.append(" ".join(argv))
        return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60, **kw).stdout

    def host(self, *lines):
        """Lines for ip -batch in the host's namespace, in this order; those for IPv6 begin with -6"""
        self.log.append("\n".join(f"ip -n {self.hst} {line}" for line in lines[:20]))
        for v6, group in itertools.groupby(lines, lambda line: line.startswith("-6 ")):
            argv = ["ip", *(["-6"] if v6 else []), "-n", self.hst, "-batch", "-"]
            text = "\n".join(line[3:] if v6 else line for line in group)
            done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=60)
            assert not done.returncode, done.stderr

    def link(self, name, *addrs, peer_up=True):
        """A veth with carrier (or without, its far end down), and addresses"""
        self.host(f"link add {name} type veth peer name {name}p", f"link set {name} addrgenmode none",
                  f"link set {name}p addrgenmode none", f"link set {name} up",
                  *([f"link set {name}p up"] if peer_up else []),
                  *(f"addr add {a} dev {name} nodad" if ":" in a else f"addr add {a} dev {name}" for a in addrs))

    def tun(self, name):
        """A tunnel that a program holds, as a VPN client does: it has carrier"""
        self.host(f"tuntap add {name} mode tun", f"link set {name} up")
        self.client = subprocess.Popen(["ip", "netns", "exec", self.hst, "socat", f"TUN,tun-name={name},iff-up", "PIPE"])
        end = time.monotonic() + 10
        while "LOWER_UP" not in self.run("ip", "-n", self.hst, "link", "show", "dev", name):
            assert time.monotonic() < end, f"{name} got no carrier"
            time.sleep(.01)

    def sysctl(self, ns, key, value):
        self.run("ip", "netns", "exec", ns, "sysctl", "-qw", f"{key}={value}")

    def go(self, *opts, name="tap0", fails=False):
        """Configure; the probe's report as a dictionary"""
        argv = [self.probe, *opts, f"/run/netns/{self.hst}", f"/run/netns/{self.ct}", name]
        self.log.append(" ".join(argv))
        self.proc = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        got = {}
        for line in self.proc.stdout:
            if line == "ready\n":
                break
            key, _, val = line.rstrip("\n").partition(" ")
            got[key] = val
        else:
            err = self.proc.stderr.read()
            self.proc.wait(10)
            if not fails:
                raise AssertionError("\n".join([f"probe failed: {err}", *self.log]))
            assert self.proc.returncode == 1, err
            return err
        assert not fails, "the probe was expected to fail"
        tentative = self.run("ip", "-n", self.ct, "-6", "addr", "show", "tentative")
        assert not tentative, tentative  # A32: ready at the moment the first process runs
        return got

    def json(self, *argv):
        return json.loads(self.run("ip", "-n", self.ct, "-j", *argv) or "[]")

    def routes(self, fam="-4"):
        """(destination, gateway, on-link flag) of each route of the namespace, the kernel's own IPv6 ones left out"""
        out = []
        for r in self.json("-d", fam, "route", "show", "table", "main"):
            gw = r.get("gateway") or (r.get("via") or {}).get("host")
            if not r["dst"].startswith("fe80:"):
                out.append((r["dst"], gw, "onlink" in r.get("flags", [])))
        return out

    def addrs(self, fam="-4"):
        return [(a["local"], a["prefixlen"]) for l in self.json(fam, "addr", "show", "dev", "tap0") for a in l["addr_info"]
                if a["scope"] != "link"]

    def leads(self, dst):
        """The namespace would send DST through the tap"""
        got = json.loads(self.run("ip", "-n", self.ct, "-j", "route", "get", dst))[0]
        assert got["dev"] == "tap0", got
        return got

    def close(self):
        if self.proc:
            self.proc.stdin.close()
            self.proc.wait(10)
        if self.client:
            self.client.kill()
            self.client.wait()
        for ns in (self.hst, self.ct):
            subprocess.run(["ip", "netns", "del", ns], check=False)
        assert not self.proc or not self.proc.returncode, self.proc.stderr.read()


@pytest.fixture
def pair(probe):
    made = Pair(probe)
    yield made
    made.close()


def test_plain(pair):
    pair.link("up0", "192.0.2.2/24", "2001:db8:1::2/64", "fe80::2/64")
    pair.host("route add default via 192.0.2.1", "-6 route add default via fe80::1 dev up0",
              "route add 10.1.0.0/16 via 192.0.2.7 metric 50", "route add 10.2.0.0/16 dev up0 src 192.0.2.2")
    got = pair.go("-m", "65520", "-M", "02:00:00:00:00:05")
    assert (got["if4"], got["why4"], got["gw4"], got["our_addr4"]) == ("up0", "default", "192.0.2.1", "192.0.2.1")
    assert (got["if6"], got["why6"], got["gw6"], got["our_addr6"]) == ("up0", "default", "fe80::1", "fe80::1")
    assert got["warns"] == "0", got
    assert pair.addrs() == [("192.0.2.2", 24)] and pair.addrs("-6") == [("2001:db8:1::2", 64)]
    assert sorted(pair.routes()) == sorted([("default", "192.0.2.1", False), ("10.1.0.0/16", "192.0.2.7", False),
                                            ("10.2.0.0/16", None, False), ("192.0.2.0/24", None, False)])
    assert ("default", "fe80::1", False) in pair.routes("-6")
    assert got["linklocal"] == "fe80::ff:fe00:5"
    link = pair.json("-d", "link", "show", "dev", "tap0")[0]
    assert (link["mtu"], link["address"], link["inet6_addr_gen_mode"]) == (65520, "02:00:00:00:00:05", "eui64")
    assert "UP" in pair.json("link", "show", "dev", "lo")[0]["flags"]  # TAP-7
    assert pair.leads("198.51.100.1")["prefsrc"] == "192.0.2.2"
    assert pair.leads("2001:db8:2::1")["prefsrc"] == "2001:db8:1::2"


def test_no_network(pair):  # A01, A03: only lo
    got = pair.go()
    assert (got["local4"], got["local6"], got["if4"], got["warns"]) == ("1", "1", "", "0")
    assert pair.addrs() == [("169.254.2.1", 16)] and pair.addrs("-6") == []
    assert ("default", "169.254.2.2", False) in pair.routes() and pair.routes("-6") == [("default", "fe80::1", False)]
    pair.leads("198.51.100.1")
    pair.leads("2001:db8:2::1")


def test_one_family_only(pair):  # CFG-5: local mode for the other
    pair.link("up0", "192.0.2.2/24")
    pair.host("route add default via 192.0.2.1")
    got = pair.go()
    assert (got["local4"], got["local6"]) == ("0", "1")
    pair.leads("198.51.100.1")
    pair.leads("2001:db8:2::1")


def test_link_down(pair):  # A01, A07: the uplink is down at the start
    pair.host("link add up0 type veth peer name up0p")
    assert pair.go()["local4"] == "1"


def test_half_default_on_tun(pair):  # A04
    pair.link("up0", "192.0.2.2/24")
    pair.tun("tun0")
    pair.host("addr add 10.8.0.6 peer 10.8.0.5 dev tun0",
              "addr add fd08::6/64 dev tun0 nodad", "route add 0.0.0.0/1 dev tun0", "route add 128.0.0.0/1 dev tun0",
              "-6 route add ::/1 dev tun0", "-6 route add 8000::/1 dev tun0")
    got = pair.go()
    assert (got["if4"], got["why4"], got["ours4"], got["gw4"]) == ("tun0", "half", "yes", "169.254.2.2")
    assert (got["if6"], got["why6"], got["warns"]) == ("tun0", "half", "0")
    assert pair.addrs() == [("10.8.0.6", 32)]
    for dst in ("198.51.100.1", "203.0.113.8", "192.0.2.1", "10.8.0.5"):
        assert pair.leads(dst)["prefsrc"] == "10.8.0.6"
    pair.leads("2001:db8:2::1")


def test_late_default(pair):  # A06: address but no default route
    pair.link("up0", "192.0.2.2/24", "2001:db8:1::2/64")
    got = pair.go()
    assert (got["if4"], got["why4"], got["local4"], got["ours4"]) == ("up0", "route", "0", "yes")
    assert ("default", "169.254.2.2", True) in pair.routes() and ("default", "fe80::1", False) in pair.routes("-6")
    assert pair.leads("198.51.100.1")["prefsrc"] == "192.0.2.2"
    assert pair.leads("2001:db8:2::1")["prefsrc"] == "2001:db8:1::2"


def test_linkdown(pair):  # A09
    pair.link("up0", "192.0.2.2/24", "2001:db8:1::2/64", peer_up=False)
    pair.link("up1", "198.51.100.2/24", "2001:db8:2::2/64")
    pair.host("route add default via 192.0.2.1 metric 100", "route add default via 198.51.100.1 metric 600",
              "-6 route add default via 2001:db8:1::1 metric 100", "-6 route add default via 2001:db8:2::1 metric 600")
    got = pair.go()
    assert (got["if4"], got["gw4"], got["if6"], got["gw6"]) == ("up1", "198.51.100.1", "up1", "2001:db8:2::1")


def test_all_linkdown(pair):  # better than nothing
    pair.link("up0", "192.0.2.2/24", peer_up=False)
    pair.host("route add default via 192.0.2.1")
    assert pair.go()["if4"] == "up0"
    pair.leads("198.51.100.1")


def test_lowest_metric(pair):
    pair.link("up0", "192.0.2.2/24")
    pair.link("up1", "198.51.100.2/24")
    pair.host("route add default via 192.0.2.1 metric 700", "route add default via 198.51.100.1 metric 600")
    assert pair.go()["if4"] == "up1"


@pytest.mark.parametrize("how", ["scope link", "onlink"])
def test_host_address(pair, how):  # A16
    pair.link("up0", "203.0.113.9/32", "2001:db8:9::9/128")
    if how == "onlink":
        pair.host("route add default via 172.31.1.1 dev up0 onlink", "-6 route add default via 2001:db8:f::1 dev up0 onlink")
    else:
        pair.host("route add 172.31.1.1 dev up0 scope link", "route add default via 172.31.1.1",
                  "-6 route add 2001:db8:f::1 dev up0", "-6 route add default via 2001:db8:f::1 dev up0")
    got = pair.go()
    assert got["warns"] == "0" and got["gw4"] == "172.31.1.1" and got["gw6"] == "2001:db8:f::1"
    assert ("default", "172.31.1.1", how == "onlink") in pair.routes()
    assert ("default", "2001:db8:f::1", how == "onlink") in pair.routes("-6")
    assert pair.leads("198.51.100.1")["prefsrc"] == "203.0.113.9"


def test_gateway_outside(pair):
    """-a replaces the address that the gateway's subnet came with"""
    pair.link("up0", "203.0.113.9/32", "2001:db8:9::9/128")
    pair.host("route add default via 172.31.1.1 dev up0 onlink", "-6 route add default via 2001:db8:f::1 dev up0 onlink")
    got = pair.go("-a", "10.9.9.9/32", "-a", "fd09::9/64", "-g", "10.1.1.1", "-g", "fd01::1")
    assert pair.routes() == [("default", "10.1.1.1", True)]
    assert ("default", "fd01::1", True) in pair.routes("-6")
    assert got["warns"] == "0"


def test_gateway_without_route(pair):
    """What led to the gateway when the route was set is gone: declared on-link (A16), in the order of the table"""
    pair.link("up0")
    pair.host("addr add 192.0.2.2/24 dev up0 noprefixroute", "addr add 2001:db8:1::2/64 dev up0 nodad noprefixroute",
              "route add 192.0.2.0/24 dev up0", "route add default via 192.0.2.1", "route add 10.1.0.0/16 via 192.0.2.9",
              "route del 192.0.2.0/24 dev up0", "-6 route add 2001:db8:1::/64 dev up0",
              "-6 route add default via 2001:db8:1::1", "-6 route del 2001:db8:1::/64 dev up0")
    got = pair.go()
    assert got["warns"] == "0"
    assert pair.routes() == [("default", "192.0.2.1", True), ("10.1.0.0/16", "192.0.2.9", True)]
    assert ("default", "2001:db8:1::1", True) in pair.routes("-6")


def test_A18_static(pair):  # A18: the address is that of the network
    pair.link("up0", "192.0.2.2/24")
    pair.host("route add default via 192.0.2.1", "route add 10.0.2.0/25 via 192.0.2.9")
    got = pair.go("-a", "10.0.2.0/24", "-g", "10.0.2.2", "-m", "1500")
    assert pair.addrs() == [("10.0.2.0", 24)]
    assert sorted(pair.routes()) == [("10.0.2.0/24", None, False), ("default", "10.0.2.2", False)]
    assert pair.leads("10.0.2.3")["prefsrc"] == "10.0.2.0"
    assert got["warns"] == "0"


def test_given_address_copied_routes(pair):  # -a without -g
    pair.link("up0", "192.0.2.2/24", "2001:db8:1::2/64")
    pair.host("route add default via 192.0.2.1 src 192.0.2.2", "-6 route add default via 2001:db8:1::1")
    got = pair.go("-a", "10.0.2.9/24", "-a", "fd02::9/64")
    assert got["warns"] == "0"
    assert ("default", "192.0.2.1", False) in pair.routes() and ("default", "2001:db8:1::1", False) in pair.routes("-6")
    assert pair.leads("198.51.100.1")["prefsrc"] == "10.0.2.9"


def test_lifetimes_labels_and_deprecated(pair):  # A19
    pair.link("up0")
    pair.host("addr add 192.0.2.2/24 brd + dev up0 label up0:dhcp valid_lft 200 preferred_lft 100",
              "addr add 192.0.2.3/24 dev up0 valid_lft 200 preferred_lft 0",
              "addr add 2001:db8:1::2/64 dev up0 nodad valid_lft 200 preferred_lft 100",
              "addr add 2001:db8:1::3/64 dev up0 nodad valid_lft 200 preferred_lft 0",
              "route add default via 192.0.2.1", "-6 route add default via 2001:db8:1::1 expires 100")
    assert pair.go()["warns"] == "0"
    assert pair.addrs() == [("192.0.2.2", 24)] and pair.addrs("-6") == [("2001:db8:1::2", 64)]
    for a in (i for l in pair.json("addr", "show", "dev", "tap0") for i in l["addr_info"]):
        assert a["valid_life_time"] == a["preferred_life_time"] == 2**32 - 1, a
        assert a.get("label", "tap0") == "tap0"
    assert all("expires" not in r for r in pair.json("-6", "route"))


def test_multipath(pair):
    """Highest weight, last among equals; hops over other interfaces stay there"""
    pair.link("up0", "192.0.2.2/24", "2001:db8:1::2/64")
    pair.link("up1", "198.51.100.2/24")
    pair.host("route add default nexthop via 192.0.2.11 weight 2 nexthop via 192.0.2.12 weight 5 "
              "nexthop via 192.0.2.13 weight 5 nexthop via 198.51.100.1 weight 9",
              "-6 route add default nexthop via 2001:db8:1::11 weight 3 nexthop via 2001:db8:1::12 weight 1")
    got = pair.go("-i", "up0")
    assert (got["gw4"], got["gw6"], got["warns"]) == ("192.0.2.13", "2001:db8:1::11", "0")
    assert ("default", "192.0.2.13", False) in pair.routes() and ("default", "2001:db8:1::11", False) in pair.routes("-6")


@pytest.mark.parametrize("compat", [1, 0])
def test_nexthop_objects(pair, compat):
    pair.sysctl(pair.hst, "net.ipv4.nexthop_compat_mode", compat)
    pair.link("up0", "192.0.2.2/24", "2001:db8:1::2/64")
    pair.host("nexthop add id 1 via 192.0.2.1 dev up0", "nexthop add id 2 via 192.0.2.9 dev up0",
              "nexthop add id 10 group 1,7/2,3", "route add default nhid 10", "route add 10.0.0.0/8 nhid 2",
              "nexthop add id 6 via 2001:db8:1::1 dev up0", "-6 route add default nhid 6")
    got = pair.go()
    assert (got["why4"], got["gw4"], got["why6"], got["gw6"]) == ("default", "192.0.2.1", "default", "2001:db8:1::1")
    assert ("default", "192.0.2.1", False) in pair.routes() and ("10.0.0.0/8", "192.0.2.9", False) in pair.routes()
    assert ("default", "2001:db8:1::1", False) in pair.routes("-6")
    assert got["warns"] == "0"


@pytest.mark.parametrize("v6", [True, False])
def test_ipv4_via_ipv6(pair, v6):
    """Without IPv6 in the namespace the gateway can't be expressed, and is left out: the route still leads to us"""
    pair.link("up0", "203.0.113.9/32", "fe80::2/64")
    pair.host("route add 0.0.0.0/0 via inet6 fe80::1 dev up0")
    if not v6:
        pair.sysctl(pair.ct, "net.ipv6.conf.default.disable_ipv6", 1)
    got = pair.go()
    assert (got["if4"], got["ours4"], got["gw4"]) == ("up0", "yes", "169.254.2.2")
    assert ("default", "fe80::1" if v6 else None, False) in pair.routes()
    assert pair.leads("198.51.100.1")["prefsrc"] == "203.0.113.9"
    assert got["warns"] == ("0" if v6 else "1")


@pytest.mark.parametrize("where", ["all", "default"])
def test_ipv6_disabled(pair, where):  # A23
    pair.sysctl(pair.ct, f"net.ipv6.conf.{where}.disable_ipv6", 1)
    pair.link("up0", "192.0.2.2/24", "2001:db8:1::2/64")
    pair.host("route add default via 192.0.2.1", "-6 route add default via 2001:db8:1::1")
    got = pair.go()
    assert (got["on4"], got["on6"], got["warns"]) == ("1", "0", "1") and "IPv6" in got["warn0"]
    pair.leads("198.51.100.1")


def test_ipv6_disabled_on_host(pair):
    pair.sysctl(pair.hst, "net.ipv6.conf.all.disable_ipv6", 1)
    got = pair.go()
    assert (got["local6"], got["warns"]) == ("1", "0")


def test_small_mtu(pair):
    """Below 1280 the kernel takes IPv6 away"""
    got = pair.go("-m", "1000")
    assert (got["on4"], got["on6"], got["warns"]) == ("1", "0", "1") and "1280" in got["warn0"]
    pair.leads("198.51.100.1")


def test_impossible_mtu_is_a_warning(pair):
    got = pair.go("-m", "10")
    assert got["on4"] == "1" and "MTU" in got["warn0"]
    pair.leads("198.51.100.1")


@pytest.mark.parametrize("opt,on,off", [("-4", "on4", "on6"), ("-6", "on6", "on4")])
def test_one_family_asked_for(pair, opt, on, off):
    got = pair.go(opt)
    assert (got[on], got[off], got["warns"]) == ("1", "0", "0")
    assert not pair.json("-6" if opt == "-4" else "-4", "addr", "show", "dev", "tap0")


def test_many_routes(pair):
    pair.link("up0", "192.0.2.2/24", "2001:db8:1::2/64", "fe80::2/64")
    pair.host("route add default via 192.0.2.1", "-6 route add default via fe80::1 dev up0",
              *(f"route add 10.{i >> 8}.{i & 255}.0/24 via 192.0.2.{i % 200 + 10}" for i in range(5000)),
              *(f"-6 route add fd00:{i:x}::/32 via fe80::1 dev up0" for i in range(5000)))
    start = time.monotonic()
    got = pair.go()
    print(f"{got['ms']} ms with sanitizers, {time.monotonic() - start:.2f} s in all")
    assert (got["routes4"], got["routes6"], got["warns"]) == ("5001", "5001", "0")
    assert len(pair.routes()) == 5002 and float(got["ms"]) < 5000


def test_routes_that_change_while_read(pair):
    """An interrupted dump is read again; nothing of the stable part may be missing"""
    pair.link("up0", "192.0.2.2/24")
    pair.host("route add default via 192.0.2.1", *(f"route add 10.0.{i & 255}.{i >> 8}/32 dev up0" for i in range(2000)))
    change = subprocess.Popen(["ip", "netns", "exec", pair.hst, "sh", "-c",
                               "while :; do ip route add 10.255.0.0/16 dev up0; ip route del 10.255.0.0/16; done"],
                              stderr=subprocess.DEVNULL)
    try:
        got = pair.go()
    finally:
        change.kill()
        change.wait()
    assert got["gw4"] == "192.0.2.1" and int(got["routes4"]) in (2001, 2002)


def test_dependencies_and_metrics(pair):
    """Order in the host's table is by prefix, so a gateway's route may come last"""
    pair.link("up0", "192.0.2.2/24", "2001:db8:1::2/64")
    pair.host("route add 172.31.0.0/16 dev up0 scope link", "route add 10.0.0.0/8 via 172.31.0.1",
              "route add default via 172.31.0.1 mtu 1400 advmss 1300 initcwnd 20 metric 7",
              "-6 route add fd31::/16 dev up0", "-6 route add default via fd31::1 mtu 1400",
              "route add 10.3.0.0/16 via 172.31.0.1 mtu 9000")
    got = pair.go("-m", "1500")
    assert got["warns"] == "0"
    default = next(r for r in pair.json("-4", "route") if r["dst"] == "default")
    assert default["metric"] == 7 and default["metrics"] == [{"mtu": 1400, "advmss": 1300, "initcwnd": 20}]
    assert "metrics" not in next(r for r in pair.json("-4", "route") if r["dst"] == "10.3.0.0/16")
    assert pair.leads("2001:db8:2::1")["gateway"] == "fd31::1"


def test_no_prefix_route(pair):
    """As NetworkManager sets addresses: the subnet's route is its own, with a metric"""
    pair.link("up0")
    pair.host("addr add 192.0.2.2/24 dev up0 noprefixroute",
              "route add 192.0.2.0/24 dev up0 proto kernel scope link src 192.0.2.2 metric 100",
              "route add default via 192.0.2.1 metric 100",
              "addr add 2001:db8:1::2/64 dev up0 nodad noprefixroute", "-6 route add 2001:db8:1::/64 dev up0 metric 100",
              "-6 route add default via 2001:db8:1::1 metric 100")
    assert pair.go()["warns"] == "0"
    assert [(r["dst"], r.get("metric")) for r in pair.json("-4", "route")] == [("default", 100), ("192.0.2.0/24", 100)]
    pair.leads("2001:db8:2::1")


def test_name(pair):  # -i; A20: an interface without default route
    pair.link("up0", "192.0.2.2/24")
    pair.link("up1", "198.51.100.2/24")
    pair.host("route add default via 192.0.2.1")
    got = pair.go("-i", "up1")
    assert (got["if4"], got["why4"], got["addr4"]) == ("up1", "name", "198.51.100.2")
    assert pair.leads("192.0.2.1")["prefsrc"] == "198.51.100.2"


def test_name_unknown(pair):
    assert "no network interface nosuch0" in pair.go("-i", "nosuch0", fails=True)
    pair.proc = None


def test_policy_routing(pair):  # A21: what other tables say is left to the host's sockets
    pair.link("up0", "192.0.2.2/24")
    pair.tun("wg0")
    pair.host("addr add 10.9.0.2/32 dev wg0",
              "route add default via 192.0.2.1", "route add default dev wg0 table 51820",
              "rule add not fwmark 51820 lookup 51820", "rule add lookup main suppress_prefixlength 0")
    got = pair.go()
    assert (got["if4"], got["gw4"]) == ("up0", "192.0.2.1")
    pair.leads("198.51.100.1")


def test_namespace_with_a_network(pair):
    """Joining a namespace that has routes already: they stay, and are no error"""
    pair.link("up0", "192.0.2.2/24")
    pair.host("route add default via 192.0.2.1", "route add 10.5.0.0/16 via 192.0.2.9")
    pair.run("ip", "-n", pair.ct, "link", "add", "old0", "type", "veth", "peer", "name", "old0p")
    pair.run("ip", "-n", pair.ct, "link", "set", "old0", "up")
    pair.run("ip", "-n", pair.ct, "route", "add", "10.5.0.0/16", "dev", "old0")
    got = pair.go()
    assert got["warns"] == "0"
    assert any(r["dst"] == "10.5.0.0/16" and r["dev"] == "old0" for r in pair.json("-4", "route"))
