# SPDX-License-Identifier: BSD-3-Clause
"""Life cycle: exit status, detaching, the end of a namespace, wrong input, files, an idle program."""
import fcntl
import json
import os
import re
import signal
import socket
import stat
import subprocess
import time

import pytest

import lab as L
from nsnet import Ns, hello, until

SO_RCVBUFFORCE = 33
MODE = pytest.mark.parametrize("mode", L.MODES)
CONF = ["--config-net", "-t", "none", "-u", "none", "-T", "none", "-U", "none"]
pytestmark = [pytest.mark.xdist_group("life"), pytest.mark.first]


# -- a command

@pytest.mark.parametrize("status", [0, 1, 7, 42, 255])
def test_exit_status(lab, status):
    assert lab.invoke(*CONF, "--", "sh", "-c", f"exit {status}").returncode == status


def test_signal_of_command(lab):
    """128 + signal. The command may be the first process of its namespace, so the signal comes from outside."""
    with lab.start() as i:
        os.kill(i.hold.pid, signal.SIGKILL)
        assert i.gone(5) == 128 + signal.SIGKILL
    assert lab.invoke(*CONF, "--", "sh", "-c", "sh -c 'kill -TERM $$'").returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("cmd", ["/no/such/program", "no-such-program", "/etc/passwd"])
def test_exec_failure(lab, cmd):
    r = lab.invoke(*CONF, "-q", "--", cmd)
    assert r.returncode == 1
    assert cmd in r.stderr and len(lines(r)) == 1, r.stderr


def test_command_output_and_arguments(lab):
    """The command has our standard streams, its own options (even those that we know), environment and directory."""
    r = subprocess.run([*lab.hst.prefix, *L.AS_USER, lab.tools.pasta, *CONF, "--", "sh", "-c", 'read x; echo "$x $0 $@"; pwd; echo err >&2',
                        "-f", "--help", "-F", "3"], input="in\n", text=True, capture_output=True, timeout=20, env=lab.tools.env(), cwd="/usr")
    assert r.stdout == "in -f --help -F 3\n/usr\n"
    assert "err" in r.stderr and r.returncode == 0


def test_nothing_printed(lab):
    """A command's output is its own: with -q nothing of ours is added on standard output or error."""
    r = lab.invoke(*CONF, "-q", "--", "echo", "only this")
    assert (r.stdout, r.stderr) == ("only this\n", "")


def test_shell(lab):
    """No command: $SHELL as a login shell, in the namespace."""
    r = subprocess.run([*lab.hst.prefix, *L.AS_USER, lab.tools.pasta, *CONF], input="echo $0; ip -4 -o addr; exit 5\n", text=True,
                       capture_output=True, timeout=20, env=lab.tools.env(), cwd="/")
    assert r.returncode == 5, r.stderr
    assert r.stdout.startswith("-") and L.HST[4] + "/24" in r.stdout


def test_command_is_root_inside(lab):
    r = lab.invoke(*CONF, "--", "sh", "-c", "id -u; cat /proc/self/uid_map; grep CapEff /proc/self/status; echo $$; ls -d /proc/1")
    assert r.stdout.split()[0] == "0" and str(L.UID) in r.stdout and "0000000000000000" not in r.stdout


def test_ready_before_command(lab):
    """A32: when the command runs, addresses, routes and links are there and IPv6 addresses are not tentative."""
    for _ in range(8):
        p = L.port()
        with lab.peer.serve(L.PEER[6], p, hello):
            r = lab.invoke(*CONF, "--", "sh", "-c", f"ip addr; ip -6 route; curl -sS -m3 telnet://[{L.PEER[6]}]:{p}")
        assert "tentative" not in r.stdout and f"hello {L.HST[6]}" in r.stdout, r.stdout + r.stderr
        assert "state DOWN" not in r.stdout


def proc_state(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rsplit(")", 1)[1].split()[0]


@pytest.mark.parametrize("fam", [4, 6], ids=["v4", "v6"])
def test_last_words(lab, fam):
    """What a command sent before its end goes out, however busy the program is: here it sees all of it and the end at once."""
    p = L.port()
    far = lab.peer.udp(L.PEER[fam], p)
    far.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20)
    with far, lab.start() as i, i.ct.udp(to=(L.PEER[fam], p)) as app:
        app.send(b"here")
        assert far.recv(10) == b"here"
        i.signal(signal.SIGSTOP)
        until("stopped", lambda: proc_state(i.pid) == "T")
        for n in range(400):
            app.send(b"%d" % n)
        i.hold.end()
        until("the end of the command", lambda: proc_state(i.hold.pid) == "Z")
        i.signal(signal.SIGCONT)
        assert i.gone(5) == 0
        assert [far.recv(10) for _ in range(400)] == [b"%d" % n for n in range(400)]


