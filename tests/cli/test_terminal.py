"""tuffet chat in a real terminal, tmux: keys, history, interrupts, text typed during an answer, and
the modes of the terminal afterwards. Standard output goes to a file, so the screen shows only what
was typed, and notes. Tests wait for a text to appear, never for a time."""
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import unittest

from program import TUFFET, Case, main, wait_until

ZEPHYR = ("{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content ~ eos_token + '\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}")
EDITS = b" libedit" in subprocess.run([*TUFFET, "--version"], capture_output=True).stdout


class Screen:
    """A shell in a terminal of 80 columns."""
    made = 0

    def __init__(self, folder, **settings):
        Screen.made += 1
        self.tmux = ["tmux", "-u", "-f", "/dev/null", "-S", f"{folder}/tmux-{Screen.made}"]
        self.folder = folder
        env = {**os.environ, "LC_ALL": "C.UTF-8", "ENV": "",
               "XDG_STATE_HOME": folder, **settings}
        env.pop("TMUX", None)
        subprocess.run([*self.tmux, "new-session", "-d", "-x80", "-y50", "sh"], env=env, check=True)
        self.wait_until(lambda: self.text().strip(), "a prompt")
        self.type("PS1='shell$ '")
        self.press("Enter")
        self.wait_for("shell$ ")

    def command(self, *args, **kwargs):
        return subprocess.run([*self.tmux, *args], check=True, capture_output=True, text=True,
                              **kwargs).stdout

    def text(self):
        return self.command("capture-pane", "-p")

    def wait_for(self, text):
        """Waits until the last line of the screen is this."""
        self.wait_until(lambda: self.text().rstrip("\n").split("\n")[-1] == text.rstrip(" "), text)

    def wait_until(self, is_so, what=""):
        try:
            wait_until(is_so)
        except TimeoutError:
            raise AssertionError(f"{what}: it does not come on the screen\n{self.text()}") from None

    def type(self, text):
        self.command("send-keys", "-l", text)

    def press(self, *keys):
        self.command("send-keys", *keys)

    def paste(self, text):
        self.command("load-buffer", "-", input=text)
        self.command("paste-buffer", "-p")

    def run(self, line):
        self.type("clear; " + line)
        self.press("Enter")

    def modes(self):
        """What stty says in the shell."""
        path = pathlib.Path(self.folder, "modes")
        path.unlink(missing_ok=True)
        self.run(f"stty -a > {path}.new; mv {path}.new {path}")
        wait_until(path.exists)
        self.wait_for("shell$ ")
        return path.read_text()

    def resize(self, width):
        """tmux tells the program of another width up to a quarter of a second later. What is typed
        before could be drawn for the old one."""
        self.command("resize-window", "-x", str(width))
        path = self.command("display-message", "-p", "#{pane_tty}").strip()
        tty = os.open(path, os.O_RDONLY | os.O_NOCTTY)
        try:
            self.wait_until(lambda: os.get_terminal_size(tty).columns == width, f"width {width}")
        finally:
            os.close(tty)

    def close(self):
        self.command("kill-server")


