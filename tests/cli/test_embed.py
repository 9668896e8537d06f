"""examples/embed.c, which is linked to the shared library."""
import subprocess

from program import EMBED, PATIENCE, Case, main


class Embed(Case):
    def embed(self, *args):
        done = subprocess.run([*EMBED, *args], capture_output=True, timeout=PATIENCE)
        return done.returncode, done.stdout, done.stderr.decode()

    def test_writes_what_run_writes(self):
        toy = self.toy()
        text = self.tuffet("run", toy, "-phello", "--temp=0.8", "--top-p=1", "--min-p=0.05", "-s1")
        self.assertGreater(len(text), 10)
        self.assertEqual(self.embed(toy, "hello"), (0, text[:-1], ""))

    def test_errors(self):
        self.assertEqual(self.embed(), (1, b"", "\nusage: embed MODEL TEXT\n"))
        status, out, err = self.embed("no such file", "hello")
        self.assertEqual((status, out), (1, b""))
        self.assertIn("no such file: cannot be read", err)
        status, out, err = self.embed(self.toy(endless=1), "hello")
        self.assertEqual((status, err), (1, "\nthere is no room for the tokens\n"))
        self.assertGreater(len(out), 0)


main()
