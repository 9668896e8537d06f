"""The script that draws a terminal: its lines are those of the program."""
import os
import pathlib
import subprocess
import sys
import unittest
import xml.etree.ElementTree

from program import PATIENCE, TUFFET, WRAPPER, Case, main

SOURCES = pathlib.Path(__file__).resolve().parents[2]
SHIPPED = str(SOURCES / "models/demo/stories2M.gguf")
SCRIPT = str(SOURCES / "tools/scripts/record_svg.py")


@unittest.skipIf(WRAPPER, "the script runs the program itself")
class Recorded(Case):
    def record(self, name, *args):
        output = self.path(name)
        subprocess.run([sys.executable, SCRIPT, TUFFET[-1], output, *args], check=True,
                       capture_output=True, timeout=PATIENCE)
        lines = [tag.text for tag in xml.etree.ElementTree.parse(output).getroot()
                 if tag.tag.endswith("text")]
        return lines, self.read(output)

    def test_a_conversation(self):
        template = ("{% for m in messages %}{{ m.role + ':' + m.content }}{% endfor %}"
                    "{% if add_generation_prompt %}{{ 'a:' }}{% endif %}")
        toy = self.toy(template=template)
        args = ["--say", "hello <&>", "--say", "/clear", "--", "chat", toy, "-s3", "-t1", "-n6"]
        lines, drawing = self.record("a.svg", *args)
        answer = self.tuffet("chat", toy, "-s3", "-t1", "-n6", stdin=b"hello <&>\n").decode()
        self.assertTrue(answer.strip().isprintable(), answer)
        self.assertEqual(lines[0], "$ tuffet chat " + os.path.basename(toy) + " -s3 -t1 -n6")
        at = lines.index("> hello <&>")
        self.assertEqual(lines[at + 1:], [answer.rstrip("\n"), "> /clear"])
        self.assertEqual(self.record("b.svg", *args)[1], drawing)

    def test_long_lines_and_failures(self):
        lines, _ = self.record("run.svg", "--", "run", SHIPPED, "--temp=0", "-n60", "-pOnce")
        text = self.tuffet("run", SHIPPED, "--temp=0", "-n60", "-pOnce").decode()
        shown = "".join(line.ljust(80) for line in lines[1:-1]) + lines[-1]
        self.assertTrue(shown.startswith(text.split("\n")[0]), shown)
        for args in (["--", "run", "no-such-file"], ["--say", "x", "--", "help"]):
            done = subprocess.run([sys.executable, SCRIPT, TUFFET[-1], self.path("no.svg"), *args],
                                  capture_output=True, timeout=PATIENCE)
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"the program ended", done.stderr)
            self.assertFalse(os.path.exists(self.path("no.svg")))


main()
