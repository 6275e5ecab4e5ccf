# SPDX-License-Identifier: BSD-3-Clause
"""A guest made of bytes: owns an address on the container's tap that no kernel owns, and speaks TCP segment by segment.

The container's kernel loses its addresses, so it neither answers nor resets anything. Wire is the link (an AF_PACKET socket
with virtio-net headers, as super-frames and partial checksums come that way), Conn one connection seen from the guest, Net
opens connections. Each segment that arrives is checked for what must hold in every test: see Conn.check.
"""
import random
import re
import socket
import struct
import time

from scapy.layers.inet import ICMP, IP, TCP
from scapy.layers.inet6 import ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptDstLLAddr, IPv6
from scapy.layers.l2 import ARP, Ether

import lab as L
from nsnet import Task

FIN, SYN, RST, PSH, ACK, URG = 1, 2, 4, 8, 16, 32
SOL_PACKET, PACKET_VNET_HDR, PACKET_OUTGOING, SO_RCVBUFFORCE = 263, 15, 4, 33
MTU = 1500
MSS = {4: MTU - 40, 6: MTU - 60}
MOD = 1 << 32
OPTS = [("MSS", 1460), ("NOP", None), ("WScale", 7)]
ALL_OPTS = [("MSS", 1460), ("SAckOK", b""), ("Timestamp", (1000, 0)), ("NOP", None), ("WScale", 7)]  # as Linux


def diff(a, b):
    """a - b of sequence numbers, signed."""
    return (a - b + (MOD >> 1)) % MOD - (MOD >> 1)


def csum(data):
    data += b"\0" * (len(data) % 2)
    s = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while s >> 16:
        s = (s & 0xffff) + (s >> 16)
    return s


class Seg:
    """A TCP segment from the program: `raw` from the IP header on, `mss` the size of its pieces on a real wire."""

    def __init__(self, frame, vnet):
        ip = Ether(frame).payload
        frame = frame[:14 + (ip.len if ip.version == 4 else 40 + ip.plen)]  # short frames are padded
        ip = Ether(frame).payload
        tcp = ip[TCP]
        self.at, self.raw = time.monotonic(), frame[14:]
        self.src, self.dst, self.sport, self.dport = ip.src, ip.dst, tcp.sport, tcp.dport
        self.seq, self.ack, self.flags, self.win, self.urg = tcp.seq, tcp.ack, int(tcp.flags), tcp.window, tcp.urgptr
        self.opts, self.data = tcp.options, bytes(tcp.payload)
        self.len = len(self.data) + bool(self.flags & SYN) + bool(self.flags & FIN)
        l4 = 20 if ip.version == 4 else 40
        flags, gso, _, gso_size, start, off = struct.unpack("<BBHHHH", vnet)
        self.mss = gso_size if gso else len(self.data)
        fam = socket.AF_INET if ip.version == 4 else socket.AF_INET6
        pseudo = csum(socket.inet_pton(fam, ip.src) + socket.inet_pton(fam, ip.dst) +
                      struct.pack("!II", len(frame) - 14 - l4, 6))
        if flags & 1:  # VIRTIO_NET_HDR_F_NEEDS_CSUM: the field holds the sum of the pseudo header
            assert (start, off) == (14 + l4, 16), "partial checksum in the wrong place"
            assert tcp.chksum == pseudo, f"partial checksum is {tcp.chksum:#x}, not {pseudo:#x}"
        elif not flags & 2:  # not VIRTIO_NET_HDR_F_DATA_VALID
            assert csum(struct.pack("!H", pseudo) + frame[14 + l4:]) == 0xffff, "checksum is wrong"
        if ip.version == 4:
            assert csum(frame[14:34]) == 0xffff, "IPv4 header checksum is wrong"

    def __repr__(self):
        names = "".join(c for i, c in enumerate("FSRPAU") if self.flags >> i & 1)
        return f"<{self.sport}>{self.dport} {names} seq {self.seq} ack {self.ack} win {self.win} len {len(self.data)} {self.opts}>"


