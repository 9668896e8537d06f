"""Starts a test from a known state, whatever the caller had: start.py PROGRAM [ARGUMENT]...

Meson puts this before each test (add_test_setup in tests/meson.build). The program has default
actions for all signals and none blocked, no descriptors but the first three, an empty standard
input, and a new folder for HOME, TMPDIR and the XDG folders, which is removed afterwards. Variables
that change what programs print, or how many threads they have, are set or removed. When the program
ends, or this one is told to end, all processes that it has started are killed.
"""
import ctypes
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

# As in a shell that has just begun. Proxies would come between a test and its own server.
REMOVED = re.compile(r"(?i)(LANG|LANGUAGE|LC_.*|XDG_.*|OMP_.*|GOMP_.*|KMP_.*|TERM|COLUMNS|LINES|"
                     r"NO_COLOR|CLICOLOR.*|FORCE_COLOR|NOTIFY_SOCKET|TMUX.*|"
                     r"(HF|HUGGING_?FACE|OLLAMA)_.*|LLAMA_CACHE|TUFFET_MODEL|"
                     r"(http|https|no|all)_proxy)")
PR_SET_CHILD_SUBREAPER = 36


def default_signals():
    """Gives this process the default action of each signal, with none blocked."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        try:
            signal.signal(number, signal.SIG_DFL)
        except OSError:  # the C library keeps a few for itself
            pass
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def variables(folder):
    """The environment of a program whose files go to `folder`."""
    env = {name: value for name, value in os.environ.items() if not REMOVED.fullmatch(name)}
    home = os.path.expanduser("~")
    for name, place in {"TUFFET_MODELS": ".cache/tuffet/models",  # tests/support/paths.h
                        "RUSTUP_HOME": ".rustup", "CARGO_HOME": ".cargo"}.items():
        env.setdefault(name, os.path.join(home, place))
    for name in ["HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
                 "XDG_RUNTIME_DIR", "XDG_STATE_HOME"]:
        env[name] = os.path.join(folder, name.split("_")[1] if "_" in name else name).lower()
        os.mkdir(env[name], 0o700)
    # Waiting threads sleep, because tests use more threads than there are CPUs.
    return {**env, "LC_ALL": "C.UTF-8", "OMP_WAIT_POLICY": "passive"}


def children():
    """The processes whose parent is this one."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text(errors="replace").rpartition(")")[2].split()[:2]
        except OSError:  # it has ended
            continue
        if int(parent) == os.getpid() and state != "Z":
            found.append(int(stat.parent.name))
    return found


def kill_rest():
    """Kills what the test has left. Its orphans are children of this process (subreaper)."""
    left = children()
    while left:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        left = children()


def open_first_three():
    """Descriptors 0 to 2 that the caller has closed lead nowhere, as 0 always does."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in 0, 1, 2:
        try:
            os.fstat(fd)
        except OSError:
            os.dup2(nowhere, fd)
    os.dup2(nowhere, 0)
    if nowhere > 2:
        os.close(nowhere)
    for fd in 0, 1, 2:
        os.set_inheritable(fd, True)  # dup2 to itself leaves it closed at exec


def main():
    def told_to_end(number, _):
        kill_rest()
        sys.exit(128 + number)

    default_signals()
    open_first_three()
    os.umask(0o022)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # A short name: sockets are in it, whose names have at most 107 bytes.
    folder = tempfile.mkdtemp(prefix="tft-")
    try:
        env = variables(folder)
        for number in signal.SIGTERM, signal.SIGINT, signal.SIGHUP:
            signal.signal(number, told_to_end)
        test = subprocess.Popen(sys.argv[1:], env=env, preexec_fn=default_signals)
        status = test.wait()
    finally:
        kill_rest()
        shutil.rmtree(folder, ignore_errors=True)
    if status < 0:  # Meson tells such an end from an exit status
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


if __name__ == "__main__":
    main()
