# SPDX-License-Identifier: BSD-3-Clause
"""Address translation by the recipes of the problem reports: the host by its own address, by its aliases, through published
ports; what stays closed; resolvers. Every recipe that concerns addresses has its id in a test's name."""
import contextlib
import re
import socket
import struct

import pytest

import lab as L
from nsnet import Ns, Task, UdpServer, checksum, hello, recv_bulk, refused, send_bulk, until
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
