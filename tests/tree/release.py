"""A release from a tag: release.py SOURCE

A small repository with the sources is released with a throw-away key: the source archive has the
same bytes in two releases, the signature holds for the public key and for no other bytes, and notes
are the section of NEWS. Each refusal of release.sh is seen, with its reason.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1]).resolve()
TOP = ["meson.build", "meson_options.txt", "LICENSE", "NEWS", "README.md", "models", "packaging",
       "port", "simd", "src", "tools/scripts"]
GOOD = "skipped  page: there is no Chromium\n120 passed, 0 failed, 1 skipped\n"
DATE = "2026-01-02T03:04:05Z"


class Release(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = pathlib.Path(folder.name)
        cls.tree = cls.root / "tree"
        cls.log = cls.root / "log"
        for name in TOP:
            to = cls.tree / name
            to.parent.mkdir(parents=True, exist_ok=True)
            if (SOURCE / name).is_dir():
                shutil.copytree(SOURCE / name, to, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(SOURCE / name, to)
        (cls.tree / "NEWS").write_text(
            "0.1.0 (not yet released)\n\nOne \\n thing.\n\n0.0.9 (old)\n\nNo.\n")
        cls.version("0.1.0")
        cls.git("init", "--quiet")
        cls.commit("first")
        cls.git("tag", "v0.1.0-rc1")
        for name in ("key", "other"):
            subprocess.run(["signify-openbsd", "-G", "-n", "-p", cls.root / f"{name}.pub", "-s",
                            cls.root / f"{name}.sec"], check=True)

    @classmethod
    def version(cls, number):
        lines = (SOURCE / "meson.build").read_text().split("\n")
        at = next(i for i, line in enumerate(lines) if line.startswith("  version: "))
        lines[at] = f"  version: '{number}',"
        (cls.tree / "meson.build").write_text("\n".join(lines))

    @classmethod
    def git(cls, *words):
        who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in
               (("NAME", "test"), ("EMAIL", "test@localhost"), ("DATE", DATE))}
        subprocess.run(["git", "-C", cls.tree, *words], check=True, env={**os.environ, **who})

    @classmethod
    def commit(cls, message):
        cls.git("add", "--all")
        cls.git("commit", "--quiet", "-m", message)

    def setUp(self):
        self.log.write_text(GOOD)

    def release(self, tag, out, *options, key="key.sec"):
        return subprocess.run(
            ["sh", self.tree / "tools/scripts/release.sh", tag, self.root / out, "--key",
             self.root / key, "--parts", "source", "--tests", self.log, *options],
            capture_output=True, text=True)

    def refused(self, why, tag="v0.1.0-rc1", **more):
        done = self.release(tag, "refused", **more)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(why, done.stderr)
        self.assertFalse((self.root / "refused").exists())

    def test_release(self):
        for out in ("one", "two"):
            done = self.release("v0.1.0-rc1", out)
            self.assertEqual(done.returncode, 0, done.stderr)
        one = self.root / "one"
        self.assertEqual(sorted(p.name for p in one.iterdir()), [
            "NOTES", "SHA256SUMS", "SHA256SUMS.sig", "tuffet-0.1.0-rc1.tar.gz",
            "tuffet-amalgamation-0.1.0-rc1.tar.gz"])
        for path in one.iterdir():
            self.assertEqual(path.read_bytes(), (self.root / "two" / path.name).read_bytes(), path)
        self.assertEqual((one / "NOTES").read_text(),
                         "0.1.0 (not yet released)\n\nOne \\n thing.\n")
        subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=one,
                       check=True)
        with tarfile.open(one / "tuffet-0.1.0-rc1.tar.gz") as archive:
            names = archive.getnames()
        self.assertIn("tuffet-0.1.0-rc1/src/tuffet.h", names)
        self.verify(one, "key.pub", 0)
        self.verify(one, "other.pub", 1)
        with open(one / "SHA256SUMS", "a", encoding="utf-8") as f:
            f.write("\n")
        self.verify(one, "key.pub", 1)

    def verify(self, folder, key, status):
        done = subprocess.run(["signify-openbsd", "-V", "-p", self.root / key, "-m", "SHA256SUMS"],
                              cwd=folder, capture_output=True)
        self.assertEqual(done.returncode, status, done)

    def test_another_key_than_that_of_the_tree(self):
        pub = self.tree / "packaging/tuffet.pub"
        self.addCleanup(self.git, "reset", "--quiet", "--hard", "HEAD~1")
        shutil.copy(self.root / "other.pub", pub)
        self.commit("key")
        self.refused("the key is not that of packaging/tuffet.pub")

    def test_changes(self):
        new = self.tree / "new.c"
        new.write_text("")
        self.addCleanup(new.unlink)
        self.refused("the tree has changes")

    def test_tags(self):
        self.refused("there is no tag v0.1.0-rc2", "v0.1.0-rc2")
        for tag, why in [("v0.2.0", "meson.build has version 0.1.0"),
                         ("v0.1.0", "NEWS says that 0.1.0 is not yet released"),
                         ("nightly", "is not vX.Y.Z")]:
            self.git("tag", tag)
            self.refused(why, tag)

    def test_no_news(self):
        self.addCleanup(self.git, "reset", "--quiet", "--hard", "HEAD~1")
        self.version("0.3.0")
        self.commit("0.3.0")
        self.git("tag", "v0.3.0")
        self.refused("NEWS has no section 0.3.0", "v0.3.0")

    def test_tests(self):
        self.log.write_text("skipped  page: no reason given\n" + GOOD)
        self.refused("skipped without a reason")
        self.log.write_text("skipped  a: 2 of its cases: no reason given\n" + GOOD)
        self.refused("skipped without a reason")
        self.log.write_text("119 passed, 1 failed, 1 skipped\n")
        self.refused("tests failed")
        self.log.write_text("all is well\n")
        self.refused("tests failed, or did not end")

    def test_no_key(self):
        self.refused("--key FILE", key="none.sec")

    def test_parts(self):
        done = self.release("v0.1.0-rc1", "refused", "--parts", "source cake")
        self.assertIn("no part cake", done.stderr)
        self.assertFalse((self.root / "refused").exists())


for program in ("git", "signify-openbsd"):
    if not shutil.which(program):
        print(f"skipped: there is no {program}")
        sys.exit(77)
unittest.main(argv=sys.argv[:1])
