"""tools/scripts/board.sh: the page that an owner of a board sends, and whether the logits of this
CPU have the bits of docs/boards.md."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from program import PATIENCE, TUFFET, WRAPPER, Case, main

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = ROOT / "tools/scripts/board.sh"
HASHES = re.search(r"^hashes='(.*?)'$", SCRIPT.read_text(), re.M | re.S)[1].splitlines()


@unittest.skipIf(WRAPPER, "the script runs the program itself")
class Board(Case):
    def board(self, script, *args, **more):
        return subprocess.run(["sh", script, *args], capture_output=True, text=True,
                              timeout=5 * PATIENCE, cwd=self.folder.name, **more)

    def tables(self, page):
        """The rows of each section, without the head."""
        found = {}
        for part in re.split(r"^## ", page, flags=re.M)[1:]:
            name, _, text = part.partition("\n")
            rows = [line for line in text.splitlines() if line.startswith("|")]
            found[name] = [[cell.strip() for cell in row[1:-1].split("|")] for row in rows[2:]]
        return found

    def kernels(self):
        return [row["cpu"] for row in self.json("bench", self.toy(), "--hash")["hashes"]]

    @unittest.skipIf(shutil.disk_usage(tempfile.gettempdir()).free < 1 << 28,
                     "two layers of weights want a larger disk")
    def test_page(self):
        """Every row has figures, and every kernel of this CPU the hashes of the table."""
        before = set(os.listdir(tempfile.gettempdir()))
        done = self.board(SCRIPT, "-f", "-o", "page.md", os.path.abspath(TUFFET[0]))
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        page = self.read(self.path("page.md")).decode()
        for name in ["machine", "CPU", "memory", "kernel", "load before", "tuffet"]:
            self.assertRegex(page, rf"\n\| {name} \| [^|]*\w[^|]* \|\n")
        self.assertRegex(page, r"\n\| limits, \w+, 1 thread \| memory [\d.]+ GB/s, int8 \d+ GOP/s")
        self.assertNotIn(os.uname().nodename + " ", page)
        tables = self.tables(page)
        self.assertEqual(tables["The bits of logits"],
                         [[model, bits, kv, cpu, hash, "the same"]
                          for model, bits, kv, hash in map(str.split, HASHES)
                          for cpu in self.kernels()])
        speed = tables["Speed"]
        self.assertEqual({(row[0], row[2]) for row in speed}, {("stories2M", "0"),
                                                              ("stories2M", "256")})
        for row in speed:
            for cell in row[4:6]:
                self.assertRegex(cell, r"^[\d.]+ \([\d.]+\.\.[\d.]+\)$")
            self.assertRegex(row[6], r"^\d+ %$")
        heat = tables["Heat"]
        self.assertEqual(heat[0][0], "0")
        self.assertGreater(len(heat), 1)
        for row in heat[1:]:
            self.assertGreater(float(row[4]), 0)
            self.assertGreater(float(row[5]), 0)
        left = set(os.listdir(tempfile.gettempdir())) - before
        self.assertEqual([name for name in left if name.startswith("tuffet-board-")], [])

    def test_other_bits(self):
        """A hash that is not the table's, by its last bits, is shown, and the script fails: the
        page is there."""
        hash = HASHES[0].split()[-1]
        other = hash[:-1] + ("0" if hash[-1] != "0" else "1")
        lines = [HASHES[0].replace(hash, other), HASHES[1]]
        text = SCRIPT.read_text().replace("\n".join(HASHES), "\n".join(lines))
        folder = pathlib.Path(self.path("archive"))
        folder.mkdir()
        (folder / "board.sh").write_text(text)
        shutil.copy(ROOT / "models/demo/stories2M.gguf", folder)
        (folder / "tuffet").symlink_to(os.path.abspath(TUFFET[0]))
        done = self.board(folder / "board.sh", "-f")  # finds what is beside it
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("logits differ from the table", done.stderr)
        rows = self.tables(self.read(self.path("tuffet-board.md")).decode())["The bits of logits"]
        self.assertEqual([row[5] for row in rows],
                         [text for text in ["**DIFFERENT**", "the same"] for _ in self.kernels()])
        self.assertEqual({row[4] for row in rows[:len(rows) // 2]}, {hash})

    def test_wrong_use(self):
        done = self.board(SCRIPT, "-f", "./no-such-program")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("./no-such-program does not run", done.stderr)
        empty = self.path("empty")
        os.mkdir(empty)
        for name in ["sh", "dirname"]:
            os.symlink(shutil.which(name), os.path.join(empty, name))
        done = self.board(SCRIPT, "-f", env={"PATH": empty})
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no tuffet", done.stderr)


class Documentation(unittest.TestCase):
    def test_hashes(self):
        """docs/boards.md has the table of the script."""
        rows = re.findall(r"^\| (\S+) \| (\S+) \| `(\w+)` \| `(0x[0-9a-f]{16})` \|$",
                          (ROOT / "docs/boards.md").read_text(), re.M)
        self.assertEqual([" ".join(row) for row in rows], HASHES)


main()
