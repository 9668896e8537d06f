"""The manual pages: they have the options that --help all has, and troff takes them."""
import re
import shutil
import subprocess

from program import Case, main


def unescape(text):
    """What troff makes of a line: its escapes replaced, its fonts gone."""
    text = re.sub(r"\\f[BIR]|\\&", "", text)
    for escape, character in [("-", "-"), ("(aq", "'"), ("(ga", "`"), ("(ha", "^"), ("(ti", "~"),
                              ("e", "\\")]:
        text = text.replace("\\" + escape, character)
    return text


class Man(Case):
    def commands(self):
        return re.findall(r"^  (\w+) +\w", self.tuffet("help").decode(), re.M)

    def pages(self):
        """(command or "", the source of its page)"""
        for command in ["", *self.commands()]:
            yield command, self.tuffet("help", "--man", *[command][:bool(command)]).decode()

    def test_options_are_those_of_help(self):
        for command, page in self.pages():
            if not command:
                continue
            man = [unescape(tag) for tag in re.findall(r"^\.TP\n(\\fB\\-.*)$", page, re.M)]
            usage = self.tuffet(command, "--help", "all").decode()
            # an option has two spaces or a newline after it, and perhaps an argument before these
            listed = re.findall(r"^  (?:    )?((?:-\w, )?--\S+(?: \S+)?)(?:  |\n)", usage, re.M)
            self.assertEqual(man, listed)
            self.assertGreater(len(man), 1)
            # each option's text too, with its default
            words = " ".join(usage.split())
            for text in re.findall(r"^\.TP\n\\fB\\-.*\n(.*)$", page, re.M)[:-1]:
                self.assertIn(" ".join(unescape(text).split()), words)

    def test_the_page_of_the_program_lists_the_commands(self):
        page = dict(self.pages())[""]
        for command in self.commands():
            self.assertIn(f"\n.TP\n\\fB{command}\\fR\n", page)

    def test_sections(self):
        for command, page in self.pages():
            own = ["OPTIONS", "EXAMPLES"] if command else ["COMMANDS"]
            wanted = ["NAME", "SYNOPSIS", "DESCRIPTION", *own, "EXIT STATUS", "SEE ALSO"]
            self.assertEqual(re.findall(r"^\.SH (.*)$", page, re.M), wanted)
            others = re.findall(r"\\fBtuffet(?:\\-)?(\w*)\\fR\(1\)", page)
            self.assertEqual(sorted(others), sorted({"", *self.commands()} - {command}))
            self.assertTrue(page.isascii())

    def warnings(self, *tool):
        """What the tool says about all pages."""
        lines = []
        for _, page in self.pages():
            done = subprocess.run(tool, input=page.encode(), capture_output=True)
            lines += (done.stdout + done.stderr).decode().splitlines()
        return lines

    def test_groff(self):
        if not shutil.which("groff"):
            self.skipTest("there is no groff")
        self.assertEqual(self.warnings("groff", "-man", "-ww", "-z", "-Tascii"), [])

    def test_mandoc(self):
        if not shutil.which("mandoc"):
            self.skipTest("there is no mandoc")
        lines = self.warnings("mandoc", "-Tlint", "-Wwarning")  # without remarks on style
        # a page has no date, so that every build makes the same page
        self.assertEqual([line for line in lines if "missing date" not in line], [])

    def test_what_a_reader_sees(self):
        if not shutil.which("groff"):
            self.skipTest("there is no groff")
        for command, page in self.pages():
            done = subprocess.run(["groff", "-man", "-Tascii", "-P-cbou"], input=page.encode(),
                                  capture_output=True, check=True)
            usage = self.tuffet("help", *[command][:bool(command)]).decode()
            for option in re.findall(r"--\w[\w-]+", usage):
                self.assertIn(option, done.stdout.decode())


main()
