# SPDX-License-Identifier: BSD-3-Clause
"""A kernel without IPv6, as ipv6.disable=1 makes it: to the program, by a library that refuses its sockets."""
import os
import socket
import subprocess

import pytest

import lab as L
from nsnet import UdpServer, hello

REFUSE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>
int socket(int domain, int type, int proto)
{
	int (*real)(int, int, int) = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");

	if (domain != AF_INET6)
		return real(domain, type, proto);
	errno = EAFNOSUPPORT;
	return -1;
}
"""


@pytest.fixture
def without6(lab):
    if lab.tools.sanitized:
        pytest.skip("the sanitizer's library wants to come first")
    src, so = os.path.join(lab.dir, "no6.c"), os.path.join(lab.dir, "no6.so")
    with open(src, "w") as f:
        f.write(REFUSE)
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", so, src, "-ldl"], check=True)
    return ["env", f"LD_PRELOAD={so}"]


def test_v4_works(lab, without6):
    """Published ports of any address, ping, TCP and UDP by IPv4; the container gets no IPv6."""
    p = L.port()
    with lab.start("-t", str(p), "-u", str(p), wrap=without6) as i, i.ct.serve(L.ANY[4], p, hello), \
            UdpServer(i.ct.udp(L.ANY[4], p)), lab.peer.serve(L.PEER[4], p, hello):
        assert i.stderr() == ""
        for ns, to in ((i.ct, L.PEER[4]), (lab.peer, L.HST[4])):
            with ns.connect(to, p) as s:
                assert s.recv(100).startswith(b"hello")
        with lab.peer.udp(to=(L.HST[4], p)) as s:
            s.send(b"x")
            assert s.recv(10) == b"x"
        assert " 0% packet loss" in i.ct.run("ping", "-n", "-c1", "-W5", L.PEER[4]).stdout
        with pytest.raises(OSError), i.ct.sock(socket.AF_INET6, socket.SOCK_STREAM) as s:
            s.connect((L.PEER[6], p))


@pytest.mark.parametrize("opts", [["-6"], ["-t", "[::1]/8081"]], ids=["only6", "listen6"])
def test_v6_refused(lab, without6, opts):
    """What needs IPv6 is refused with one line."""
    r = lab.invoke("--config-net", *opts, "--", "true", wrap=without6)
    assert r.returncode == 1 and len(r.stderr.splitlines()) == 1, r.stderr
