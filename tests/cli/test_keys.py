"""tuffet chat at a pseudo-terminal: signals and keys of odd moments, and an odd history."""
import fcntl
import os
import pathlib
import select
import shutil
import signal
import struct
import subprocess
import termios
import unittest

from program import TUFFET, WRAPPER, Case, Terminal, main, wait_until

ZEPHYR = ("{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content ~ eos_token + '\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}")
EDITS = b" libedit" in subprocess.run([*TUFFET, "--version"], capture_output=True).stdout
PROC = os.path.exists("/proc/self/stat") and not WRAPPER
F_SETPIPE_SZ = 1031  # of Linux
NEXT = b"\n> "
PREVIOUS = b"\x1b[A"


class Keys(Case):
    def setUp(self):
        shutil.rmtree(self.path("tuffet"), ignore_errors=True)

    def chat(self, *args, toy=None, **settings):
        toy = toy or self.toy(template=ZEPHYR, endless=1, ctx=100000)
        settings = {"TERM": "xterm", "LC_ALL": "C.UTF-8", "HOME": self.folder.name, **settings}
        return Terminal("chat", toy, "--temp=0", "-t1", *args, **settings)

    def history(self):
        return self.read(self.path("tuffet/history")).decode().splitlines()

    def ends(self, t):
        t.type(b"\x04")
        self.assertEqual(t.end(), 0)

    @staticmethod
    def sleeps_before(pid, pipe):
        """Whether a process waits, with all that a pipe holds written to it."""
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state == "S" and not select.select([], [pipe], [], 0)[1]

    @unittest.skipUnless(EDITS and PROC, "built without libedit, or not on Linux")
    def test_a_resize_while_the_reader_is_slow(self):
        reads, writes = os.pipe()
        fcntl.fcntl(writes, F_SETPIPE_SZ, 4096)
        t = self.chat(stdout=writes)
        t.wait_for(b"> ")
        t.type(b"hello\r")
        wait_until(lambda: self.sleeps_before(t.pid, writes))
        fcntl.ioctl(t.fd, termios.TIOCSWINSZ, struct.pack("4H", 30, 60, 0, 0))
        pending = pathlib.Path(f"/proc/{t.pid}/status")
        wait_until(lambda: "\nShdPnd:\t0000000000000000\n" in pending.read_text()
                   and self.sleeps_before(t.pid, writes))
        os.close(writes)
        for _ in range(4):  # it goes on behind what the pipe held
            self.assertTrue(os.read(reads, 4096))
        os.kill(t.pid, signal.SIGTERM)
        self.assertEqual(t.end(), -signal.SIGTERM)
        os.close(reads)

    def test_a_signal_amid_dim_text(self):
        """With the editor, and without it, as where standard error is a file."""
        toy = self.toy(template="{{ messages[0].content }}<think>\n", endless=1, ctx=100000)
        for plain in [False, True]:
            with open(self.path("errors"), "wb") as errors:
                t = self.chat(toy=toy, stderr=errors.fileno() if plain else None)
            if plain:
                wait_until(lambda: self.read(self.path("errors")).endswith(b"\n> "))
            else:
                t.wait_for(b"> ")
            t.type(b"hello\n")
            t.wait_for(b"\x1b[2m")
            t.more()
            os.kill(t.pid, signal.SIGTERM)
            self.assertEqual(t.end(), -signal.SIGTERM)
            text = t.screen[t.at:]
            self.assertEqual(text.count(b"\x1b[0m"), 1)
            self.assertIn(text.partition(b"\x1b[0m")[2], [b"", b"\x1b[?2004l"])
        t = self.chat(toy=toy, TERM="dumb")
        t.wait_for(b"> ")
        t.type(b"hello\n")
        t.wait_for(b"hello\r\n")
        t.more()
        os.kill(t.pid, signal.SIGTERM)
        self.assertEqual((t.end(), t.screen.count(b"\x1b")), (-signal.SIGTERM, 0))

    @unittest.skipUnless(EDITS, "built without libedit")
    def test_vi_mode(self):
        self.write(".editrc", b"bind -v\n")
        self.addCleanup(os.remove, self.path(".editrc"))
        t = self.chat("-n1")
        t.wait_for(b"> ")
        t.type(b"ello\x1b0ih\r")  # Escape leads to the commands: to the start, insert
        t.wait_for(NEXT)
        t.type(b"a \x1b[200~b\nc\x1b[201~d\r")
        t.wait_for(NEXT)
        t.type(b"x\x1b")
        t.wait_for(b"\b")  # at once, whatever key comes next
        t.type(b"\x1b[200~y\x1b[201~\r")  # a paste among the commands
        t.wait_for(NEXT)
        t.type(b"dropped\x1b\x03")  # and Ctrl-C there
        t.wait_for(NEXT)
        t.type(b"kept\r")
        t.wait_for(NEXT)
        self.ends(t)
        self.assertEqual(self.history(), ["hello", "a b\\ncd", "yx", "kept"])

    @unittest.skipUnless(EDITS and PROC, "built without libedit, or not on Linux")
    def test_a_paste_that_comes_in_two_parts(self):
        t = self.chat("-n1")
        t.wait_for(b"> ")
        with open(f"/proc/{t.pid}/fd/0", "rb", buffering=0) as own:
            waiting = bytearray(4)
            def is_taken():
                fcntl.ioctl(own, termios.FIONREAD, waiting)
                return not any(waiting)
            for part in [b"\x1b[", b"200", b"~a\nb\x1b[2"]:
                t.type(part)
                wait_until(is_taken)
        t.type(b"01~\r")
        t.wait_for(NEXT)
        self.ends(t)
        self.assertEqual(self.history(), ["a\\nb"])

    @unittest.skipUnless(EDITS, "built without libedit")
    def test_the_key_of_pastes_is_no_paste(self):
        """Ctrl-^, which stands for one, does nothing where it is typed."""
        t = self.chat("-n1")
        t.wait_for(b"> ")
        for typed in [b"a\x1eb\r", b"\x1b[200~c\x1b[201~\x1ed\r"]:
            t.type(typed)
            t.wait_for(NEXT)
        self.ends(t)
        self.assertEqual(self.history(), ["ab", "cd"])

    @unittest.skipUnless(EDITS, "built without libedit")
    def test_a_history_with_an_entry_that_is_not_utf8(self):
        os.mkdir(self.path("tuffet"))
        self.write("tuffet/history", b"old\nodd\xff\n\xe4\xbd\nnew\n")
        t = self.chat("-n1")
        t.wait_for(b"> ")
        t.type(2 * PREVIOUS + b"er\r")
        t.wait_for(NEXT)
        self.ends(t)
        self.assertEqual(self.read(self.path("tuffet/history")).split(b"\n")[-3:],
                         [b"new", b"older", b""])

    @unittest.skipUnless(EDITS, "built without libedit")
    def test_a_quoted_command_is_recalled_as_a_message(self):
        with open(self.path("out"), "wb") as out:
            t = self.chat("-n1", "--json", stdout=out.fileno())
        t.wait_for(b"> ")
        for line, prompt in [(b'"""/clear"""', NEXT), (PREVIOUS, NEXT), (b'"""', b"... "),
                             (b"/undo", b"... "), (b'"""', NEXT), (b'"""/one', b"... "),
                             (b'two"""', NEXT), (PREVIOUS, NEXT)]:
            t.type(line + b"\r")
            t.wait_for(prompt)
        self.ends(t)
        self.assertEqual(self.read(self.path("out")).count(b"\n"), 5)
        self.assertEqual(self.history(), ['"""/clear"""', '"""/undo"""', "/one\\ntwo"])


main()
