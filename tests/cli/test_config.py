"""Defaults of the user: ~/.config/tuffet/config and TUFFET_MODEL."""
import os
import pathlib
import subprocess

from program import TUFFET, Case, main
from test_serve import ZEPHYR


class Config(Case):
    def setUp(self):
        self.was = dict(os.environ)
        os.environ["XDG_CONFIG_HOME"] = self.path(self.id())

    def tearDown(self):
        os.environ.clear()
        os.environ.update(self.was)

    def config(self, text):
        path = pathlib.Path(os.environ["XDG_CONFIG_HOME"]) / "tuffet" / "config"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
        return str(path)

    def said(self, *args, command="run"):
        return self.json(command, self.toy(template=ZEPHYR, endless=1), "-phello", *args)

    def test_options_of_a_section(self):
        want = self.said("-n7", "--temp=0")
        chat = self.said("-n3", "--temp=0", command="chat")
        self.config(b"# of all days\n\n[run]\ntemp = 0\n  tokens=\"7\"\r\n[chat]\ntemp = 0\n"
                    b"tokens = 3\n[serve]\nmorse = 1\n; the end")
        self.assertEqual(self.said()["text"], want["text"])
        self.assertEqual(self.said(command="chat")["content"], chat["content"])
        # the command line counts more
        self.assertEqual(self.said("-n5")["tokens"], 5)
        self.assertEqual(self.said("-n7", "--temp=4", "--seed=1")["text"],
                         self.json("run", self.toy(template=ZEPHYR, endless=1), "-phello", "-n7",
                                   "--temp=4", "--seed=1")["text"])

    def test_a_byte_order_mark(self):
        self.config(b"\xef\xbb\xbf[run]\ntemp = 0\ntokens = 7\n")
        self.assertEqual(self.said()["tokens"], 7)

    def test_flags(self):
        toy = self.toy(template=ZEPHYR)
        self.config(b"[run]\njson = on\nignore-eos = off\ntokens = 2\n")
        self.assertTrue(self.tuffet("run", toy, "-phello").startswith(b"{"))
        self.config(b"[run]\njson = off\ntokens = 2\n")
        self.assertFalse(self.tuffet("run", toy, "-phello").startswith(b"{"))

    def test_the_places_of_the_file(self):
        want = self.said("-n4", "--temp=0")
        for name in "XDG_CONFIG_HOME", "HOME":
            os.environ["HOME"] = self.path("home")
            path = pathlib.Path(self.path("home") if name == "HOME" else
                                os.environ["XDG_CONFIG_HOME"])
            path = path / (".config" if name == "HOME" else "") / "tuffet" / "config"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("[run]\ntokens = 4\ntemp = 0\n")
            if name == "HOME":
                os.environ.pop("XDG_CONFIG_HOME")
            self.assertEqual(self.said()["text"], want["text"])
        os.environ["XDG_CONFIG_HOME"] = "relative"  # counts as unset
        self.assertEqual(self.said()["text"], want["text"])

    def test_other_commands_have_no_defaults(self):
        self.config(b"morse")
        self.tuffet("tokenize", self.toy(), "-p", "hello")
        self.tuffet("run", "--help")

    def test_errors_name_the_line(self):
        for text, says in [
            (b"[run]\nmorse = 1\n", ':2: tuffet run has no option "morse"'),
            (b"[run]\nn = 1\n", ':2: tuffet run has no option "n"'),
            (b"\n\n[run]\ntemp = hot\n", ":4: --temp needs a number"),
            (b"temp = 1\n", ":1: a section, such as [chat], comes before"),
            (b"[run]\ntemp 1\n", ":2: an option is set by NAME = VALUE"),
            (b"[bench]\n", ":1: a section is [run], [chat] or [serve]"),
            (b"[run\n", ":1: a section is a name in brackets"),
            (b"[run]\njson = 1\n", ":2: --json must be on or off"),
            (b"[run]\0", "the file has a NUL"),
        ]:
            path = self.config(text)
            done = subprocess.run([*TUFFET, "run", self.toy(), "-phello"], capture_output=True)
            self.assertNotEqual(done.returncode, 0, text)
            said = done.stderr.decode()
            self.assertTrue(said.startswith(f"tuffet: {path}"), said)
            self.assertIn(says, said)
            self.assertEqual((done.stdout, said.count("\n")), (b"", 1), said)

    def test_the_model_when_none_is_named(self):
        toy = self.toy(template=ZEPHYR, endless=1)
        want = self.said("-n4", "--temp=0")
        os.environ["TUFFET_MODEL"] = toy
        got = self.json("run", "-phello", "-n4", "--temp=0")
        self.assertEqual(got["text"], want["text"])
        self.assertEqual(self.json("chat", "-phello", "-n4")["tokens"], 4)
        os.environ["TUFFET_MODEL"] = "none.gguf"
        self.assertIn("none.gguf", self.fails("chat", "-phello"))
        self.assertEqual(self.said("-n4", "--temp=0")["text"], want["text"])
        os.environ["TUFFET_MODEL"] = ""
        self.assertIn("MODEL is missing", self.fails("chat", "-phello", status=2))


if __name__ == "__main__":
    main()
