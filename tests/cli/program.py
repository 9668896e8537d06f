"""What the tests of the program share: test_NAME.py TUFFET TOY EMBED [unittest's]; under emulation MESON_EXE_WRAPPER runs the three."""
import json
import os
import pathlib
import pty
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import unittest

WRAPPER = shlex.split(os.environ.get("MESON_EXE_WRAPPER", ""))
TUFFET, TOY, EMBED = ([*WRAPPER, program] for program in sys.argv[1:4])
PATIENCE = 60  # seconds, for what should take none


class Case(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, data):
        pathlib.Path(self.path(name)).write_bytes(data)
        return self.path(name)

    @staticmethod
    def read(path):
        return pathlib.Path(path).read_bytes()

    def toy(self, **settings):
        """A model: the settings are those of toy_main.c."""
        args = [f"{name}={value}" for name, value in settings.items()]
        path = self.path("-".join(["toy", *settings]) + str(abs(hash(tuple(args)))) + ".gguf")
        if not os.path.exists(path):
            subprocess.run([*TOY, "write", path, *args], check=True)
        return path

    def tuffet(self, *args, stdin=b""):
        """What it writes. It must succeed and have nothing to complain of."""
        done = subprocess.run([*TUFFET, *args], input=stdin, capture_output=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (0, b""), args)
        return done.stdout

    def json(self, *args, stdin=b""):
        return json.loads(self.tuffet(*args, "--json", stdin=stdin))

    def fails(self, *args, stdin=b"", status=1):
        """The line it says why with, the only thing it writes."""
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
    """The program at a terminal of its own."""

    def __init__(self, *args):
        self.screen, self.at = b"", 0
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvp(TUFFET[0], [*TUFFET, *args])

    def more(self):
        """Something new on the screen, or it has ended."""
        if not select.select([self.fd], [], [], PATIENCE)[0]:
            os.kill(self.pid, signal.SIGKILL)
            raise AssertionError(f"nothing happens after {self.screen[self.at:]}")
        try:
            data = os.read(self.fd, 4096)
        except OSError:  # how Linux says that nobody has it open any more
            data = b""
        self.screen += data
        return bool(data)

    def wait_for(self, text):
        """Until the text comes; what came before it."""
        while text not in self.screen[self.at:]:
            if not self.more():
                raise AssertionError(f"{text} did not come after {self.screen[self.at:]}")
        start, self.at = self.at, self.screen.index(text, self.at) + len(text)
        return self.screen[start:self.at]

    def type(self, text):
        os.write(self.fd, text)

    def end(self):
        """Its exit status, less than 0 if a signal ended it."""
        while self.more():
            pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def interrupt(process):
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=PATIENCE)


def main():
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