class Wire:
    def __init__(self, lab, inst):
        self.lab, self.ns, self.tap = lab, inst.ct, inst.tap
        self.pending, self.others = [], []  # TCP segments, and other packets, that nobody asked for yet
        show = lab.out(*self.ns.prefix, "ip", "addr", "show", "dev", self.tap)
        self.mac = re.search(r"link/ether (\S+)", show).group(1)
        self.addr = dict(L.HST)  # what the program assigns
        assert all(re.search(rf"inet6? {a}/", show) for a in self.addr.values()), f"not configured as expected: {show}"
        self.ns.sysctl(f"net.ipv6.conf.{self.tap}.disable_ipv6", 1)
        self.ns.run("ip", "addr", "flush", "dev", self.tap)
        self.sock = self.ns.call(self._socket)
        self.ours = "ff:ff:ff:ff:ff:ff"
        self.arp_seen = 0
        self.barrier()

    def _socket(self):
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        s.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
        s.bind((self.tap, 3))
        return s

    def close(self):
        self.sock.close()

    def send(self, *packets):
        for p in packets:
            self.sock.send(bytes(10) + bytes(Ether(dst=self.ours, src=self.mac) / p))

    def poll(self, secs):
        """Take one frame, if one comes within the time. ARP and neighbour solicitations are answered here."""
        self.sock.settimeout(max(secs, .0001))
        try:
            data, addr = self.sock.recvfrom(80000)
        except socket.timeout:
            return False
        if addr[2] == PACKET_OUTGOING:
            return True
        vnet, frame = data[:10], data[10:]
        eth = Ether(frame)
        if ARP in eth:
            if eth[ARP].op == 2:
                self.ours, self.arp_seen = eth[ARP].hwsrc, self.arp_seen + 1
            elif eth[ARP].pdst == self.addr[4]:
                self.send(ARP(op=2, hwsrc=self.mac, psrc=self.addr[4], hwdst=eth.src, pdst=eth[ARP].psrc))
        elif ICMPv6ND_NS in eth and eth[ICMPv6ND_NS].tgt == self.addr[6]:
            self.send(IPv6(src=self.addr[6], dst=eth[IPv6].src, hlim=255) / ICMPv6ND_NA(tgt=self.addr[6], R=0, S=1, O=1) /
                      ICMPv6NDOptDstLLAddr(lladdr=self.mac))
        elif TCP in eth and (IP in eth or IPv6 in eth) and ICMP not in eth:
            self.pending.append(Seg(frame, vnet))
        else:
            self.others.append(eth)
        return True

    def take(self, want, secs=5, what="segment"):
        """The first segment that `want` accepts, in order of arrival."""
        end, done = time.monotonic() + secs, 0
        while True:
            for i in range(done, len(self.pending)):
                if want(self.pending[i]):
                    return self.pending.pop(i)
            done = len(self.pending)
            left = end - time.monotonic()
            if left <= 0:
                raise AssertionError(f"not within {secs} s: {what}; instead: {self.pending[-8:]}")
            self.poll(left)

    def barrier(self):
        """All that we sent before has been handled, and what came of it at once has arrived.

        Twice: in one batch of frames ARP may be answered before TCP is looked at.
        """
        for _ in range(2):
            seen, end = self.arp_seen, time.monotonic() + 5
            self.send(ARP(op=1, hwsrc=self.mac, psrc=self.addr[4], pdst=L.GW[4]))
            while self.arp_seen == seen:
                assert time.monotonic() < end, "the program answers no ARP"
                self.poll(.1)

    def forget(self):
        del self.pending[:], self.others[:]


