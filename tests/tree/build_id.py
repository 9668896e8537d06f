"""The plug-ins' build id: build_id.py BUILD_ID_PY

The id changes with any header and with the version, and with nothing else; ninja is told of every
header.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SCRIPT = sys.argv[1]


class BuildId(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name) / "a folder"
        for name in ["src/kv/kv.h", "simd/kernels.h", "port/port.h", "src/kv/kv.c", "tests/test.h"]:
            self.write(name, "int x;\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_script(self, version):
        self.output = self.root.parent / "build_id.c"
        return subprocess.run([sys.executable, SCRIPT, self.root, version, self.output,
                               self.root.parent / "depfile"], capture_output=True, text=True)

    def id(self, version="0.1.0"):
        done = self.run_script(version)
        self.assertEqual(done.returncode, 0, done.stderr)
        return re.search(r'tft_build_id\[\] = "(.*)";', self.output.read_text())[1]

    def test_form(self):
        self.assertRegex(self.id(), r"^0\.1\.0 \(build [0-9a-f]{16}\)$")

    def test_changes_with_headers_and_version_only(self):
        before = self.id()
        self.write("src/kv/kv.c", "int y;\n")
        self.write("tests/test.h", "int y;\n")
        self.assertEqual(self.id(), before)
        seen = {before, self.id("0.2.0")}
        self.write("simd/kernels.h", "long x;\n")
        seen.add(self.id())
        self.write("src/kv/coded.h", "")
        seen.add(self.id())
        (self.root / "src/kv/coded.h").rename(self.root / "src/coded.h")
        seen.add(self.id())
        self.assertEqual(len(seen), 5, seen)

    def test_depfile(self):
        self.id()
        rule = (self.root.parent / "depfile").read_text()
        for name in ["src/kv/kv.h", "simd/kernels.h", "port/port.h"]:
            self.assertIn("a\\ folder/" + name, rule)
        self.assertNotIn("kv.c", rule.split(": ", 1)[1])

    def test_wrong_root(self):
        self.root = self.root / "tests"
        self.root.mkdir(exist_ok=True)
        done = self.run_script("0.1.0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no headers", done.stderr)


unittest.main(argv=sys.argv[:1])