# -- a daemon

@pytest.mark.parametrize("mode", ["pid", "path"])
def test_detached(lab, mode):
    """The parent ended with 0 only when all was ready (start() checks the PID file); the rest is left in the background."""
    p = L.port()
    with lab.start("-t", str(p), "-T", "auto", mode=mode) as i:
        assert i.pid != i.proc.pid and i.alive()
        listening = {x.split()[3].rsplit(":", 1)[1] for x in lab.out(*lab.hst.prefix, "ss", "-Htln").splitlines()}
        assert str(p) in listening  # published already: listeners are bound before readiness
        assert os.getsid(i.pid) != os.getsid(0)
        for pid in (int(x) for x in lab.out("ps", "-o", "pid=", "--ppid", str(i.pid)).split()):
            assert os.getsid(pid) != os.getsid(0)  # the helper in the namespace: who ends the caller's group spares it
        for fd in (0, 1, 2):
            assert os.readlink(f"/proc/{i.pid}/fd/{fd}") == "/dev/null"
        i.signal(signal.SIGTERM)
        i.gone(1)


def test_starter_is_ended(lab):
    """Who ends the starting process before it has told the daemon's PID leaves nothing that nobody knows."""
    _, hold = lab.holder(["unshare", "-rUn"])
    fifo = lab.file("fifo")
    os.mkfifo(fifo)
    os.chown(fifo, L.UID, L.UID)
    full = os.open(fifo, os.O_RDWR)
    fcntl.fcntl(full, fcntl.F_SETPIPE_SZ, 4096)
    os.write(full, b"x" * 4096)
    p = lab.spawn(*lab.argv(*CONF, "-P", fifo, str(hold.pid)))

    def there():
        return "up0" in lab.out("nsenter", "-t", str(hold.pid), "-n", "ip", "-br", "link")

    def writes():
        with open(f"/proc/{p.pid}/syscall") as f:
            return f.read().split()[0] in ("1", "64")  # on x86-64, on aarch64
    until("the daemon is there", there)
    until("its parent writes", writes)
    p.kill()
    p.wait()
    until("the daemon has gone", lambda: not there())
    os.close(full)


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGQUIT])
def test_terminated(lab, sig):
    with lab.start(mode="pid", fg=True) as i:
        i.signal(sig)
        assert i.gone(1) == 0


def test_report(lab):
    """What is told at the start has the shape that callers look for (R30): these lines, one after the other."""
    with lab.start(mode="pid", fg=True) as i:
        said = i.stderr()
    tap = re.search("Namespace interface: (.*)", said)[1]
    assert f"Template interface: {tap} (IPv4), {tap} (IPv6)\n" in said
    assert "DHCP:\n    assign: 10.77.0.2\n    mask: 255.255.255.0\n    router: 10.77.0.1\n" in said


@pytest.mark.parametrize("reader", ["idle", "gone"])
def test_nobody_reads_the_log(lab, reader):
    """Who took our standard error and reads no more of it, or can't, doesn't stop the namespace's network."""
    _, hold = lab.holder(["unshare", "-rUn"])
    ct = Ns(f"/proc/{hold.pid}/ns/net", "ct", lab)
    r, w = os.pipe()
    fcntl.fcntl(w, fcntl.F_SETPIPE_SZ, 4096)
    p = lab.spawn(*lab.argv("-f", "--trace", *CONF, str(hold.pid)), stderr=w)
    os.close(w)
    with os.fdopen(r, "rb", 0) as log, lab.peer.serve(L.PEER[4], (port := L.port()), hello):
        text = b""
        while b"Engine" not in text:  # the last line before we serve
            text += (got := log.read(4096))
            assert got, text
        if reader == "gone":
            log.close()
        for _ in range(30):
            with ct.connect(L.PEER[4], port, timeout=5) as s:
                assert s.recv(99)
        if reader == "idle":
            until("lines are lost", lambda: b"lines lost, nobody read" in log.read(4096) or ct.connect(L.PEER[4], port).close())
        assert p.poll() is None
        p.terminate()
        assert p.wait(5) == 0
    ct.close()


