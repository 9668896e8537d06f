"""What the tests of the program share. Each is run as test_NAME.py TUFFET TOY EMBED [options of
unittest]. Under emulation, the three programs are run by MESON_EXE_WRAPPER.

The suite starts each test from a known state (tests/start.py)."""
import fcntl
import json
import os
import pathlib
import pty
import select
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import start

WRAPPER = shlex.split(os.environ.get("MESON_EXE_WRAPPER", ""))
TUFFET, TOY, EMBED = ([*WRAPPER, program] for program in sys.argv[1:4])
LAB = [*WRAPPER, str(pathlib.Path(sys.argv[1]).with_name("lab_quantize"))]  # tools/lab/quantize.c
PATIENCE = 60  # seconds, for a program that should take less than one


class Case(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        os.environ["XDG_STATE_HOME"] = cls.folder.name  # not into the user's history
        os.environ["XDG_CONFIG_HOME"] = cls.folder.name  # nor with the user's defaults

    def __init__(self, *args):
        super().__init__(*args)
        self.addTypeEqualityFunc(bytes, self.same_bytes)

    def same_bytes(self, got, want, msg=None):
        """If bytes differ, says so: tests/suite.py does not run such a test once more then."""
        if got != want:
            self.fail(self._formatMessage(msg, f"bytes differ: {got!r} != {want!r}"))

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, data):
        pathlib.Path(self.path(name)).write_bytes(data)
        return self.path(name)

    @staticmethod
    def read(path):
        return pathlib.Path(path).read_bytes()

    def toy(self, **settings):
        """The path of a small random model; toy_main.c has the settings."""
        args = [f"{name}={value}" for name, value in settings.items()]
        path = self.path("-".join(["toy", *settings]) + str(abs(hash(tuple(args)))) + ".gguf")
        if not os.path.exists(path):
            subprocess.run([*TOY, "write", path, *args], check=True)
        return path

    def w8a8(self, **settings):
        """The path of such a model as tuffet quantize makes it, all its ranges static."""
        path = self.toy(endless=1, **settings)
        to = path + ".w8a8"
        if not os.path.exists(to):
            text = self.write("calibration", b"hello world, once upon a time and the end. " * 40)
            subprocess.run([*TUFFET, "quantize", path, "-o", to, "--calib", text, "--dynamic=none",
                            "-t1"], check=True, capture_output=True)
        return to

    def tuffet(self, *args, stdin=b""):
        """What the program prints. It must succeed, and print nothing to standard error."""
        done = subprocess.run([*TUFFET, *args], input=stdin, capture_output=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (0, b""), args)
        return done.stdout

    def json(self, *args, stdin=b""):
        return json.loads(self.tuffet(*args, "--json", stdin=stdin))

    def lab(self, _, *args):
        """The JSON object of a command line "quantize ..." with options of the lab."""
        return json.loads(subprocess.run([*LAB, *args, "--json"], check=True, timeout=PATIENCE,
                                         capture_output=True).stdout)

    def fails(self, *args, stdin=b"", status=1):
        """The error message. The program must print nothing else, and exit with this status."""
        done = subprocess.run([*TUFFET, *args], input=stdin, capture_output=True, timeout=PATIENCE)
        text = done.stderr.decode()
        self.assertEqual((done.returncode, done.stdout), (status, b""), (args, text))
        lines = text.splitlines()
        if status == 2:
            self.assertRegex(lines.pop(), r"^Try: tuffet (\w+ )?--help$")
        self.assertEqual(len(lines), 1, text)
        self.assertTrue(lines[0].startswith("tuffet: ") and lines[0].isprintable(), lines)
        return lines[0]


class Terminal:
    """The program, at a terminal of its own; stdout and stderr may be other descriptors. It is
    killed if it has not ended PATIENCE seconds after its start."""

    def __init__(self, *args, stdout=None, stderr=None, command=TUFFET, **settings):
        self.screen, self.at = b"", 0
        self.until = time.monotonic() + PATIENCE
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            start.default_signals()  # Python ignores SIGPIPE
            for fd, own in [(stdout, 1), (stderr, 2)]:
                if fd is not None:
                    os.dup2(fd, own)
            os.execvpe(command[0], [*command, *args], {**os.environ, "TERM": "dumb", **settings})

    def seconds_left(self):
        return max(0, self.until - time.monotonic())

    def give_up(self, why):
        os.kill(self.pid, signal.SIGKILL)
        raise AssertionError(f"{why} after {PATIENCE} s, and {self.screen[self.at:][-2000:]}")

    def more(self):
        """Waits for output. Returns False when the program has ended."""
        if not select.select([self.fd], [], [], self.seconds_left())[0]:
            self.give_up("it still runs")
        try:
            data = os.read(self.fd, 4096)
        except OSError:  # on Linux: the program has closed the terminal
            data = b""
        self.screen += data
        return bool(data)

    def wait_for(self, text):
        """Waits until the program prints the text. Returns what it printed before the text."""
        while text not in self.screen[self.at:]:
            if not self.more():
                raise AssertionError(f"{text} did not come after {self.screen[self.at:]}")
        start, self.at = self.at, self.screen.index(text, self.at) + len(text)
        return self.screen[start:self.at]

    def type(self, text):
        os.write(self.fd, text)

    def queued(self):
        """How many bytes of whole lines the program has not read yet."""
        fd = os.open(f"/proc/{self.pid}/fd/0", os.O_RDONLY | os.O_NOCTTY)
        try:
            return struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))[0]
        finally:
            os.close(fd)

    def paste(self, text):
        """As a terminal does that was asked to mark pastes, however much it is."""
        text = b"\x1b[200~" + text + b"\x1b[201~"
        os.set_blocking(self.fd, False)
        while text:
            readable, writable, _ = select.select([self.fd], [self.fd], [], self.seconds_left())
            if readable:
                self.more()
            elif writable:
                text = text[os.write(self.fd, text[:4096]):]
            else:
                self.give_up("it does not read a paste")
        os.set_blocking(self.fd, True)

    def end(self):
        """Waits for the end. Returns the exit status, or minus the signal that ended it."""
        while self.more():
            pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def wait_until(is_so):
    """Asks every hundredth of a second, for what has no event to wait for."""
    until = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > until:
            raise TimeoutError
        time.sleep(0.01)


def opened(process):
    """The paths of the files that a process has open or mapped; Linux adds " (deleted)"."""
    folder = f"/proc/{process.pid}/fd"
    paths = set(pathlib.Path(f"/proc/{process.pid}/maps").read_text().split("\n"))
    for fd in os.listdir(folder):
        try:
            paths.add(os.readlink(f"{folder}/{fd}"))
        except FileNotFoundError:  # closed meanwhile
            pass
    return {path[path.find("/"):] for path in paths}


def interrupt(process):
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=PATIENCE)


def main():
    # verbosity 2: with the reason of a case that is skipped
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