class Conn:
    """One connection, seen from the guest. snd: our next sequence number; rcv: the next one expected from the program."""

    def __init__(self, wire, fam, far, far_port, port, isn=None, win=65535, shift=0):
        self.wire, self.fam, self.far, self.far_port, self.port = wire, fam, far, far_port, port
        self.isn = self.snd = self.max = random.getrandbits(32) if isn is None else isn
        self.rcv, self.win, self.shift, self.far_shift = None, win, shift, 0
        self.edge = self.far_edge = self.far_ack = None
        self.fin = False
        self.ts = self.ts_recent = None  # our clock, and the program's last value, where timestamps were negotiated

    # -- to the program

    def packet(self, flags, data=b"", seq=None, ack=None, win=None, opts=(), urg=0):
        seq = self.snd if seq is None else seq % MOD
        if ack is None:
            ack = self.rcv if flags & ACK else 0
        win = self.win if win is None else win
        if self.ts is not None and not any(o[0] == "Timestamp" for o in opts):
            opts = [("NOP", None), ("NOP", None), ("Timestamp", (self.ts, self.ts_recent))] + list(opts)
        if flags & ACK and not flags & RST and self.rcv is not None:
            edge = (ack + (win << (0 if flags & SYN else self.shift))) % MOD
            if self.edge is None or diff(edge, self.edge) > 0:
                self.edge = edge
        ip = IP(src=self.wire.addr[4], dst=self.far) if self.fam == 4 else IPv6(src=self.wire.addr[6], dst=self.far)
        return ip / TCP(sport=self.port, dport=self.far_port, flags=flags, seq=seq, ack=ack % MOD, window=win, urgptr=urg,
                        options=list(opts)) / data

    def tx(self, flags, data=b"", seq=None, forged=False, **kw):
        """Send a segment; without `seq` it is the next one, and moves `snd`. Forged: must not be accepted."""
        p = self.packet(flags, data, seq, **kw)
        end = (p[TCP].seq + len(data) + bool(flags & SYN) + bool(flags & FIN)) % MOD
        if seq is None:
            self.snd = end
        if not forged and not flags & RST and diff(end, self.max) > 0:
            self.max = end
        self.wire.send(p)

    # -- from the program

    def mine(self, s):
        return (s.src, s.dst, s.sport, s.dport) == (self.far, self.wire.addr[self.fam], self.far_port, self.port)

    def check(self, s):
        """What always holds."""
        if s.flags & RST:
            return s
        if s.flags & ACK:
            assert diff(s.ack, self.max) <= 0, f"acknowledges what was never sent: {s}, sent up to {self.max}"
            assert self.far_ack is None or diff(s.ack, self.far_ack) >= 0, f"acknowledgement moves back: {s}"
            self.far_ack = s.ack
            edge = (s.ack + (s.win << (0 if s.flags & SYN else self.far_shift))) % MOD
            if s.win or s.flags & SYN:  # to nothing it may shrink: the kernel refused something
                assert self.far_edge is None or diff(edge, self.far_edge) >= 0, f"window shrinks by {diff(self.far_edge, edge)}: {s}"
                self.far_edge = edge
        else:
            assert s.flags & SYN, f"neither ACK, RST nor SYN: {s}"
        if self.ts is not None:
            said = dict(s.opts).get("Timestamp")
            assert said, f"a segment without timestamps: {s}"
            assert said[1] <= self.ts, f"echoes what was never sent: {s}"
            self.ts_recent = max(self.ts_recent, said[0])
        if s.data:
            assert self.edge is None or diff(s.seq + len(s.data), self.edge) <= 0, \
                f"{diff(s.seq + len(s.data), self.edge)} bytes beyond the guest's window: {s}"
        return s

    def rx(self, secs=5, flags=None, **want):
        """The next segment; `flags` exactly (PSH aside), and any field of Seg exactly."""
        s = self.check(self.wire.take(self.mine, secs, f"a segment of port {self.port}"))
        assert flags is None or s.flags & ~PSH == flags, f"flags {flags:#x} expected: {s}"
        for k, v in want.items():
            v = v % MOD if k in ("seq", "ack") else v
            assert getattr(s, k) == v, f"{k} {v} expected: {s}"
        return s

    def rx_ack(self, ack=None, secs=5):
        """Skip segments until one acknowledges `ack` (default: all that we sent)."""
        want, end = self.max if ack is None else ack % MOD, time.monotonic() + secs
        while True:
            s = self.rx(max(end - time.monotonic(), .01))
            if s.flags & ACK and s.ack == want:
                return s

    def nothing(self):
        """What was sent before is answered with nothing."""
        self.wire.barrier()
        got = [s for s in self.wire.pending if self.mine(s)]
        assert not got, f"no answer expected: {got}"

    def read(self, cnt=None, ack=True, secs=10):
        """Read `cnt` bytes in order (None: up to FIN), and acknowledge them."""
        got, end = b"", time.monotonic() + secs
        while not self.fin and (cnt is None or len(got) < cnt):
            s = self.rx(max(end - time.monotonic(), .01))
            assert not s.flags & RST, f"reset after {len(got)} bytes: {s}"
            old = diff(self.rcv, s.seq)
            assert old >= 0, f"a gap of {-old} bytes: {s}"
            if old < s.len or (s.len == 0 and s.flags & FIN):
                got += s.data[old:]
                self.rcv = (s.seq + s.len) % MOD
                self.fin = bool(s.flags & FIN)
            if ack and s.len:
                self.tx(ACK)
        return got

    def open_with(self, syn, opts):
        """Takes over what the program's SYN says."""
        said = dict(o for o in syn.opts if o[0] != "NOP")
        both = "WScale" in said and any(o[0] == "WScale" for o in opts)
        self.rcv, self.far_shift = (syn.seq + 1) % MOD, said["WScale"] if both else 0
        self.shift = min(dict(opts)["WScale"], 14) if both else 0
        if "Timestamp" in said and any(o[0] == "Timestamp" for o in opts):
            self.ts, self.ts_recent = dict(opts)["Timestamp"][0], said["Timestamp"][0]