@pytest.mark.parametrize("fg", [False, True], ids=["daemon", "foreground"])
def test_process_ends(lab, fg):
    """The process whose namespace we joined ends: we end, with 0, within a second."""
    with lab.start(mode="pid", fg=fg) as i:
        i.ct.close()  # ours would keep it alive
        os.kill(i.hold.pid, signal.SIGKILL)
        assert i.gone(1) == (0 if fg else None)


def test_netns_file_removed(lab):
    """The netns file is unmounted and unlinked (as container engines do): we end within a second."""
    with lab.start(mode="path", fg=True) as i:
        lab.run("umount", "-l", i.nsfile)
        os.unlink(i.nsfile)
        i.ct.close()
        i.hold.end()
        assert i.gone(1) == 0


def test_C01_restart_at_once(lab):
    """C01: a published port is free for the next instance as soon as the netns file of the last one is gone."""
    p = L.port()
    for _ in range(10):
        with lab.start("-t", str(p), mode="path") as i:
            lab.run("umount", "-l", i.nsfile)
            os.unlink(i.nsfile)
            i.hold.end()
            i.ct.close()
            i.gone(1)
            i.nsfile = None


def test_no_netns_quit(lab):
    """--no-netns-quit: the namespace file goes, we stay."""
    with lab.start("--no-netns-quit", mode="path") as i:
        lab.run("umount", "-l", i.nsfile)
        os.unlink(i.nsfile)
        i.ct.close()
        time.sleep(1.5)  # absence of an event: there is nothing to wait for
        assert i.alive()
        i.nsfile = None


def test_proc_path(lab):
    """--netns /proc/PID/ns/net with --userns."""
    _, hold = lab.holder(["unshare", "-rUn"])
    pidfile = lab.file("pid")
    r = lab.invoke(*CONF, "-P", pidfile, "--netns", f"/proc/{hold.pid}/ns/net", "--userns", f"/proc/{hold.pid}/ns/user")
    assert r.returncode == 0, r.stderr
    pid = int(L._content(pidfile))
    fd = os.pidfd_open(pid)
    assert L.HST[4] in lab.out("nsenter", "-t", str(hold.pid), "-n", "ip", "addr")
    hold.end()
    hold.close()
    until("the program ends with its namespace", lambda: L._status(pid, "State", "X")[0] in "ZX", 1)
    os.close(fd)


def test_root_of_user_namespace(lab):
    """S03: started as root of a user namespace, inside which the target namespace was made; no switch to nobody."""
    _, outer = lab.holder(["unshare", "-rU"])
    enter = ["nsenter", "-t", str(outer.pid), "-U", "-S", "0", "-G", "0"]
    hold = L.Hold(lab)
    lab.spawn(*lab.hst.prefix, *enter, "unshare", "-n", lab.tools.nt, "hold", hold.path, env=lab.tools.env())
    hold.accept(None)
    pidfile = lab.file("pid")
    argv = [*lab.hst.prefix, *enter, lab.tools.pasta, *CONF, "-P", pidfile, "--netns", f"/proc/{hold.pid}/ns/net"]
    r = lab.run(*argv, timeout=20)
    pid = int(L._content(pidfile))
    fd = os.pidfd_open(pid)
    try:
        assert L._status(pid, "Uid", "").split() == [str(L.UID)] * 4, r.stderr
        ct = L.Ns(f"/proc/{hold.pid}/ns/net", "ct", lab, ["nsenter", "-t", str(hold.pid), "-n"])
        for fam in (4, 6):
            p = L.port()
            with lab.peer.serve(L.PEER[fam], p, hello), ct.connect(L.PEER[fam], p) as s:
                assert s.recv(100).startswith(b"hello")
        ct.close()
    finally:
        signal.pidfd_send_signal(fd, signal.SIGKILL)
        os.close(fd)


def test_root_of_user_namespace_with_command(lab):
    _, outer = lab.holder(["unshare", "-rU"])
    r = lab.run(*lab.hst.prefix, "nsenter", "-t", str(outer.pid), "-U", "-S", "0", "-G", "0", lab.tools.pasta, *CONF, "--", "ip", "-4", "-o",
                "addr", timeout=20)
    assert L.HST[4] + "/24" in r.stdout


