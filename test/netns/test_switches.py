# SPDX-License-Identifier: BSD-3-Clause
"""What can be switched off for comparison: the tap's offloads one by one, and SO_PEEK_OFF. Everything works without them."""
import pytest

import lab as L
from nsnet import UdpServer, checksum, recv_bulk, send_bulk

FAM = pytest.mark.parametrize("fam", [4, 6], ids=["v4", "v6"])
OFF = [["--no-tap-tso"], ["--no-tap-uso"], ["--no-tap-csum"], ["--no-peek-off"], ["--no-tap-csum", "--no-peek-off"]]
MIB = 1 << 20


@FAM
@pytest.mark.parametrize("mtu", [None, 1500], ids=["default", "1500"])
@pytest.mark.parametrize("off", OFF, ids=lambda o: "+".join(w[5:] for w in o))
def test_without(lab, fam, off, mtu):
    """16 MiB each way, and datagrams of many sizes back and forth."""
    p, q, total = L.port(), L.port(), 16 * MIB
    opts = off + (["-m", str(mtu)] if mtu else [])

    def download(s, _):
        send_bulk(s, total, 2)
        recv_bulk(s, 1)
    with lab.start(*opts) as inst, lab.peer.serve(L.PEER[fam], p, download), \
            UdpServer(lab.peer.udp(L.PEER[fam], p)):
        with inst.ct.connect(L.PEER[fam], p) as s:
            assert recv_bulk(s, total) == (total, checksum(total, 2))
        with lab.peer.serve(L.PEER[fam], q, lambda s, _: s.sendall(repr(recv_bulk(s)).encode())):
            with inst.ct.connect(L.PEER[fam], q) as s:
                send_bulk(s, total, 3)
                s.shutdown(1)
                assert s.recv(1000) == repr((total, checksum(total, 3))).encode()
        with inst.ct.udp(to=(L.PEER[fam], p)) as s:
            for size in (1, 2, 999, 1000, 1400, 9000):
                s.send(b"u" * size)
                assert s.recv(65536) == b"u" * size
