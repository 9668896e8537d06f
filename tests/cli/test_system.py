"""System messages as prefixes: tuffet quantize --intact-system, and run and chat with the result"""
import json
import os
import struct
import subprocess

from program import TUFFET, Case, main

ZEPHYR = ("{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content ~ eos_token + '\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}")
CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
FORMATS = ["chatml", "qwen3", "llama2", "llama3", "zephyr", "phi3", "gemma", "mistral"]
PIRATE, POET = "the world and the time, hello", "once upon a time the end"
TEXT = b"hello world, once upon a time and the end. " * 60


class System(Case):
    def quantized(self, *args, out="out", **settings):
        settings = {"template": ZEPHYR, "ctx": 640, **settings}
        text = self.write("text", TEXT)
        done = subprocess.run([*TUFFET, "quantize", self.toy(**settings), "-o", self.path(out),
                               "--calib", text, "--calib-tokens=504", "--calib-window=126",
                               "-t1", "--json", *args], capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.found = json.loads(done.stdout)
        return self.path(out)

    def rows(self, model, name, layer):
        """The bytes of a tensor of rows in that layer of two."""
        tensor = next(t for t in self.json("inspect", model)["tensors"]
                      if t["name"] == f"tuffet.prefix.{name}")
        return self.read(model)[tensor["offset"]:][:tensor["bytes"]][
            tensor["bytes"] // 2 * layer:][:tensor["bytes"] // 2]

    def test_a_prompt_that_begins_with_one(self):
        model = self.quantized("--intact-system", "pirate=" + PIRATE, "--intact-system", POET)
        prompt = f"<|system|>\n{PIRATE}</s>\n<|user|>\nhello</s>\n<|assistant|>\n"
        tokens = self.json("tokenize", model, "--special", "-p", prompt)["tokens"]
        system = self.found["system"]
        self.assertEqual(list(system), ["pirate", "system"])
        values = self.json("inspect", model)["values"]
        self.assertEqual(values["tuffet.prefix.names"], ["pirate", "system"])
        self.assertEqual(values["tuffet.prefix.pirate.system"], PIRATE)
        held = len(system["pirate"])
        self.assertEqual(self.json("inspect", model)["w8a8"]["named"],
                         {"pirate": held, "system": len(system["system"])})
        self.assertRegex(self.tuffet("inspect", model).decode(),
                         f"pirate: {held} tokens after it\n +system: "
                         f"{len(system['system'])} tokens")
        self.assertEqual(tokens[:held], system["pirate"])
        self.assertGreater(held, len(self.json("tokenize", model, "-p", PIRATE)["tokens"]))

        def run(*args):
            found = self.json("run", model, "--special", "--temp=0", "-n9", "-p", prompt, *args)
            return found["text"], found["prompt_tokens"], found["prefix_tokens"]
        text = run()[0]
        self.assertEqual(run(), (text, len(tokens), held))
        self.assertEqual(run("--prefix=pirate"), (text, len(tokens), held))
        self.assertEqual(run("--prefix=main")[2], 0)
        self.assertEqual(run("--prefix=system")[2], 0)  # behind another system message
        self.assertNotEqual(run("--prefix=system")[0], text)
        self.assertIn('no prefix "poet": it has pirate, system',
                      self.fails("run", model, "-phello", "--prefix=poet"))
        # the context is that of the whole conversation
        full = self.json("run", model, "--special", "--temp=0", "-p", prompt, "-c",
                         str(len(tokens) + 3), "--seed=1")
        self.assertIn(full["stop"], ["context", "end"])
        self.assertIn(f"a context of {held} tokens has no room after the prefix pirate",
                      self.fails("run", model, "--special", "-p", prompt, "-c", str(held)))

        def chat(*args):
            return self.json("chat", model, "--temp=0", "-n9", "-phello", *args)["content"]
        self.assertEqual(chat("--system", PIRATE), text)
        self.assertEqual(chat("--prefix=pirate"), text)
        self.assertNotEqual(chat("--prefix=system"), text)
        self.assertEqual(chat("--prefix=main", "--system", PIRATE), run("--prefix=main")[0])
        self.assertIn("leave out --system", self.fails("chat", model, "--prefix=pirate",
                                                       "--system=a", status=2))
        self.assertIn('no prefix "poet": it has pirate, system',
                      self.fails("chat", model, "-phello", "--prefix=poet"))
        self.assertIn("the prefix pirate was made with another chat template",
                      self.fails("chat", model, "-phello", "--prefix=pirate", "--template=phi3"))

    def test_every_format(self):
        """Whatever the user says first, the prefix holds the system message, or the answer is that
        without it. Markup may merge with what comes after it."""
        for name in FORMATS:
            model = self.quantized("--intact-system", PIRATE, "--template", name, template="other")
            held = len(self.found["system"]["system"])
            self.assertGreaterEqual(held, len(self.json("tokenize", model, "-p",
                                                        PIRATE)["tokens"]) - 1, name)
            for message in ["hello", "\n\nhello", " 1", "Zebra", "\xe9", "the end"]:
                answers = {self.json("chat", model, "--temp=0", "-n5", "-t1", "-p", message,
                                     "--template", name, *args)["content"]
                           for args in [["--prefix=system"], ["--system", PIRATE]]}
                self.assertEqual(len(answers), 1, (name, message))

    def test_a_message_that_asks_for_another_prefix(self):
        """In gemma's format a user can say what a system message would."""
        model = self.quantized("--intact-system", PIRATE, "--template=gemma", template="other")
        args = ["chat", model, "--temp=0", "-n9", "--template=gemma", "-p"]
        want = self.json(*args, "hello", "--system", PIRATE)["content"]
        self.assertEqual(self.json(*args, PIRATE + "\n\nhello")["content"], want)
        self.assertEqual(self.json(*args, PIRATE + "\n\nhello", "-c200")["content"], want)

    def test_a_conversation(self):
        """Turns, and messages that are dropped: as if the rest were computed anew."""
        model = self.quantized("--intact-system", PIRATE, endless=1, ctx=160)
        held, turns = len(self.found["system"]["system"]), 9
        stdin = b"hello world\n" * turns
        for system in [["--prefix=system"], ["--system", PIRATE]]:
            done = subprocess.run([*TUFFET, "chat", model, "--temp=0", "-n8", "--json", *system],
                                  input=stdin, capture_output=True)
            self.assertEqual(done.returncode, 0)
            self.assertIn(b"the context is full: the oldest", done.stderr)
            answers = [json.loads(line)["content"] for line in done.stdout.splitlines()]
            self.assertEqual(len(answers), turns)
            prompt = f"<|system|>\n{PIRATE}\n"
            question = "<|user|>\nhello world\n<|assistant|>\n"
            dropped = int(done.stderr.split(b"oldest ")[1].split()[0]) // 2
            for answer in answers[dropped:-1]:
                prompt += question + answer + "\n"
            found = self.json("run", model, "--temp=0", "-n8", "--special", "-p", prompt + question)
            self.assertEqual(found["prefix_tokens"], held)
            self.assertEqual(answers[-1], found["text"])

    def test_behind_a_tuned_prefix(self):
        """Keys of the first layer are of the tokens alone; those of the second have seen the
        prefix that the file has in the end."""
        args = ["--intact-tokens=1,9", "--intact-system", PIRATE]
        plain = self.quantized(*args)
        tuned = self.quantized(*args, "--tune", "--tune-rate=0.1", out="tuned")
        self.assertNotEqual(self.rows(plain, "k", 1), self.rows(tuned, "k", 1))
        self.assertEqual(self.rows(plain, "system.k", 0), self.rows(tuned, "system.k", 0))
        self.assertNotEqual(self.rows(plain, "system.k", 1), self.rows(tuned, "system.k", 1))

    def test_behind_the_first_tokens_of_the_template(self):
        """The file's prefix holds them, so the named one does not."""
        prompt = (f"<|im_start|>system\n{PIRATE}<|im_end|>\n<|im_start|>user\n"
                  "hello<|im_end|>\n<|im_start|>assistant\n")
        model = self.quantized("--intact-text=<|im_start|>", "--intact-system", PIRATE,
                               template=CHATML, vocab="gpt2", endless=1)
        ids = self.json("tokenize", model, "--special", "-p", prompt)["tokens"]
        system = self.found["system"]["system"]
        self.assertEqual(self.found["prefix"] + system, ids[:1 + len(system)])
        run = self.json("run", model, "--special", "--temp=0", "-n9", "-p", prompt)
        self.assertEqual((run["prompt_tokens"], run["prefix_tokens"]), (len(ids), 1 + len(system)))
        for args in [["--prefix=system"], ["--system", PIRATE]]:
            self.assertEqual(self.json("chat", model, "--temp=0", "-n9", "-phello",
                                       *args)["content"], run["text"])

    def test_a_message_that_the_template_says_itself(self):
        own = ("{% if messages[0].role != 'system' %}{{ '<|im_start|>system\n" + PIRATE +
               "<|im_end|>\n' }}{% endif %}" + CHATML)
        model = self.quantized("--intact-system", PIRATE, template=own, vocab="gpt2", endless=1)
        answers = {self.json("chat", model, "--temp=0", "-n9", "-phello", *args)["content"]
                   for args in [[], ["--prefix=system"], ["--system", PIRATE]]}
        self.assertEqual(len(answers), 1)

    def test_other_options(self):
        """Each of them rewrites the file, or changes what values it has."""
        system = ["--intact-system", "a=" + PIRATE, "--intact-system", "b=" + POET]
        for args in [["--tune", "--kv-search=8", "--calib-window=252", "--calib-tokens=1008"],
                     ["--kv=skvq:group=16"], ["--bits=4"],
                     ["--bits=4", "--rounding=awq", "--rotate=o", "--intact=none"],
                     ["--cushion=auto", "--cushion-tau=9", "--cushion-cost=9", "--cushion-max=2",
                      "--cushion-sample=6", "--prefix-bits=16"]]:
            model = self.quantized(*system, *args, kv=2)
            self.assertIn(b"correct", self.tuffet("inspect", model, "--verify"))
            for name in "ab":
                self.assertEqual(self.json("chat", model, "--prefix", name, "-phello",
                                           "-n3")["role"], "assistant")
            bos = 1 in self.found["prefix"]
            self.assertEqual(self.found["system"]["a"][0] == 1, not bos)

    def test_wrong_use(self):
        def fails(*args, status=1, **settings):
            message = self.fails("quantize", self.toy(**settings), "-o", self.path("none"), *args,
                                 status=status)
            self.assertFalse([name for name in os.listdir(self.folder.name) if "none" in name])
            return message
        option, named = "--intact-system", {"template": ZEPHYR, "ctx": 640}
        for args, why in [
            ([option, "A=x"], 'the name "A" is not 1 to 32 of a-z'),
            ([option, "main=x"], 'the name "main"'), ([option, "=x"], "is not 1 to 32"),
            ([option, "a" * 33 + "=x"], "is not 1 to 32"),
            ([option, "a=x", option, "a=y"], 'two texts have the name "a"'),
            ([option, "x", option, "y"], 'two texts have the name "system"'),
            ([option, "a="], 'the text of "a" is empty'), ([option, ""], "is empty"),
            ([option, "x", "--intact-text=y"], "exclude each other"),
            ([option, "x", "--template=morse"], "--template must be chatml"),
            ([option, "x"] * 65, "more than 64 times"),
        ]:
            self.assertIn(why, fails(*args, status=2, **named))
        self.assertIn("the file has no chat template: name the format", fails(option, "x"))
        self.assertIn('the system message "system" has', fails(option, "x" * 700, **named))
        # words before "=" are text
        self.quantized(option, "say x = the")
        self.assertEqual(list(self.found["system"]), ["system"])

    def test_a_damaged_name(self):
        model = self.quantized("--intact-system", "pirate=" + PIRATE)
        data = self.read(model)
        at = data.index(struct.pack("<Q", 6) + b"pirate")
        bad = self.write("bad", data[:at + 8] + b"Pirate" + data[at + 14:])
        for command in [["run", "-phello"], ["chat", "-phello"], ["ppl", "-f", self.path("text")]]:
            self.assertIn("tuffet.prefix.names: name 0 is given twice, or not 1 to 32 of a-z",
                          self.fails(command[0], bad, *command[1:]))


main()