def test_started_by_root(lab):
    """Real root: the command runs in a connected namespace, and the program is an ordinary user then."""
    with lab.start(user=False) as i:
        assert "0" not in L._status(i.pid, "Uid", "0").split()
        p = L.port()
        with lab.peer.serve(L.PEER[4], p, hello), i.ct.connect(L.PEER[4], p) as s:
            assert s.recv(100).startswith(b"hello")


def test_second_start_on_same_namespace(lab):
    """S06: a killed program is replaced by a new one on the same namespace."""
    with lab.start(mode="pid") as i:
        i.signal(signal.SIGKILL)
        i.gone(2)
        pidfile = lab.file("pid")
        r = lab.invoke(*CONF, "-P", pidfile, str(i.hold.pid))
        assert r.returncode == 0, r.stderr
        os.kill(int(L._content(pidfile)), signal.SIGTERM)


# -- wrong input: exit 1 and one line that names the thing

def lines(r):
    return [x for x in r.stderr.splitlines() if x.strip()]


def complains(r, *names):
    assert r.returncode == 1, (r.returncode, r.stdout, r.stderr)
    assert len(lines(r)) == 1, r.stderr
    for name in names:
        assert re.search(name, r.stderr), f"{name!r} not in: {r.stderr}"
    assert "Sanitizer" not in r.stderr


def masked(lab, script):
    """Run the program in a mount namespace of its own in which `script` changed something."""
    return ["unshare", "-m", "sh", "-c", f"set -e; {script}; exec \"$@\"", "sh"]


@pytest.mark.parametrize("how", ["command", "pid"])
def test_tun_missing(lab, how):
    """S04: no /dev/net/tun in this mount namespace."""
    wrap = masked(lab, "mount -t tmpfs none /dev/net")
    complains(lab.invoke(*CONF, "-q", *target(lab, how), wrap=wrap), "/dev/net/tun", "No such file")


@pytest.mark.parametrize("how", ["command", "pid"])
def test_tun_refused(lab, how):
    """S04: the node is there but not for us."""
    wrap = masked(lab, "mount -t tmpfs none /dev/net; mknod -m 000 /dev/net/tun c 10 200")
    complains(lab.invoke(*CONF, "-q", *target(lab, how), wrap=wrap), "/dev/net/tun", "Permission denied|Operation not permitted")


@pytest.mark.parametrize("how", ["command", "pid"])
def test_tun_without_driver(lab, how):
    """S04: the node is there and open to all, but no driver is behind it."""
    wrap = masked(lab, "mount -t tmpfs none /dev/net; mknod /dev/net/tun c 10 254; chmod 666 /dev/net/tun")
    complains(lab.invoke(*CONF, "-q", *target(lab, how), wrap=wrap), "/dev/net/tun", "No such device")


def target(lab, how):
    if how == "command":
        return ["--", "true"]
    return [str(lab.holder(["unshare", "-rUn"])[1].pid)]


def test_pid_missing(lab):
    p = subprocess.Popen(["true"])
    p.wait()
    complains(lab.invoke(*CONF, "-q", str(p.pid)), str(p.pid))


def test_pid_too_large(lab):
    complains(lab.invoke(*CONF, "-q", "4294967296"), "4294967296")


def test_pid_ends_during_start(lab):
    """A process that ends at about the time we look at it: success or one clear line, never a hang."""
    for n in range(12):
        proc, hold = lab.holder(["unshare", "-rUn"])
        pidfile = lab.file("pid")
        argv = lab.argv(*CONF, "-q", "-P", pidfile, str(hold.pid))
        p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=lab.tools.env(), text=True)
        time.sleep(n * .004)  # not a wait: the moment of the end is what varies
        proc.kill()
        proc.wait()
        err = p.communicate(timeout=10)[1]
        if p.returncode:
            assert p.returncode == 1 and len(err.strip().splitlines()) == 1, err
        elif L._content(pidfile).strip():
            pid = int(L._content(pidfile))
            until("a program without a namespace ends", lambda: L._status(pid, "State", "X")[0] in "ZX", 2)
        hold.close()


