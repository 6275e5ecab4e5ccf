# SPDX-License-Identifier: BSD-3-Clause
"""A bad link (test/link/testlink.c) between two namespaces, and labs with it at one of three places.

    bare      two kernels, joined by the link: what these kernels achieve without us
    guest     gst -- link -- bridge in the container -- tap -- our program: loss between the guest and us
    host      the link in the place of the veth pair between hst and peer: loss beyond the host's kernel
"""
import json
import os
import re
import select
import signal
import subprocess

import lab as L
from nsnet import until

ROOT = L.ROOT


def build(tools):
    """The tool, once for each worker."""
    path = os.path.join(tools.dir, "testlink")
    if not os.path.exists(path):
        src = [os.path.join(ROOT, *p.split("/")) for p in ("test/link/testlink.c", "test/link/link.c", "src/base/rng.c")]
        subprocess.run([os.environ.get("CC", "cc"), "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra",
                        f"-I{ROOT}/include", "-o", path, *src], check=True)
    return path


class Link:
    """A running testlink; a and b are (namespace, interface name). Ends with its lab."""

    def __init__(self, lab, a, b, seed=1, **opts):
        argv = [build(lab.tools), "--seed", str(seed)]
        for k, v in opts.items():
            argv += ["--" + k.replace("_", "-"), str(v)]
        argv += [f"{ns.path}:{name}" for ns, name in (a, b)]
        self.p = lab.spawn(*argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        os.set_blocking(self.p.stdout.fileno(), False)
        self.buf = ""
        self._line(r"ready seed=\d+")
        for ns, name in (a, b):  # what waits here is not the link's business: nothing is lost that its figures do not show
            ns.run("ip", "link", "set", name, "txqueuelen", "20000")
        self.ends = (a, b)

    def _line(self, pattern, secs=10):
        """The next line of output; it must match."""
        until(lambda: f"line {pattern} of testlink; ended: {self.p.poll()}", lambda: self._more() or self.p.poll() is not None, secs)
        line, _, self.buf = self.buf.partition("\n")
        assert re.fullmatch(pattern, line), f"testlink said {line!r}: {self.p.stderr.read() if self.p.poll() is not None else ''}"
        return line

    def _more(self):
        if "\n" not in self.buf and select.select([self.p.stdout], [], [], 0)[0]:
            self.buf += (self.p.stdout.read() or b"").decode()
        return "\n" in self.buf

    def set(self, **opts):
        """Change the link while it runs: set(loss_ab=100)."""
        for k, v in opts.items():
            self.p.stdin.write(f"{k.replace('_', '-')} {v}\n".encode())
            self.p.stdin.flush()
            self._line("ok")

    def drops(self):
        """Frames that the kernels dropped in front of the link."""
        def count(name):
            with open("/proc/thread-self/net/dev") as f:
                return int(re.search(rf"^\s*{name}:(.*)$", f.read(), re.M).group(1).split()[11])
        return sum(ns.call(lambda name=name: count(name)) for ns, name in self.ends)

    def stats(self):
        self.p.send_signal(signal.SIGUSR1)
        return {d["dir"]: d for d in (json.loads(self._line(r"\{.*\}")) for _ in range(2))}


class LinkLab(L.Lab):
    """A lab with a link. `app` is the namespace of the guest's applications, `link` the Link; peer as ever."""

    def __init__(self, tools, where, mtu=1500, seed=1, **opts):
        self.where, self.mtu = where, mtu
        super().__init__(tools, setup=False)
        try:
            getattr(self, "_" + where)(seed, opts)
        except BaseException:
            self.close()
            raise

    def _instead_of_veth(self, a, seed, opts):
        self.ip("-n", self.hst.name, "link", "del", "up0")
        self.link = Link(self, (a, "up0"), (self.peer, "e0"), seed, **opts)

    def _bare(self, seed, opts):
        self._instead_of_veth(self.hst, seed, opts)
        self.setup()
        self.app = self.hst
        self._quiet(self.hst, "up0", [L.PEER[4], L.PEER[6]], self._mac(self.peer, "e0"))
        self._quiet(self.peer, "e0", [L.HST[4], L.HST[6]], self._mac(self.hst, "up0"))

    def _host(self, seed, opts):
        self._bare(seed, opts)
        self.inst = self.start(mode="pid", mtu=self.mtu)
        self.app = self.inst.ct

    def _guest(self, seed, opts):
        self.setup()
        self.inst = self.start(mode="pid", mtu=self.mtu)
        mid, tap = self.inst.ct, self.inst.tap
        mac = self._mac(mid, tap)
        self.app = self.netns(self.hst.name + "g", "gst")
        self.undo.append(self.app.close)
        self.app.sysctl("net.ipv4.tcp_congestion_control", self.hst.sysctl("net.ipv4.tcp_congestion_control"))
        self.link = Link(self, (self.app, "eth0"), (mid, "tlb"), seed, **opts)
        # what the kernel of `mid` owned moves to the guest; its bridge must not claim the MAC that frames go to
        self.batch(mid, f"addr flush dev {tap}", f"link set {tap} down", f"link set {tap} address 02:00:00:00:00:02",
                   "link add name br0 type bridge mcast_snooping 0", f"link set br0 mtu {self.mtu}")
        for name in (tap, "tlb", "br0"):
            mid.sysctl(f"net.ipv6.conf.{name}.disable_ipv6", 1)
        self.batch(mid, f"link set {tap} master br0", f"link set tlb mtu {self.mtu}", "link set tlb master br0",
                   *[f"link set {name} up" for name in (tap, "tlb", "br0")])
        self.batch(self.app, f"link set eth0 address {mac}", f"link set eth0 mtu {self.mtu}", f"addr add {L.HST[4]}/24 dev eth0",
                   f"addr add {L.HST[6]}/64 dev eth0 nodad", "link set eth0 up", f"route add default via {L.GW[4]} dev eth0 onlink")
        until("our MAC", self._learn)
        self.batch(self.app, f"-6 route add default via {L.GW[6]} dev eth0 onlink")
        self._quiet(self.app, "eth0", [L.GW[4], L.GW[6]], self.our_mac)

    def _learn(self):
        """The program's MAC, by ARP: it answers for the gateway."""
        self.app.run("ping", "-c1", "-W1", L.GW[4], check=False)
        m = re.search(r"lladdr (\S+)", self.out(*self.app.prefix, "ip", "neigh", "show", L.GW[4]))
        self.our_mac = m.group(1) if m else None
        return m

    def _mac(self, ns, name):
        return re.search(r"link/ether (\S+)", self.out(*ns.prefix, "ip", "link", "show", name)).group(1)

    def _quiet(self, ns, dev, addrs, mac):
        """Fixed neighbours: a lost ARP or neighbour solicitation costs a second, which is not what is tested."""
        self.batch(ns, *[f"neigh replace {a} lladdr {mac} dev {dev} nud permanent" for a in addrs])
