"""What holds for every command."""
import os
import re
import resource
import struct
import subprocess
import unittest

from program import PATIENCE, TUFFET, WRAPPER, Case, main

COMMANDS = {"demo": "[MODEL]", "run": "[MODEL]", "chat": "MODEL", "serve": "[MODEL...]",
            "pull": "USER/REPO[:QUANT]", "list": "[NAME]", "rm": "USER/REPO[:QUANT]",
            "quantize": "MODEL", "pack": "MODEL", "ppl": "MODEL", "bench": "[MODEL]",
            "inspect": "MODEL", "tokenize": "MODEL", "eval": "MODEL", "import": "FOLDER",
            "batch": "MODEL", "embed": "MODEL [FILE]", "rerank": "MODEL QUERY [FILE]"}


class Common(Case):
    def test_help(self):
        listed = re.findall(r"^  (\w+) +\w", self.tuffet("--help").decode(), re.M)
        not_everywhere = {"eval", "import", "batch", "embed", "rerank"}
        self.assertEqual(COMMANDS.keys() - listed - not_everywhere, set())
        for command in listed:
            operands = COMMANDS[command]
            text = self.tuffet(command, "--help", "all").decode()
            for args in [["--help=all"], ["--json", "no-such-file", "-h", "all"]]:
                self.assertEqual(text, self.tuffet(command, *args).decode())
            self.assertIn(f"\nUsage: tuffet {command} [OPTIONS] {operands}\n", text)
            self.assertIn(f"\nExamples:\n  tuffet {command} ", text)
            self.assertIn("  --json", text)
            self.assertEqual(text, self.tuffet("help", command, "all").decode())
            usage, _, examples = text.partition("\nExamples:\n")
            self.assertLessEqual(max(map(len, usage.splitlines())), 80)
            self.assertLessEqual(max(map(len, examples.splitlines())), 100)

    def test_help_of_everything(self):
        """The program's help, and then each command's with all options."""
        program = self.tuffet("--help").decode()
        want = program + "".join("\n" + self.tuffet("help", command, "all").decode()
                                 for command in re.findall(r"^  (\w+) +\w", program, re.M))
        self.assertIn("\nUsage: tuffet quantize ", want)
        for args in [["--help", "all"], ["-h", "all"], ["help", "all"]]:
            self.assertEqual(self.tuffet(*args).decode(), want)
        self.assertIn('there is no command "all"', self.fails("help", "all", "all", status=2))

    def test_help_in_two_lengths(self):
        """Commands with many options print six of them first. The others print all."""
        many = set()
        for command in COMMANDS:
            if f"\n  {command} " not in self.tuffet("--help").decode():
                continue
            text, whole = (self.tuffet(command, *args).decode()
                           for args in [["--help"], ["--help", "all"]])
            for args in [[command, "-h"], [command, "--json", "--help", "--json"],
                         ["help", command], ["--help", command]]:
                self.assertEqual(text, self.tuffet(*args).decode())
            if text == whole:
                continue
            many.add(command)
            head, options, more = text.rsplit("\n\n", 2)
            self.assertEqual(head, "\n\n".join(whole.split("\n\n")[:2]))
            self.assertEqual(more, f"More: tuffet {command} --help all\n")
            listed = re.split(r"\n(?= {2,6}-)", options)
            self.assertEqual(len(listed), 6, options)
            for option in listed:
                self.assertIn(f"\n{option}\n", whole)
        self.assertLessEqual({"run", "chat", "quantize"}, many)
        self.assertLessEqual(many, {"run", "chat", "quantize", "serve", "batch", "embed",
                                    "rerank"})

    def test_help_takes_no_other_word(self):
        for args in [["run", "--help", "al"], ["run", "--json", "-h", "al"], ["help", "run", "al"],
                     ["run", "--help=al"], ["pack", "--help", "al"]]:
            self.assertIn('followed by the word all, not by "al"', self.fails(*args, status=2))

    def test_version(self):
        self.assertRegex(self.tuffet("--version"),
                         rb"^tuffet \d+\.\d+\.\d+ \((\w+), \d+ threads\)\n"
                         rb"built with(?= .*\b\1\b)( \w+)* c( \w+)*\n$")
        parts = self.tuffet("--version").split()
        listed = self.tuffet("--help")
        self.assertEqual(b"json" in parts, b"\n  import " in listed)
        for part, command in [(b"server", b"serve"), (b"libcurl", b"pull"), (b"libcurl", b"rm")]:
            summary = next(line for line in listed.splitlines() if line.startswith(b"  " + command))
            self.assertEqual(part in parts, b"not in this build" not in summary)
        self.assertEqual(b"mpi" in parts, "MPI_PLUGIN" in os.environ)

    def test_no_command(self):
        done = subprocess.run(TUFFET, capture_output=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"Usage: tuffet COMMAND", done.stderr)
        for args in [["sing"], ["help", "sing"], ["help", "--man", "sing"]]:
            self.assertIn('no command "sing"', self.fails(*args, status=2))
        self.assertEqual(self.tuffet("help"), self.tuffet("--help"))
        for args in [["help", "run", "all", "chat"], ["help", "--man", "run", "chat"]]:
            self.assertIn('"chat" is one argument too many', self.fails(*args, status=2))

    def test_wrong_command_lines(self):
        toy = self.toy()
        for args, why in [
            (["chat"], "MODEL is missing"),
            (["run", toy, toy], "one argument too many"),
            (["run", toy, "--what"], "tuffet run has no option --what"),
            (["run", toy, "-x"], "tuffet run has no option -x"),
            (["run", toy, "-n"], "--tokens needs a value"),
            (["run", toy, "-n", "many"], 'not "many"'),
            (["run", toy, "-n-2"], 'not "-2"'),
            (["run", toy, "--top-p=1.1"], 'from 0 to 1, not "1.1"'),
            (["run", toy, "--top-p=-1"], 'from 0 to 1, not "-1"'),
            (["run", toy, "--min-p=nan"], 'from 0 to 1, not "nan"'),
            (["run", toy, "--top-k=-1"], 'not "-1"'),
            (["run", toy, "--repeat-last=-2"], 'whole number, or -1, not "-2"'),
            (["run", toy, "-n", "1e3"], 'not "1e3"'),
            (["run", toy, "-n", "99999999999"], 'not "99999999999"'),
            (["run", toy, "--temp=-1"], 'not "-1"'),
            (["run", toy, "--temp=nan"], 'not "nan"'),
            (["run", toy, "--temp="], 'not ""'),
            (["run", toy, "--kv", "f64"], 'no KV cache is called "f64"'),
            (["run", toy, "--kv", "f16:bits=2"], "a KV cache of f16 has no knobs"),
            (["inspect", toy, "--kv", "kivi:bits=5"], 'not "5"'),
            (["bench", "--shape=smollm2-135m", "--kv", "k=2@mixed,vv=1"], 'has no knob "vv"'),
            (["quantize", toy, "-o", self.path("x"), "--calib", toy, "--kv", "kivi:group=48"],
             "group is 16, 32, 64, 128 or 256"),
            (["run", toy, "--json=yes"], "takes no value"),
            (["run", toy, "-p", "a", "-f", "b"], "two prompts"),
            (["ppl", toy], "-f FILE"),
            (["pack", toy], "-o FILE"),
            (["chat", toy, "--template", "morse"], "chatml"),
            (["tokenize", toy, "-p", "a", "-f", "b"], "two texts"),
            (["tokenize", toy, "-p", "a", "--decode", "--bos"], "cannot be combined with --bos"),
            (["tokenize", toy, "-pa", "--decode", "--pieces"], "cannot be combined with --pieces"),
        ]:
            self.assertIn(why, self.fails(*args, status=2))

    def test_habits_of_other_programs(self):
        toy, folder, shard = self.toy(), self.path("folder"), self.write("x.safetensors", b"x")
        os.makedirs(folder, exist_ok=True)
        for args, why in [
            (["run", "-m", toy], "name its file alone"),
            (["run", toy, "-ngl", "99"], "--device cuda"),
            (["serve", toy, "--n-gpu-layers=99"], "--device cuda"),
            (["run", toy, "--ctx-size", "99"], "--ctx N"),
            (["chat", toy, "--n-predict=9"], "--tokens N"),
            (["run", toy, "--temperature", "1"], "--temp T"),
            (["bench", toy, "--lora", "x"], "take adapters; this command does not"),
            (["run", toy, "--mmproj", "x"], "no images"),
            (["chat", toy, "-fa"], "leave the option out"),
            (["pack", toy, "--n-predict=9"], "no option --n-predict=9"),
            (["run", toy, "Once upon a time"], "a text goes after -p"),
            (["-m", toy], "a command comes first"),
            ([toy], "tuffet run generates text"),
            (["no-such-file.gguf"], "tuffet run generates text"),
            (["server", "-m", toy], "tuffet serve MODEL"),
            (["download", "llama"], "tuffet pull USER/REPO"),
            (["run", "-hf", "a/b"], "hf:USER/REPO:QUANT"),
            (["ls"], "tuffet list"),
        ]:
            self.assertIn(why, self.fails(*args, status=2))
        self.assertNotIn("-p", self.fails("inspect", toy, toy, status=2).split("many")[1])
        self.assertIn("a text goes after -p", self.fails("run", "Once upon a time"))
        for args in [["run", folder], ["inspect", folder], ["chat", folder]]:
            self.assertIn(f"tuffet import {folder} -o FILE.gguf", self.fails(*args))
        for args in [["run", shard], ["quantize", shard, "-o", self.path("x")]]:
            self.assertIn("the folder that they lie in", self.fails(*args))

    def test_options_take_every_form(self):
        want = self.tuffet("run", self.toy(), "-p", "hello", "-n", "5", "-s", "1")
        for args in [["-phello", "-n5", "-s1"], ["--prompt=hello", "--tokens=5", "--seed=1"],
                     ["--prompt", "hello", "--tokens", "0x5", "--seed", "1"]]:
            self.assertEqual(self.tuffet("run", *args, "--", self.toy()), want)

    def test_invalid_files(self):
        whole = self.read(self.toy())
        string = (struct.pack("<Q", 20) + b"general.architecture" + struct.pack("<IQ", 8, 5)
                  + b"llama")
        for name, data, why in [
            ("empty", b"", "byte 0: the file is empty"),
            ("text", b"Once upon a time", "byte 0: neither"),
            ("cut", whole[:-1], "ends at byte"),
            ("version", whole[:4] + b"\x09" + whole[5:], "byte 4: "),
            ("bare", b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + string, "there are no weights in it"),
        ]:
            path = self.write(name, data)
            for command in ["run", "chat", "ppl"]:
                line = self.fails(command, path, *(["-f", path] if command == "ppl" else []))
                self.assertTrue(line.startswith(f"tuffet: {path}: ") and why in line, line)
            if name != "bare":
                self.assertIn(why, self.fails("inspect", path))
        for path, why in [("no such file", "No such file"), (self.folder.name, "Is a directory")]:
            for command in ["run", "chat", "inspect", "tokenize"]:
                line = self.fails(command, path)
                self.assertTrue(line.startswith(f"tuffet: {path}: cannot be read: {why}"))
        os.mkfifo(self.path("pipe"))
        self.assertIn("pipe: is a pipe or a device", self.fails("run", self.path("pipe")))
        for command in ["run", "chat", "bench"]:
            line = self.fails(command, "gone.gguf")
            self.assertTrue(line.endswith("(tuffet list shows the models on this machine)"), line)
        self.assertIn("no such text: No such file", self.fails("run", self.toy(), "-f",
                                                               "no such text"))

    @unittest.skipIf(WRAPPER, "the limit would be the emulator's")
    def test_a_small_stack(self):
        def run(kib):
            size = kib << 10
            return subprocess.run(
                [*TUFFET, "run", self.toy(), "-p", "hello", "-n4", "-t2"], capture_output=True,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (size, size)))
        self.assertEqual(run(1024).returncode, 0)
        done = run(200)
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertIn(b"stack is below 256 KiB", done.stderr)

    def test_a_tensor_of_a_later_part(self):
        """The message names the file that has it, whichever part the command names."""
        def number(key, n):
            return struct.pack("<Q", len(key)) + key.encode() + struct.pack("<II", 4, n)
        def place(i):
            return number("split.no", i) + number("split.count", 2)
        with open(self.toy(), "rb") as f:
            toy = f.read()
        more = place(0) + b"".join(number(f"general.filler{i}", 0) for i in range(7))
        more += number("general." + "x" * (-len(more + number("general.", 0)) % 32), 0)
        (n,) = struct.unpack_from("<Q", toy, 16)
        first = self.write("m-00001-of-00002.gguf",
                           toy[:16] + struct.pack("<Q", n + 10) + more + toy[24:])
        second = (b"GGUF" + struct.pack("<IQQ", 3, 1, 2) + place(1) + struct.pack("<Q", 6) +
                  b"beyond" + struct.pack("<IQIQ", 1, 4, 0, 0))
        at = len(second) - 24 - 6 - 8
        second = self.write("m-00002-of-00002.gguf", second + bytes(-len(second) % 32 + 32))
        for path in first, second:
            self.assertIn(f"{second}: byte {at}: the tensor beyond is unknown to the architecture "
                          "llama", self.fails("run", path, "-p", "hello"))

    def test_files_that_are_no_model_of_text(self):
        def file(**values):
            head = b"GGUF" + struct.pack("<IQQ", 3, 1, len(values))
            for key, value in values.items():
                for text in "general." + key, value:
                    head += (struct.pack("<I", 8) if text is value else b"")
                    head += struct.pack("<Q", len(text)) + text.encode()
            head += struct.pack("<Q", 1) + b"x" + struct.pack("<IQIQ", 1, 32, 0, 0)
            return self.write("part.gguf", head + bytes(-len(head) % 32) + bytes(128))
        for values, why in [
            ({"architecture": "t5"}, "an encoder with a decoder"),
            ({"architecture": "clip", "type": "mmproj"}, "reads images"),
            ({"architecture": "llama", "type": "adapter"}, "a LoRA adapter"),
            ({"architecture": "abacus"}, 'the architecture "abacus" is not supported'),
        ]:
            for command in ["run", "chat"]:
                self.assertIn(why, self.fails(command, file(**values)))

    def test_a_key_that_is_not_known(self):
        key, name = "llama.rope.freq_base", "llama.rope.freq_basx"  # the default has the same value
        whole = self.read(self.toy())
        self.assertIn(key.encode(), whole)
        path = self.write("key.gguf", whole.replace(key.encode(), name.encode()))
        for command in ["run", "chat"]:
            self.assertIn(f"the key {name} is not supported: --ignore-key {name} takes the file",
                          self.fails(command, path))
        args = ["-p", "hello", "-n", "5", "-s", "1"]
        self.assertEqual(self.tuffet("run", path, *args, "--ignore-key", "llama.other," + name),
                         self.tuffet("run", self.toy(), *args))
        out = self.path("key.out.gguf")
        for command in [["pack"], ["quantize"]]:
            self.assertIn(f"--ignore-key {name}", self.fails(*command, path, "-o", out))
        prose = self.write("prose.txt", b"the cat sat on the mat and the dog lay beside it. " * 40)
        self.json("quantize", path, "-o", out, "--calib", prose, "--ignore-key", name)
        self.tuffet("run", out, *args)  # without the key
        codes = self.toy(type="q8_0")
        path = self.write("codes.gguf", self.read(codes).replace(key.encode(), name.encode()))
        self.tuffet("pack", path, "-o", out, "--ignore-key", name)
        self.assertEqual(self.tuffet("run", out, *args), self.tuffet("run", codes, *args))

    def test_options_out_of_range(self):
        for args, why in [(["-c", "257"], "257"), (["-t", "2000"], "thread"),
                          (["--cpu", "abacus"], '"abacus"')]:
            for command in [["run"], ["chat", "--template=zephyr"]]:
                self.assertIn(why, self.fails(*command, self.toy(), *args))

    @unittest.skipUnless(os.path.exists("/dev/zero"), "no /dev/zero")
    def test_files_without_an_end(self):
        toy = self.toy()
        os.makedirs(self.path("zero/tuffet"))
        os.symlink("/dev/zero", self.path("zero/tuffet/config"))
        for args, most in [(["run", toy, "-f", "/dev/zero"], 256),
                           (["tokenize", toy, "-f", "/dev/zero"], 256),
                           (["ppl", toy, "-f", "/dev/zero"], 256),
                           (["run", toy, "-phello", "--grammar", "/dev/zero"], 256),
                           (["chat", toy, "-phello", "--template-file", "/dev/zero"], 1)]:
            self.assertIn(f"/dev/zero has more than {most} MiB, or no end", self.fails(*args))
        done = subprocess.run([*TUFFET, "chat", toy, "-phello"], capture_output=True,
                              env={**os.environ, "XDG_CONFIG_HOME": self.path("zero")})
        self.assertIn(b"config has more than 1 MiB, or no end", done.stderr)
        with open("/dev/zero", "rb") as zero:
            done = subprocess.run([*TUFFET, "chat", toy, "--template=chatml"], stdin=zero,
                                  capture_output=True)
        self.assertIn(b"the message has more than 16 MiB, or no end", done.stderr)
        self.assertEqual((done.returncode, done.stdout), (1, b""))

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_a_byte_order_mark(self):
        """Notepad and PowerShell write it at the start of a file: it is no part of the text."""
        toy = self.toy(endless=1)
        template = "{% for m in messages %}{{ m.content }}{% endfor %}"
        for args, text in [
            (["run", toy, "-n8", "--temp=0", "-f"], "hello world"),
            (["tokenize", toy, "-f"], "hello world"),
            (["tokenize", toy, "-f"], ""),
            (["run", toy, "-n4", "--temp=0", "-phello", "--grammar"], 'root ::= "a" | "b"\r\n'),
            (["run", toy, "-n9", "--temp=0", "-phello", "--json-schema"], '{"type": "boolean"}'),
            (["chat", toy, "-n4", "--temp=0", "-phello", "--template-file"], template),
        ]:
            plain, marked = self.write("plain", text.encode()), self.path("marked")
            self.write("marked", b"\xef\xbb\xbf" + text.encode())
            self.assertEqual(self.tuffet(*args, marked), self.tuffet(*args, plain), args)
            for utf16 in "utf-16", "utf-16-be":
                self.write("wide", ("\ufeff" * (utf16[-1] == "e") + text).encode(utf16))
                self.assertIn("wide: the text is UTF-16: save it as UTF-8",
                              self.fails(*args, self.path("wide")))
        chat = ["chat", toy, "-n4", "--temp=0", "--template=zephyr"]
        self.assertEqual(self.tuffet(*chat, stdin=b"\xef\xbb\xbfhello\nhello\n"),
                         self.tuffet(*chat, stdin=b"hello\nhello\n"))

    def test_a_full_disk(self):
        toy = self.toy()
        for args in [["--help"], ["run", "--help"], ["run", toy, "-phello", "-s1"],
                     ["run", toy, "-phello", "-s1", "--json"],
                     ["chat", toy, "--template=phi3", "-phello", "-s1"],
                     ["chat", toy, "--template=phi3", "-phello", "-s1", "--json"], ["inspect", toy],
                     ["inspect", toy, "--json"], ["tokenize", toy, "-phello"],
                     ["tokenize", toy, "-p365", "--decode"]]:
            with open("/dev/full", "wb") as full:
                done = subprocess.run([*TUFFET, *args], stdin=subprocess.DEVNULL, stdout=full,
                                      stderr=subprocess.PIPE, timeout=PATIENCE)
            self.assertEqual((done.returncode, done.stderr),
                             (1, b"tuffet: standard output: No space left on device\n"), args)

    def test_a_reader_that_goes_away(self):
        toy = self.toy(endless=1, ctx=100000)
        # more than fits in a pipe
        for args in [["run", toy], ["tokenize", toy, "-f", toy, "--pieces"]]:
            with subprocess.Popen([*TUFFET, *args], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
                self.assertEqual(len(p.stdout.read(10)), 10)
                p.stdout.close()
                self.assertEqual(p.stderr.read(), b"")
                self.assertNotEqual(p.wait(PATIENCE), 0)

    def test_logits_that_are_no_numbers(self):
        """Every command that computes says so, and prints no result."""
        toy = self.toy()
        at = next(t["offset"] for t in self.json("inspect", toy)["tensors"]
                  if t["name"] == "output_norm.weight")
        data = self.read(toy)
        text = self.write("words", b"hello world once upon a time " * 30)
        for bits in [b"\x00\x00\xc0\x7f", b"\x00\x00\x80\xff"]:
            bad = self.write("bad", data[:at] + bits + data[at + 4:])
            for args in [["run", "-phello", "--json"],
                         ["chat", "-phello", "--template=chatml", "--json"],
                         ["ppl", "-f", text, "--ctx=64", "--json"]]:
                self.assertIn("have NaN or infinity: the file is damaged",
                              self.fails(args[0], bad, *args[1:]))


main()