@pytest.mark.parametrize("path", ["/etc/passwd", "/no/such/netns", "no-such-name", "/", "/proc/self/ns/mnt"])
def test_not_a_netns(lab, path):
    complains(lab.invoke(*CONF, "-q", "--netns", path), path)


def test_unreadable_netns(lab):
    """S01: the line names path and reason."""
    path = lab.file("ns")
    open(path, "w").close()
    os.chmod(path, 0)
    complains(lab.invoke(*CONF, "-q", "--netns", path), path, "Permission denied")


@pytest.mark.parametrize("opt", ["-i", "--outbound-if4", "--outbound-if6"])
def test_unknown_interface(lab, opt):
    complains(lab.invoke(*CONF, "-q", opt, "nosuch7", "--", "true"), "nosuch7")


def test_C13_port_in_use(lab):
    """C13: the line names protocol, port and reason; nothing else is printed and nothing stays behind."""
    p = L.port()
    with lab.hst.listen("0.0.0.0", p), lab.hst.udp("0.0.0.0", p):
        for opt, proto in (("-t", "TCP"), ("-u", "UDP")):
            conf = [x for x in CONF]
            conf[conf.index(opt) + 1] = str(p)
            r = lab.invoke(*conf, "-q", "--", "true")
            complains(r, f"(?i){proto}", str(p), "in use")


def test_C05_privileged_port(lab):
    """C05: unprivileged and below ip_unprivileged_port_start: one line with the remedy."""
    lab.hst.sysctl("net.ipv4.ip_unprivileged_port_start", 1024)
    conf = [x for x in CONF]
    conf[conf.index("-t") + 1] = "22"
    complains(lab.invoke(*conf, "-q", "--", "true"), "22", "Permission denied|ip_unprivileged_port_start")


@pytest.mark.parametrize("args", [["-m", "70000"], ["-m", "x"], ["-a", "127.0.0.1"], ["-a", "10.0.0.300"], ["-n", "33"], ["-g", "0.0.0.0"],
                                  ["-M", "zz"], ["--ns-mac-addr", "1:2"], ["-t", "0"], ["-t", "5-4"], ["-t", "65536"], ["-t", "22,"],
                                  ["-D", "x"], ["--dns-forward", "127.0.0.1"], ["-o", "224.0.0.1"], ["-I", "a" * 16], ["-I", ""],
                                  ["--map-host-loopback", "0.0.0.0"], ["-P", ""], ["-P", "/no/such/dir/pid"]],
                         ids=lambda a: " ".join(a)[:24] or "empty")
def test_bad_values(lab, args):
    """A value that cannot be: exit 1, one line that shows the value or names the option."""
    r = lab.invoke("--config-net", "-q", *args, "--", "true")
    complains(r, re.escape(args[1]) or {"-I": "-I|interface|ifname", "-P": "-P|pid|PID"}[args[0]])


@pytest.mark.parametrize("args", [["--no-such-option"], ["-Z"], ["--mtu"], ["--config-net=1"]], ids=" ".join)
def test_bad_options(lab, args):
    """Unknown or incomplete options: a line naming it and the usage text, on standard error."""
    r = lab.invoke(*args)
    assert r.returncode == 1 and not r.stdout
    assert args[0].split("=")[0].lstrip("-") in lines(r)[0] and "--config-net" in r.stderr


def test_failed_start_leaves_nothing(lab):
    """After a failed start no process and no listener of ours is left."""
    p, q = L.port(), L.port()
    with lab.hst.listen("0.0.0.0", q):
        r = lab.invoke("--config-net", "-q", "-t", f"{p},{q}", "-u", "none", "-T", "none", "-U", "none", "--", "sleep", "1000")
    assert r.returncode == 1
    with lab.hst.listen("0.0.0.0", p):
        pass
    left = [d for d in os.listdir("/proc") if d.isdigit() and L._content(f"/proc/{d}/cmdline").startswith(lab.tools.pasta)
            and str(q) in L._content(f"/proc/{d}/cmdline")]
    assert not left


# -- files and texts