class InTerminal(Case):
    def setUp(self):
        for name in ["out", "pid"]:
            pathlib.Path(self.path(name)).unlink(missing_ok=True)
        shutil.rmtree(self.path("tuffet"), ignore_errors=True)

    def screen(self, **settings):
        screen = Screen(self.folder.name, **settings)
        self.addCleanup(screen.close)
        self.before = screen.modes()
        return screen

    def chat(self, screen, *args, term="screen"):
        """Starts a conversation whose answers go to the file out."""
        toy = self.toy(template=ZEPHYR, endless=1, ctx=100000)
        line = shlex.join([*TUFFET, "chat", toy, "--temp=0", "-t1", *args])
        screen.run(f"TERM={term} sh -c 'echo $$ > \"$0/pid\"; "
                   f"exec \"$@\" > \"$0/out\"' {self.folder.name} {line}; echo status $?")
        screen.wait_for("> ")

    def out(self):
        return self.read(self.path("out"))

    def answered(self, n):
        wait_until(lambda: self.out().count(b"\n") == n)

    def history(self):
        return self.read(self.path("tuffet/history")).decode().splitlines()

    def assert_said(self, *messages):
        """The answers are those to these messages from a pipe."""
        want = self.tuffet("chat", self.toy(template=ZEPHYR, endless=1, ctx=100000), "--temp=0",
                           "-n8", "--json", stdin="\n".join(messages).encode())
        def content(lines):
            return [json.loads(line)["content"] for line in lines.splitlines()]
        self.assertEqual(content(self.out()), content(want))

    def assert_ended(self, screen, status):
        if status == -2:  # a shell goes on with nothing in the line of what SIGINT has ended
            screen.wait_for("shell$ ")
        else:
            screen.wait_until(lambda: f"status {status}\nshell$" in screen.text(), status)
        self.assertEqual(screen.modes(), self.before)

    def test_lines(self):
        """With and without an editor."""
        for term in ["dumb", "screen"]:
            screen = self.screen()
            self.chat(screen, "-n8", "--json", term=term)
            screen.type("once upon")
            screen.press("BSpace", "BSpace", "Enter")
            self.answered(1)
            screen.wait_for("> ")
            screen.type("dropped")
            screen.press("C-c")
            screen.wait_for("> ")
            screen.type("one\\")
            screen.press("Enter")
            screen.wait_for("... ")
            screen.type("two")
            screen.press("Enter")
            self.answered(2)
            screen.wait_for("> ")
            screen.type("/nothing")
            screen.press("Enter")
            screen.wait_until(lambda: "there is no command /nothing" in screen.text())
            screen.wait_for("> ")  # before, Ctrl-C would stop an answer, and there is none
            screen.press("C-c")
            screen.wait_until(lambda: "Ctrl-C once more, or Ctrl-D, ends" in screen.text())
            screen.type("hello")
            screen.press("Enter")
            self.answered(3)
            self.assert_said("once up", '"""one\ntwo"""', "hello")
            screen.wait_for("> ")
            screen.press("C-d")
            self.assert_ended(screen, 0)
            self.doCleanups()

    def test_ctrl_c_twice(self):
        for term in ["dumb", "screen"]:
            screen = self.screen()
            self.chat(screen, term=term)
            screen.press("C-c", "C-c")
            self.assert_ended(screen, 130)
            self.doCleanups()

    def test_what_is_typed_during_an_answer(self):
        for term in ["dumb", "screen"]:
            screen = self.screen()
            self.chat(screen, term=term)
            screen.type("hello")
            screen.press("Enter")
            wait_until(self.out)  # it talks, and would for long
            screen.type("typed ahead")
            screen.press("Enter", "C-c")
            wait_until(lambda: b"\n" in self.out())
            lines = self.out().count(b"\n")
            wait_until(lambda: "> typed ahead" in screen.text())
            wait_until(lambda: self.out().count(b"\n") > lines or not self.out().endswith(b"\n"))
            self.assertEqual(screen.text().count("typed ahead"), 1)
            screen.press("C-c")
            screen.wait_for("> ")
            screen.press("C-d")
            self.assert_ended(screen, 0)
            self.doCleanups()

    @staticmethod
    def end_by(name, pid):
        """Sends the signal until the process is gone: the first SIGINT ends only an answer, and two
        that are pending at once count as one."""
        def is_gone():
            try:
                os.kill(pid, signal.Signals["SIG" + name])
            except ProcessLookupError:
                return True
        wait_until(is_gone)

    def test_signals(self):
        """At the prompt and during an answer."""
        for name, status in [("TERM", 143), ("HUP", 129), ("INT", -2), ("QUIT", 131)]:
            for talks in [False, True]:
                screen = self.screen()
                self.chat(screen)
                if talks:
                    screen.type("hello")
                    screen.press("Enter")
                    wait_until(self.out)
                self.end_by(name, int(self.read(self.path("pid"))))
                self.assert_ended(screen, status)
                self.doCleanups()
                self.setUp()

    @unittest.skipUnless(EDITS, "built without libedit")
    def test_keys_and_history(self):
        screen = self.screen()
        self.chat(screen, "-n8", "--json")
        screen.type("ello wrld")
        screen.press("Home")
        screen.type("h")
        screen.press("End", "Left", "Left", "Left")
        screen.type("o")
        screen.press("Enter")
        self.answered(1)
        screen.wait_for("> ")
        screen.type("gr\u00fc\u00dfe \u4f60\u597d")
        screen.press("Enter")
        self.answered(2)
        screen.wait_for("> ")
        screen.press("Up", "Up")
        screen.wait_for("> hello world")
        screen.press("Down")
        screen.wait_for("> gr\u00fc\u00dfe \u4f60\u597d")
        screen.press("BSpace")
        screen.wait_for("> gr\u00fc\u00dfe \u4f60")
        screen.press("Enter")
        self.answered(3)
        said = ["hello world", "gr\u00fc\u00dfe \u4f60\u597d", "gr\u00fc\u00dfe \u4f60"]
        self.assert_said(*said)
        screen.wait_for("> ")
        screen.press("C-d")
        self.assert_ended(screen, 0)
        self.assertEqual(self.history(), said)
        self.assertEqual(os.stat(self.path("tuffet/history")).st_mode & 0o777, 0o600)

        self.chat(screen)  # another conversation knows it
        screen.press("Up", "Up", "Up")
        screen.wait_for("> hello world")
        screen.press("C-c")
        screen.wait_for("> ")
        screen.press("C-d")
        self.assert_ended(screen, 0)
        self.chat(screen, "--no-history")
        screen.press("Up")
        screen.type("x")
        screen.wait_for("> x")
        screen.press("C-c")
        screen.wait_for("> ")
        screen.press("C-d")
        self.assert_ended(screen, 0)
        self.assertEqual(self.history(), said)

    @unittest.skipUnless(EDITS, "built without libedit")
    def test_pastes(self):
        screen = self.screen()
        self.chat(screen, "-n8", "--json")
        screen.paste("/first\n\"\"\"\nlast\\")
        screen.wait_for("last\\")
        screen.press("Enter")
        self.answered(1)
        screen.wait_for("> ")
        screen.press("Up")
        screen.wait_for("last\\")
        screen.press("BSpace", "Enter")
        self.answered(2)
        screen.wait_for("> ")
        screen.press("C-d")
        self.assert_ended(screen, 0)
        self.assertEqual(self.history(), ['/first\\n"""\\nlast\\\\', '/first\\n"""\\nlast'])

    @unittest.skipUnless(EDITS, "built without libedit")
    def test_a_paste_during_an_answer(self):
        screen = self.screen()
        self.chat(screen)
        screen.type("hello")
        screen.press("Enter")
        wait_until(self.out)
        screen.paste("one\ntwo")
        screen.press("C-c")
        screen.wait_for("two")
        self.assertIn("> one\ntwo\n", screen.text())
        screen.press("C-c")
        screen.wait_for("> ")
        screen.press("C-d")
        self.assert_ended(screen, 0)

    @unittest.skipUnless(EDITS, "built without libedit")
    def test_another_size(self):
        """The line is drawn again in its place, of one row and of several. tmux moves rows above
        the screen when a line of several rows gets a larger width: they stay there."""
        screen = self.screen()
        self.chat(screen)
        for line, widths in [("hello", [60, 40, 100, 80]), ("once upon a time " * 6, [60, 40])]:
            screen.type(line)
            screen.wait_until(lambda: line.replace(" ", "") in
                              screen.text().replace("\n", "").replace(" ", ""), line)
            for width in widths:
                screen.resize(width)
                screen.type("!")
                line += "!"
                rows = [f"> {line}"[i:i + width].rstrip()
                        for i in range(0, len(line) + 2, width)]
                screen.wait_until(lambda: [row.rstrip() for row in screen.text().rstrip("\n")
                                           .split("\n")[-len(rows):]] == rows, rows)
                self.assertEqual(screen.text().count(f"> {line[:5]}"), 1, screen.text())
            screen.press("C-c")
            screen.wait_for("> ")
        screen.press("C-d")
        screen.wait_until(lambda: "status 0\nshell$" in screen.text(), "status 0")
        screen.resize(80)
        screen.wait_until(lambda: screen.modes() == self.before, "the modes of before")

    @unittest.skipUnless(EDITS, "built without libedit")
    def test_suspended(self):
        screen = self.screen()
        self.chat(screen)
        screen.type("hello")
        screen.press("C-z")
        screen.wait_for("shell$ ")
        self.assertEqual(screen.modes(), self.before)
        screen.run("fg; echo status $?")
        screen.wait_for("> hello")
        screen.type("!")
        screen.wait_for("> hello!")
        screen.press("C-u")
        screen.wait_for("> ")
        screen.press("C-d")
        self.assert_ended(screen, 0)

    def test_a_signal_while_suspended(self):
        """The modes are the shell's then: setting them would stop the program again."""
        for term in ["dumb", "screen"]:
            screen = self.screen()
            self.chat(screen, term=term)
            screen.type("hello")
            screen.press("C-z")
            screen.wait_for("shell$ ")
            pid = int(self.read(self.path("pid")))
            os.kill(pid, signal.SIGTERM)
            os.kill(pid, signal.SIGCONT)
            wait_until(lambda: self.is_gone(screen, pid))
            self.assertEqual(screen.modes(), self.before)
            self.doCleanups()
            self.setUp()

    @staticmethod
    def is_gone(screen, pid):
        """A shell waits for what has ended when it prompts."""
        screen.press("Enter")
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True


if not shutil.which("tmux"):
    print("skipped: there is no tmux")
    sys.exit(77)
main()