class Net:
    """Opens connections of one family through the program."""

    def __init__(self, lab, wire, fam, fwd_port):
        self.lab, self.wire, self.fam, self.fwd_port = lab, wire, fam, fwd_port
        self.far, self.socks, self.conns = L.PEER[fam], [], []

    def keep(self, sock):
        sock.settimeout(10)
        self.socks.append(sock)
        return sock

    def close(self):
        for s in self.socks:
            s.close()
        for c in self.conns:  # what is left would send its FIN again and again
            if c.rcv is not None:
                c.tx(RST | ACK, seq=c.snd if c.far_ack is None else c.far_ack)
        self.wire.barrier()

    def listen(self, **kw):
        return self.keep(self.lab.peer.listen(self.far, L.port(), **kw))

    def conn(self, far_port, **kw):
        return self.track(Conn(self.wire, self.fam, self.far, far_port, L.port(), **kw))

    def track(self, conn):
        self.conns.append(conn)
        return conn

    def syn(self, srv=None, opts=OPTS, **kw):
        """SYN to a listener at the peer; returns (Conn, listener, SYN,ACK)."""
        srv = srv or self.listen()
        c = self.conn(srv.getsockname()[1], **kw)
        c.tx(SYN, opts=opts)
        s = c.rx(flags=SYN | ACK, ack=c.isn + 1)
        c.open_with(s, opts)
        return c, srv, s

    def dial(self, opts=OPTS, rcvbuf=0, **kw):
        """A connection from the guest; returns (Conn, the peer's socket)."""
        c, srv, _ = self.syn(self.listen(rcvbuf=rcvbuf), opts, **kw)
        c.tx(ACK)
        return c, self.keep(srv.accept()[0])

    def knock(self, **kw):
        """The peer connects; returns (Conn before any answer, the peer's task, the SYN)."""
        task = Task(lambda: self.keep(self.lab.peer.connect(L.HST[self.fam], self.fwd_port)))
        addr = self.wire.addr[self.fam]
        s = self.wire.take(lambda s: s.dst == addr and s.dport == self.fwd_port and s.flags == SYN, 5, "a SYN to the guest")
        c = self.track(Conn(self.wire, self.fam, s.src, s.sport, self.fwd_port, **kw))
        c.rcv = (s.seq + 1) % MOD
        return c, task, s

    def answer(self, opts=OPTS, **kw):
        """A connection to the guest; returns (Conn, the peer's socket)."""
        c, task, s = self.knock(**kw)
        c.tx(SYN | ACK, opts=opts)
        c.open_with(s, opts)
        c.rx(flags=ACK, seq=s.seq + 1, ack=c.isn + 1)
        return c, task.result()

    def reset_at_peer(self, sock, secs=5):
        """The peer's socket sees a reset, not an end of stream."""
        sock.settimeout(secs)
        try:
            got = sock.recv(1000)
        except ConnectionResetError:
            return
        raise AssertionError(f"a reset expected, not {got!r}")