def test_pcap(lab):
    """--pcap: a file that tcpdump reads, with both directions of the traffic, private to the user."""
    path = lab.file("pcap")
    with lab.start("--pcap", path) as i:
        for fam in (4, 6):
            i.ct.run("ping", "-n", "-c1", "-W5", L.PEER[fam])
        p = L.port()
        with lab.peer.serve(L.PEER[4], p, hello), i.ct.connect(L.PEER[4], p) as s:
            s.recv(100)
        i.hold.end()
        assert i.gone(5) == 0
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    text = lab.out("tcpdump", "-nr", path)
    for want in (f"{L.HST[4]} > {L.PEER[4]}: ICMP echo request", f"{L.PEER[4]} > {L.HST[4]}: ICMP echo reply",
                 f" > {L.PEER[6]}: ICMP6, echo request", f"{L.PEER[6]} > fd77::",
                 f"{L.PEER[4]}.{p}: Flags [S]", "ARP"):
        assert want in text, want
    assert "hello" in lab.out("tcpdump", "-Anr", path)


def test_help(lab):
    r = lab.invoke("--help")
    assert r.returncode == 0 and not r.stderr
    for opt in ("--config-net", "--foreground", "--quiet", "--debug", "--trace", "--pid", "--mtu", "--ns-ifname", "--interface",
                "--address", "--netmask", "--gateway", "--mac-addr", "--ns-mac-addr", "--ipv4-only", "--ipv6-only", "--dns",
                "--dns-forward", "--dns-host", "--map-host-loopback", "--no-map-gw", "--map-guest-addr", "--outbound", "--outbound-if4",
                "--outbound-if6", "--no-tcp", "--no-udp", "--no-icmp", "--tcp-ports", "--udp-ports", "--tcp-ns", "--udp-ns", "--pcap",
                "--netns", "--userns", "--netns-only", "--help", "--version"):
        assert re.search(rf"{opt}\b", r.stdout), opt


def test_version(lab):
    r = lab.invoke("--version")
    assert r.returncode == 0 and not r.stderr and r.stdout.startswith("pasta ")


def test_pid_file_relative_and_existing(lab):
    """-P with an existing file: replaced, private mode not required; content is our process."""
    path = lab.file("pid")
    with open(path, "w") as f:
        f.write("something longer than a process id\n")
    os.chown(path, L.UID, L.UID)
    _, hold = lab.holder(["unshare", "-rUn"])
    r = lab.invoke(*CONF, "-P", path, str(hold.pid))
    assert r.returncode == 0, r.stderr
    pid = int(L._content(path))
    assert L._status(pid, "Uid", "").split()[0] == str(L.UID)
    os.kill(pid, signal.SIGTERM)
    hold.close()


# -- idle

@pytest.mark.heavy
@MODE
def test_idle(lab, mode):
    """An idle program does nothing: for five seconds no thread of it is scheduled, and strace sees no call. Memory is small."""
    with lab.start("-t", str(L.port()), "-u", str(L.port()), mode=mode) as i, i.ct.udp(to=(L.PEER[4], 9)) as keep:
        ct = i.ct.connect(L.PEER[4], p) if (p := open_port(lab)) else None
        keep.send(b"one UDP flow and one TCP connection are open while we are idle")
        still = {"at": time.monotonic(), "n": i.switches()}

        def quiet():  # neighbour discovery of the container's kernel goes on for some seconds after start
            n = i.switches()
            if n != still["n"]:
                still.update(at=time.monotonic(), n=n)
            return time.monotonic() - still["at"] >= 5
        until("five seconds without a wake-up", quiet, 45, .2)
        out = lab.file("strace")
        tracer = lab.spawn("strace", "-f", "-qq", "-o", out, "-p", str(i.pid))
        until("strace is attached", lambda: L._status(i.pid, "TracerPid", "0") != "0")
        until("strace shows where it waits", lambda: L._content(out))
        n = i.switches()
        time.sleep(2)  # the absence of calls has no other sign
        calls = [x for x in L._content(out).splitlines() if not re.search(r"restart_syscall|epoll_p?wait|io_uring_enter|poll", x)]
        tracer.send_signal(signal.SIGINT)
        tracer.wait()
        assert not calls, calls
        assert L._content(out).count("\n") <= 2, L._content(out)
        assert n >= 0
        if not lab.tools.sanitized:
            assert i.rss_kib() <= 16 * 1024, f"{i.rss_kib()} KiB resident"
        if ct:
            ct.close()


def open_port(lab):
    p = L.port()
    srv = lab.peer.serve(L.PEER[4], p, lambda s, _: s.recv(1))
    lab.undo.append(srv.close)
    return p
