"""tuffet demo, and the screen of tuffet without arguments."""
import json
import os
import pathlib
import re
import shlex
import subprocess

from program import PATIENCE, TUFFET, Case, Terminal, main

SHIPPED = str(pathlib.Path(__file__).resolve().parents[2] / "models/demo/stories2M.gguf")
VERSION = subprocess.run([*TUFFET, "--version"], capture_output=True).stdout.decode()
PULLS = " libcurl" in VERSION


class Demo(Case):
    def program_in(self, *folders):
        """The program under another path, without a model beside it."""
        folder = self.path(os.path.join(*folders))
        os.makedirs(folder)
        os.symlink(os.path.abspath(TUFFET[-1]), os.path.join(folder, "tuffet"))
        return [*TUFFET[:-1], os.path.join(folder, "tuffet")]

    def test_each_command_alone_prints_the_text_of_its_part(self):
        text = self.tuffet("demo", SHIPPED, "-t1").decode()
        commands = [shlex.split(line) for line in re.findall(r"^    \$ (.*)$", text, re.M)]
        self.assertEqual([words[1] for words in commands],
                         ["run", "run", "inspect", "run", "run"])
        self.assertEqual(re.findall(r"^(\d) of 4\. ", text, re.M), ["1", "2", "3", "4"])
        for program, *words in commands:
            self.assertEqual(program, TUFFET[-1] if "/" in TUFFET[-1] else "tuffet")
            alone = self.tuffet(*words).decode()
            if words[0] == "run":
                self.assertIn("\n\n" + alone, text)
            else:
                bytes_of_token = re.search(r"^KV cache .*, (\d+) bytes a token$", alone, re.M)[1]
                self.assertIn(f" and {bytes_of_token} of 1.5 bits", text)
        stories = re.findall(r"^Once upon a time(?:.+\n)+", text, re.M)
        self.assertEqual(len(stories), 2)
        self.assertNotEqual(*stories)
        answer = json.loads(text[text.rindex("Lily saw a big dog in the park. "):]
                            .removeprefix("Lily saw a big dog in the park. ").splitlines()[0])
        self.assertEqual([*answer], ["child", "place", "pets"])

    def test_hashes_are_those_of_every_level(self):
        text = self.tuffet("demo", SHIPPED, "-t2").decode()
        lines = re.findall(r"^    (\w+) +(\d+) threads? +([0-9a-f]{16})$", text, re.M)
        levels = [level for level, threads, _ in lines if threads == "1"]
        built = VERSION.split("built with ")[1].split()
        best = re.search(r" \((\w+), ", VERSION)[1]
        self.assertEqual(levels, [name for name in built if name in levels])
        self.assertEqual((levels[0], levels[-1]), ("c", best))
        self.assertEqual([threads for _, threads, _ in lines], ["1", "2"] * len(levels))
        self.assertEqual(len({number for _, _, number in lines}), 1)
        self.assertIn(f"\nAll {len(lines)} are the same.\n", text)

    def test_json(self):
        done = self.tuffet("demo", SHIPPED, "-t1", "--json").decode()
        story, small, sizes, bits, written = map(json.loads, done.splitlines())
        self.assertTrue(bits["same"])
        self.assertGreater(sizes["f16"], 5 * sizes["kivi:bits=1.5"])
        text = self.tuffet("demo", SHIPPED, "-t1").decode()
        for part in (story, small, written):
            self.assertIn(part["text"] + "\n", text)
        for one in bits["hashes"]:
            self.assertIn(one["hash"], text)

    def test_the_model_of_the_sources(self):
        """A program in a folder of builds finds models/demo of the sources around it."""
        here = self.path("sources/models/demo")
        os.makedirs(here)
        os.symlink(SHIPPED, os.path.join(here, "stories2M.gguf"))
        want = self.tuffet("run", SHIPPED, "--temp=0", "-n9", "-pOnce")
        for folders in (["sources", "build", "tools"], ["sources", "build", "demo", "tools"]):
            program = self.program_in(*folders)
            done = subprocess.run([*program, "run", "--temp=0", "-n9", "-pOnce"],
                                  capture_output=True, timeout=PATIENCE)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, want, b""))

    def test_without_a_model(self):
        done = subprocess.run([*self.program_in("alone", "bin"), "demo"], capture_output=True,
                              timeout=PATIENCE)
        if done.returncode:  # else there is an installed one
            self.assertEqual((done.returncode, done.stdout), (2, b""))
            self.assertIn(b"neither beside the program nor in", done.stderr)
            self.assertIn(b"name a GGUF file", done.stderr)


class Welcome(Case):
    def screen(self, home):
        os.makedirs(home, exist_ok=True)
        t = Terminal(HOME=home, XDG_CACHE_HOME=home, HF_HOME=home + "/hf", LLAMA_CACHE=home,
                     OLLAMA_MODELS=home + "/ollama")
        self.assertEqual(t.end(), 0)
        lines = t.screen.decode().replace("\r\n", "\n").splitlines()
        self.assertLessEqual(len(lines), 24)
        self.assertLessEqual(max(map(len, lines)), 80)
        return "\n".join(lines)

    def test_commands_are_there(self):
        text = self.screen(self.path("empty"))
        listed = re.findall(r"^  (\w+) +\w", self.tuffet("help").decode(), re.M)
        shown = re.findall(r"^  tuffet (\w+)", text, re.M)
        self.assertLessEqual({"demo", "run", "chat", "quantize"}, set(shown))
        self.assertLessEqual(set(shown), {*listed, "help"})

    def test_models_and_the_next_command(self):
        home = self.path("home")
        empty = self.screen(home)
        self.assertRegex(empty, "\nNext:\n  tuffet (demo|chat )")
        if not PULLS:
            return
        for i in range(7):
            pathlib.Path(home, f"some {i}.gguf").write_bytes(bytes(10))
        pathlib.Path(home, "some_last.gguf").write_bytes(bytes(20_000_000))
        text = self.screen(home)
        self.assertIn("\n  and 3 more: tuffet list\n", text)
        self.assertEqual(text.count("some "), 5)
        # a name that needs quotes is not offered
        self.assertTrue(text.endswith(f"\nNext:\n  tuffet chat {home}/some_last.gguf"), text)


main()
