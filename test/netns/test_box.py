# SPDX-License-Identifier: BSD-3-Clause
"""Namespaces, identity, life cycle and the tap, through tools/box_probe.c: rooms box and l2 without the rest."""
import glob
import itertools
import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import time

import pytest

from nsnet import measured

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
UID = 47813  # an ordinary user that needs no entry in /etc/passwd
USER = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--inh-caps=-all"]
WHO = {"user": USER, "root": [], "nested": USER + ["unshare", "-Ur"]}
MIRROR = ["/usr/bin/python3", "udp_mirror.py"]
_count = itertools.count()


def until(what, timeout_s=20):
    end = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < end, "condition did not come true"
        time.sleep(0.01)


def alive(pid):
    """Whether a process runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Box:
    """The probe in a folder of its own, and all processes started through it."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="gemelli-box-")
        os.chmod(self.dir, 0o755)
        shutil.copy(os.path.join(HERE, "tools", "udp_mirror.py"), self.dir)
        self.probe = os.path.join(self.dir, "probe")
        src = [f for room in ("base", "l2", "box") for f in sorted(glob.glob(f"{ROOT}/src/{room}/*.c"))]
        subprocess.run(["cc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Werror", f"-I{ROOT}/include", "-o", self.probe,
                        os.path.join(HERE, "tools", "box_probe.c"), *src, "-lcap-ng"], check=True)
        self.procs = []

    def start(self, *args, who="user", **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        kw.setdefault("env", {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"})
        p = subprocess.Popen([*WHO[who], self.probe, *args], cwd=self.dir, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)
        self.procs.append(p)
        return p

    def run(self, *args, who="user", **kw):
        p = self.start(*args, who=who, **kw)
        out, err = p.communicate(timeout=40)
        return p.returncode, out, err

    def holder(self, who="user", userns=True):
        """A process in a network namespace of its own: its PID."""
        p = subprocess.Popen([*WHO[who], "unshare", *(["-Ur"] if userns else []), "-n", "sleep", "600"])
        self.procs.append(p)
        ours = os.stat("/proc/self/ns/net").st_ino

        def ready():
            with open(f"/proc/{p.pid}/comm") as f:
                return f.read() == "sleep\n" and os.stat(f"/proc/{p.pid}/ns/net").st_ino != ours
        until(ready)
        return p

    def name(self, suffix=""):
        return os.path.join(self.dir, f"n{next(_count)}{suffix}")

    def close(self):
        for p in self.procs:
            if p.poll() is None:
                p.kill()
                p.communicate()
        shutil.rmtree(self.dir)


@pytest.fixture(scope="module")
def box():
    with open("/dev/net/tun", "rb"):  # loads the module where there is one
        pass
    os.chmod("/dev/net/tun", 0o666)
    b = Box()
    yield b
    b.close()


@pytest.fixture
def netns(box):
    """A named network namespace of root's."""
    name = f"gembox{os.getpid()}-{next(_count)}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    yield name
    subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


def started(p):
    """Wait until the probe has its tap; returns that line."""
    line = p.stderr.readline()
    while line and not line.startswith("tap "):
        line = p.stderr.readline()
    assert line, f"no tap: {p.stderr.read()}"
    return line


def tap_in(pid):
    out = subprocess.run(["nsenter", "-t", str(pid), "-n", "ip", "-o", "link", "show", "tap0"], capture_output=True, text=True)
    return "tap0" in out.stdout


@pytest.mark.parametrize("who,args", [("user", []), ("root", []), ("root", ["-r", "0"]), ("root", ["-r", "1234:99"]), ("nested", []),
                                      ("root", ["-n"])])
def test_spawn(box, who, args):
    rc, out, err = box.run(*args, "spawn", *MIRROR, who=who)
    assert (rc, out.split()[:3]) == (0, ["mirrored", "0", "1"]), err
    assert out.split()[3] == ("pasta-" + socket.gethostname())[:64]
    assert "note:" not in err


@pytest.mark.parametrize("mtu", ["1500", "65520"])
@pytest.mark.parametrize("args", [["-o", "0"], ["-o", "1"], ["-o", "3"], ["-o", "5"], ["-o", "7"], ["-o", "9"], ["-o", "15"], ["-s"],
                                  ["-o", "14"]])
def test_offloads(box, args, mtu):
    rc, out, err = box.run(*args, "spawn", *MIRROR, mtu)
    assert (rc, out.split()[:1]) == (0, ["mirrored"]), err


def test_super_frames_with_all_offloads(box):
    _, _, err = box.run("spawn", *MIRROR)
    if "takes f" not in err:
        pytest.skip("this kernel has no USO on tap")
    assert "gso 3 size 1400" in err
    assert err.count("mirror") == 18  # each run of datagrams is one frame


@pytest.mark.parametrize("who,uid", [("user", UID), ("root", 65534)])
def test_nothing_is_left_to_us(box, who, uid):
    p = box.start("spawn", "sleep", "600", who=who)
    started(p)

    def status():
        with open(f"/proc/{p.pid}/status") as f:
            return {key: value.strip() for key, _, value in (line.partition(":") for line in f)}
    until(lambda: status()["NoNewPrivs"] == "1")
    s = status()
    assert s["Uid"].split() == [str(uid)] * 4 and s["Gid"].split() == [str(uid)] * 4 and s["Groups"] == ""
    for caps in ("CapInh", "CapPrm", "CapEff", "CapAmb") + (("CapBnd",) if who == "root" else ()):
        assert int(s[caps], 16) == 0, caps
    assert os.stat(f"/proc/{p.pid}/ns/user").st_ino == os.stat("/proc/self/ns/user").st_ino
    p.kill()
    p.communicate()


@pytest.mark.parametrize("command,status", [(["sh", "-c", "exit 7"], 7), (["true"], 0), (["sh", "-c", "exec sleep 600"], 137)])
def test_exit_status(box, command, status):
    p = box.start("spawn", *command)
    started(p)
    if status == 137:
        def child():
            with open(f"/proc/{p.pid}/task/{p.pid}/children") as f:
                for pid in f.read().split():
                    with open(f"/proc/{pid}/comm") as c:
                        if c.read() == "sleep\n":
                            return int(pid)
        until(child)
        os.kill(child(), signal.SIGKILL)
    p.communicate(timeout=20)
    assert p.returncode == status


@pytest.mark.parametrize("command,why", [(["/nonexistent/x"], "No such file or directory"), (["no-such-command-anywhere"], "No such file"),
                                         (["/etc/passwd"], "Permission denied")])
def test_exec_fails(box, command, why):
    rc, _, err = box.run("spawn", *command)
    assert rc == 1 and "Cannot run the command: " + why in err


@pytest.mark.parametrize("shell,arg0", [("/bin/sh", "-sh"), ("", "-sh"), ("/bin/bash", "-bash")])
def test_login_shell(box, shell, arg0):
    p = box.start("spawn", stdin=subprocess.PIPE, env={"PATH": "/usr/bin:/bin", "SHELL": shell})
    out, err = p.communicate("echo $0; exit 3\n", timeout=20)
    assert (p.returncode, out.strip()) == (3, arg0), err


def test_descriptors_and_proc_of_the_command(box):
    rc, out, err = box.run("spawn", "sh", "-c", "ls /proc/self/fd; ls -d /proc/[0-9]*; ulimit -n", pass_fds=[])
    assert rc == 0 and out.split()[:4] == ["0", "1", "2", "3"] and "/proc/1" in out, err  # 3 is the folder that ls reads
    assert [w for w in out.split() if w.startswith("/proc/")] == ["/proc/1"]


def test_held_command_dies_with_us(box):
    fifo = box.name(".fifo")
    os.mkfifo(fifo, 0o600)
    os.chown(fifo, UID, UID)
    p = box.start("-c", fifo, "spawn", "sleep", "600")  # waits for a reader of the capture, with the command held
    started(p)
    with open(f"/proc/{p.pid}/task/{p.pid}/children") as f:
        held = int(f.read().split()[0])
    p.kill()
    p.communicate()
    until(lambda: not alive(held))


@pytest.mark.parametrize("who", ["user", "root"])
def test_attach_to_process_and_see_its_end(box, who):
    def end():
        holder = box.holder("user")
        p = box.start("pid", str(holder.pid), who=who)
        started(p)
        assert tap_in(holder.pid)
        begin = time.monotonic()
        holder.kill()
        p.communicate(timeout=10)
        assert p.returncode == 0
        return time.monotonic() - begin
    measured("seconds until it ends with the process", lambda t: t < 1, end)


@pytest.mark.parametrize("runas", [[], ["-r", "0"]])
def test_root_of_a_user_namespace_attaches(box, runas):
    """As inside a build container: uid 0, but not the machine's (S03)."""
    script = "unshare -n sleep 600 & echo $!; while [ $(readlink /proc/$!/ns/net) = $(readlink /proc/$$/ns/net) ]; do :; done; " \
             "exec \"$@\" path /proc/$!/ns/net"
    inner = subprocess.Popen([*USER, "unshare", "-Ur", "sh", "-c", script, "sh", box.probe, *runas], cwd=box.dir, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    box.procs.append(inner)
    holder = int(inner.stdout.readline())
    try:
        assert started(inner)
        with open(f"/proc/{inner.pid}/status") as f:
            assert "\nUid:\t" + "\t".join([str(UID)] * 4) + "\n" in f.read()
    finally:
        os.kill(holder, signal.SIGKILL)
        inner.kill()
        inner.communicate()


@pytest.mark.parametrize("who", ["root", "user"])
def test_attach_by_path_and_see_its_end(box, who):
    measured("seconds until it ends with its file", lambda t: t < .5, lambda: end_of_path(box, who))


def end_of_path(box, who):
    holder = box.holder("user")
    path = box.name()
    open(path, "w").close()
    subprocess.run(["mount", "--bind", f"/proc/{holder.pid}/ns/net", path], check=True)
    try:
        p = box.start("-u", f"/proc/{holder.pid}/ns/user", "path", path, who=who)
        started(p)
        assert tap_in(holder.pid)
        until(lambda: os.path.exists(f"/proc/{p.pid}") and alive(p.pid))
    finally:
        subprocess.run(["umount", path], check=True)
    with pytest.raises(subprocess.TimeoutExpired):  # an unmounted bind mount alone is not the end
        p.wait(timeout=0.3)
    os.unlink(path)
    begin = time.monotonic()
    p.communicate(timeout=10)
    assert p.returncode == 0
    return time.monotonic() - begin


@pytest.mark.parametrize("end", ["rename", "replace", "netns del"])
def test_name_goes(box, netns, end):
    path = f"/run/netns/{netns}"
    p = box.start("path", netns, who="root")
    started(p)
    if end == "netns del":
        subprocess.run(["ip", "netns", "del", netns], check=True)
    else:
        subprocess.run(["umount", path], check=True)
        if end == "rename":
            os.rename(path, path + ".moved")
            os.unlink(path + ".moved")
        else:
            os.unlink(path)
            open(path, "w").close()
    p.communicate(timeout=2)
    assert p.returncode == 0


def test_directory_that_cannot_be_watched(box):
    holder = box.holder("user")
    folder = box.name()
    os.mkdir(folder)
    path = os.path.join(folder, "ns")
    os.symlink(f"/proc/{holder.pid}/ns/net", path)
    os.chmod(folder, 0o711)  # not readable: inotify is refused
    p = box.start("-u", f"/proc/{holder.pid}/ns/user", "path", path)
    assert "looking there each second" in p.stderr.readline()
    started(p)
    os.unlink(path)
    p.communicate(timeout=5)
    assert p.returncode == 0


def test_descriptor_as_namespace(box):
    holder = box.holder("user")
    with open(f"/proc/{holder.pid}/ns/user") as user, open(f"/proc/{holder.pid}/ns/net") as net:
        p = box.start("-u", "/proc/self/fd/0", "path", f"/proc/{os.getpid()}/fd/{net.fileno()}", who="root", stdin=user)
        started(p)
        assert tap_in(holder.pid)
        p.send_signal(signal.SIGTERM)
        p.communicate(timeout=5)
        assert p.returncode == 0


def gone_pid():
    p = subprocess.Popen(["true"])
    p.wait()
    return str(p.pid)


@pytest.mark.parametrize("args,why", [
    (["path", "/etc/passwd"], "/etc/passwd is not a network namespace"),
    (["path", "/nonexistent/ns"], "Cannot open network namespace /nonexistent/ns: No such file"),
    (["path", "no-such-name"], "Cannot open network namespace /run/netns/no-such-name: No such file"),
    (["path", "/proc/self/ns/user"], "is a namespace, but not a network namespace"),
    (["-u", "/etc/passwd", "path", "/proc/self/ns/net"], "/etc/passwd is not a user namespace"),
    (["-n", "spawn", "true"], "--netns-only takes CAP_SYS_ADMIN"),
    (["path", "/proc/self/ns/net"], "Cannot enter the network namespace: Operation not permitted"),
    (["-r", "1:", "spawn", "true"], "--runas 1:"), (["-r", ":5", "spawn", "true"], "--runas :5"), (["-r", "", "spawn", "true"], "--runas :"),
    (["-r", "root", "spawn", "true"], "--runas root"), (["-r", "12x", "spawn", "true"], "--runas 12x"),
])
def test_refusals(box, args, why):
    rc, _, err = box.run(*args)
    assert rc == 1 and why in err and err.count("\n") == 1


def test_process_that_has_gone_or_is_not_ours(box):
    pid = gone_pid()
    rc, _, err = box.run("pid", pid)
    assert rc == 1 and f"Cannot attach to process {pid}: No such process" in err
    rc, _, err = box.run("pid", "1")
    assert rc == 1 and "Permission denied" in err and "security module" in err


def test_taking_an_identity_takes_root(box):
    rc, _, err = box.run("-r", "1:1", "spawn", "true")
    assert rc == 1 and "Operation not permitted" in err


def test_interface_in_use(box, netns):
    first = box.start("path", netns, who="root")
    started(first)
    rc, _, err = box.run("path", netns, who="root")
    assert rc == 1 and "another program holds that interface" in err
    first.kill()  # what was killed leaves a free name
    first.communicate()
    again = box.start("path", netns, who="root")
    started(again)
    again.send_signal(signal.SIGQUIT)
    again.communicate(timeout=5)
    assert again.returncode == 0


@pytest.mark.parametrize("how,why", [("missing", "no such device node"), ("mode", "chmod 666"), ("nodev", "kernel module 'tun'")])
def test_tun_device(box, netns, how, why):
    make = {"missing": "mount -t tmpfs none /dev/net", "mode": "mount -t tmpfs none /dev/net && mknod -m 0 /dev/net/tun c 10 200",
            "nodev": "mount -t tmpfs none /dev/net && mknod -m 666 /dev/net/tun c 10 254"}[how]
    p = subprocess.run(["unshare", "-m", "sh", "-c", f"{make} && exec \"$@\"", "sh", *USER, box.probe, "spawn", "true"],
                       cwd=box.dir, capture_output=True, text=True, timeout=20)
    assert p.returncode == 1 and "Cannot open /dev/net/tun" in p.stderr and why in p.stderr


def test_background(box, netns):
    pid_file = box.name(".pid")
    p = box.start("-b", "-p", pid_file, "path", netns, who="root")
    assert p.wait(timeout=20) == 0
    with open(pid_file) as f:
        text = f.read()
    pid = int(text)
    try:
        assert text == f"{pid}\n" and pid != p.pid and alive(pid)
        assert stat.S_IMODE(os.stat(pid_file).st_mode) == 0o600
        assert [os.readlink(f"/proc/{pid}/fd/{n}") for n in (0, 1, 2)] == ["/dev/null"] * 3
        assert os.getsid(pid) == pid
        os.kill(pid, signal.SIGHUP)
        assert alive(pid)
    finally:
        os.kill(pid, signal.SIGTERM)
    until(lambda: not alive(pid))


def test_background_fails_with_its_words(box, netns):
    first = box.start("path", netns, who="root")
    started(first)
    rc, _, err = box.run("-b", "path", netns, who="root")
    assert rc == 1 and err.count("\n") == 1 and "another program holds" in err
    first.kill()
    first.communicate()


def test_pid_file_is_a_fifo(box, netns):
    fifo = box.name(".fifo")
    os.mkfifo(fifo)
    p = box.start("-p", fifo, "path", netns, who="root")
    with open(fifo) as f:
        assert f.read() == f"{p.pid}\n"
    p.kill()
    p.communicate()


def test_capture(box):
    capture = box.name(".pcap")
    os.chmod(box.dir, 0o777)
    rc, out, err = box.run("-c", capture, "spawn", *MIRROR)
    os.chmod(box.dir, 0o755)
    assert rc == 0, err
    assert stat.S_IMODE(os.stat(capture).st_mode) == 0o600
    from scapy.utils import RawPcapReader
    with open(capture, "rb") as f:
        assert struct.unpack("=IHHiIII", f.read(24)) == (0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    reader = RawPcapReader(capture)
    frames = [data for data, _ in reader]
    reader.close()
    udp = [data for data in frames if data[12:14] + data[23:24] == b"\x08\x00\x11" or data[12:14] + data[20:21] == b"\x86\xdd\x11"]
    sent, back = udp[0::2], udp[1::2]
    assert len(sent) == len(back) >= 18
    for a, b in zip(sent, back):
        assert a[:6] == b[6:12] and a[-1:] == b[-1:] and len(a) == len(b)
