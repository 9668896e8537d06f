"""The wheel for Python: wheel.py SOURCE MODEL LIBRARY...

tools/scripts/wheel.py packs the libraries of a build: twice the same bytes, and RECORD has the sums
of all files. pip installs the wheel in an environment of its own, where the module finds its own
libraries, generates text and has types.
"""
import base64
import csv
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

SOURCE, MODEL, *LIBRARIES = (pathlib.Path(p).resolve() for p in sys.argv[1:])
TAG = "linux_" + os.uname().machine
SONAME = LIBRARIES[0].name.split(".so.")[1].split(".")[0]
PROGRAM = """
import sys, tuffet
assert tuffet.__file__.startswith(sys.prefix), tuffet.__file__
with tuffet.Model(sys.argv[1]) as model:
    text = "".join(model.session().generate("Once upon a time", max_tokens=8))
    model.schema({"type": "boolean"})
tuffet._c.quantize()
maps = open("/proc/self/maps").read()
for name in ("tuffet", "tuffet-chat", "tuffet-quantize"):
    assert f"{sys.prefix}/lib" in maps and f"/tuffet/lib/lib{name}.so." in maps, maps
assert text.strip()
"""


class Wheel(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        libraries = self.root / "libraries"
        libraries.mkdir()
        for path in LIBRARIES:
            shutil.copy(path, libraries / (path.name.split(".so")[0] + ".so." + SONAME))
        self.made = [self.packed(libraries, name) for name in ("first", "second")]

    def packed(self, libraries, name):
        out = self.root / name
        out.mkdir()
        subprocess.run([sys.executable, SOURCE / "tools/scripts/wheel.py", libraries, TAG, out],
                       check=True, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
        return next(out.iterdir())

    def test_bytes(self):
        self.assertEqual(*(p.read_bytes() for p in self.made))
        self.assertTrue(self.made[0].name.endswith(f"-py3-none-{TAG}.whl"))
        with zipfile.ZipFile(self.made[0]) as archive:
            names = archive.namelist()
            record = next(n for n in names if n.endswith(".dist-info/RECORD"))
            rows = list(csv.reader(archive.read(record).decode().splitlines()))
            self.assertEqual([r[0] for r in rows], names)
            for name, digest, size in rows[:-1]:
                data = archive.read(name)
                want = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
                self.assertEqual((digest, int(size)), ("sha256=" + want.decode(), len(data)))
            self.assertIn("tuffet/py.typed", names)
            self.assertEqual({n for n in names if n.startswith("tuffet/lib/")},
                             {f"tuffet/lib/lib{n}.so.{SONAME}" for n in
                              ("tuffet", "tuffet-chat", "tuffet-quantize")})

    def test_install(self):
        environment = self.root / "environment"
        made = subprocess.run([sys.executable, "-m", "venv", environment], capture_output=True)
        if made.returncode:
            self.skipTest("no venv: " + made.stdout.decode()[-200:])
        subprocess.run([environment / "bin/pip", "install", "--quiet", "--no-index",
                        "--disable-pip-version-check", self.made[0]], check=True)
        clean = {k: v for k, v in os.environ.items()
                 if k not in ("LD_LIBRARY_PATH", "PYTHONPATH") and not k.startswith("TUFFET_")}
        subprocess.run([environment / "bin/python", "-c", PROGRAM, MODEL], check=True, env=clean,
                       cwd=self.root)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
