"""Draws a conversation of the program in a terminal as SVG:
record_svg.py PROGRAM OUTPUT.svg [--say TEXT]... -- ARGUMENTS

Runs PROGRAM ARGUMENTS in a terminal of its own, types a TEXT each time that the program waits at
its prompt "> ", then Ctrl-D, and writes the screen as text elements. The picture shows the command
line with file names without their folders. The same program, model and seed give the same bytes.

docs/chat.svg:
record_svg.py build/tools/tuffet docs/chat.svg --say Hello! --say /clear --say "Tell me a joke." \\
    --say /clear --say "What is the capital of France?" -- chat minimind2-small.q8_0.gguf --temp 0
"""
import argparse
import codecs
import fcntl
import html
import os
import pathlib
import pty
import re
import select
import shlex
import struct
import sys
import tempfile
import termios
import time

COLUMNS, ROWS = 80, 24
PATIENCE = 120  # seconds without output
SIZE, STEP, LEFT, TOP = 14, 20, 18, 56  # of the letters, the lines, and the space around them
WIDTH = LEFT * 2 + round(COLUMNS * SIZE * 0.602)  # of a letter of most fixed fonts
PROMPT = "> "


class Screen:
    """The lines that a terminal shows after the bytes of a program."""

    def __init__(self):
        self.lines, self.column, self.left = [""], 0, ""
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def put(self, character):
        if self.column == COLUMNS:
            self.lines.append("")
            self.column = 0
        line = self.lines[-1].ljust(self.column)
        self.lines[-1] = line[:self.column] + character + line[self.column + 1:]
        self.column += 1

    def take(self, data):
        """Control sequences that neither erase a line nor move the cursor have no effect."""
        text = self.left + self.decoder.decode(data)
        whole = re.sub(r"\x1b(\[[0-9;?]*)?$", "", text)  # the rest comes later
        self.left = text[len(whole):]
        for part in re.findall(r"\x1b\[[0-9;?]*[@-~]|[^\x1b]", whole):
            if part in ("\x1b[K", "\x1b[0K"):
                self.lines[-1] = self.lines[-1][:self.column]
            elif part == "\r":
                self.column = 0
            elif part == "\n":
                self.lines.append("")
            elif part == "\b":
                self.column = max(0, self.column - 1)
            elif len(part) == 1 and part.isprintable():
                self.put(part)


class Program:
    """A program in a terminal."""

    def __init__(self, command):
        self.screen, self.open = Screen(), True
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.execvpe(command[0], command, {**os.environ, "TERM": "dumb", "LC_ALL": "C.UTF-8"})
            finally:
                os._exit(127)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

    def more(self):
        if not select.select([self.fd], [], [], PATIENCE)[0]:
            os.kill(self.pid, 9)
            raise SystemExit(f"no output for {PATIENCE} s after {self.screen.lines[-1]!r}")
        try:
            data = os.read(self.fd, 4096)
        except OSError:  # the program has closed the terminal
            data = b""
        self.open = bool(data)
        self.screen.take(data)

    def say(self, text):
        while self.open and self.screen.lines[-1] != PROMPT:
            self.more()
        if not self.open:
            raise SystemExit(f"the program ended before {text!r}")
        shown = len(self.screen.lines)
        os.write(self.fd, text.encode())
        while self.open and len(self.screen.lines) == shown:  # until the terminal shows it
            self.more()

    def end(self):
        while self.open:
            self.more()
        os.close(self.fd)
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        if status:
            raise SystemExit(f"the program ended with status {status}: {self.screen.lines[-3:]}")


def record(program, arguments, texts):
    """The lines of the screen, without the last prompt."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder  # not into the user's history
        p = Program([program, *arguments])
        for text in texts:
            p.say(text + "\n")
        if texts:
            p.say("\x04")
        p.end()
    lines = p.screen.lines
    while lines and re.fullmatch(r"(> ?)?(\^D)?\s*", lines[-1]):
        lines.pop()
    return lines


def shown_command(arguments):
    return shlex.join(["tuffet", *(os.path.basename(a) if "/" in a else a for a in arguments)])


def kind(line):
    """Typed lines have another color."""
    return ' class="you"' if line.startswith((PROMPT, "$ ")) else ""


def draw(title, lines):
    height = TOP + STEP * len(lines) + LEFT
    rows = [f'<text x="{LEFT}" y="{TOP + STEP * i + SIZE}"{kind(line)} xml:space="preserve">'
            f'{html.escape(line, quote=False)}</text>' for i, line in enumerate(lines) if line]
    dots = "".join(f'<circle cx="{LEFT + 8 + 20 * i}" cy="24" r="6" fill="{color}"/>'
                   for i, color in enumerate(("#ff5f57", "#febc2e", "#28c840")))
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="ui-monospace,Menlo,Consolas,DejaVu Sans Mono,monospace" '
        f'font-size="{SIZE}" fill="#d0d7de"><title>{html.escape(title, quote=False)}</title>',
        "<style>.you{fill:#7ee787}</style>",
        f'<rect width="{WIDTH}" height="{height}" rx="10" fill="#161b22"/>{dots}',
        *rows, "</svg>", ""])


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("program")
    p.add_argument("output")
    p.add_argument("--say", action="append", default=[], metavar="TEXT")
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    arguments = sys.argv[at + 1:]
    o = p.parse_args(sys.argv[1:at])
    begun = time.monotonic()
    command = shown_command(arguments)
    lines = ["$ " + command, *record(o.program, arguments, o.say)]
    pathlib.Path(o.output).write_text(draw(command, lines))
    print(f"{o.output}: {len(lines)} lines, {time.monotonic() - begun:.1f} s")


if __name__ == "__main__":
    main()
