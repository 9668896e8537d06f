"""tuffet run and chat: --grammar, --regex, --json-schema"""
import json
import re

from program import Case, main

THINK = ("{% for m in messages %}{{ '<|user|>\n' + m.content + '\n' }}{% endfor %}"
         "{{ '<|assistant|>\n' }}{% if enable_thinking is defined and not enable_thinking %}"
         "{{ '</think>\n' }}{% endif %}")
PLAIN = "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}"


class Form(Case):
    def test_a_regular_expression(self):
        for endless in [0, 1]:  # an endless vocabulary has no token to end with
            toy = self.toy(endless=1) if endless else self.toy()
            for seed in range(5):
                got = self.json("run", toy, "-phello", f"-s{seed}", "--temp=2",
                                "--regex=[a-f]{3,5}-[0-9]{2}")
                self.assertRegex(got["text"], r"\A[a-f]{3,5}-[0-9]{2}\Z")
                self.assertEqual(got["stop"], "end")
        self.assertEqual(self.json("run", toy, "-phello", "--regex=x?y", "-n1")["stop"], "length")
        self.assertEqual(self.json("run", toy, "--regex=")["text"], "")

    def test_the_first_space_is_of_the_form(self):
        got = self.json("run", self.toy(), "-p", "", "--regex= x{3}")
        self.assertEqual(got["text"], " xxx")

    def test_a_grammar(self):
        grammar = self.write("list.gbnf", b'root ::= "[" word ("," word){2} "]"\n'
                                          b'word ::= [a-z]{1,4}\n')
        text = self.json("run", self.toy(), "-phello", "--temp=1.5", "--grammar", grammar)["text"]
        self.assertRegex(text, r"\A\[[a-z]{1,4}(,[a-z]{1,4}){2}\]\Z")
        piped = self.json("run", self.toy(), "-phello", "--grammar=-", stdin=b'root ::= "yes"')
        self.assertEqual(piped["text"], "yes")

    def test_it_begins_anew_with_each_answer(self):
        out = self.tuffet("chat", self.toy(template=PLAIN), "--regex=[0-9]{3}", "--temp=2",
                          "--json", stdin=b"hello\nonce\nupon\n")
        answers = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(len(answers), 3)
        for answer in answers:
            self.assertRegex(answer["content"], r"\A[0-9]{3}\Z")
            self.assertEqual(answer["stop"], "end")

    def test_it_begins_behind_the_thoughts(self):
        """<think> and </think> of the toys have no text."""
        args = ["-phello", "--temp=1", "--min-p=0", "--top-p=1", "-n220", "--regex=[0-9]{3}"]
        thinker = self.toy(template=THINK, uniform=1)
        for seed, thinks in [(1, False), (664, True)]:  # in 664 <think> comes first
            said = self.json("chat", thinker, *args, f"-s{seed}")
            self.assertEqual(said["stop"], "end")
            self.assertRegex(said["content"], r"[0-9]{3}\Z")
            self.assertEqual(len(said["content"]) > 3, thinks)
            said = self.json("chat", thinker, *args, f"-s{seed}", "--no-think")
            self.assertRegex(said["content"], r"\A[0-9]{3}\Z")
        # the template may think for it: then every answer is thoughts first
        opened = self.toy(template=PLAIN + "{{ '<think>\n' }}", uniform=1)
        for seed in range(4):
            said = self.json("chat", opened, *args, f"-s{seed}")
            self.assertTrue(said["stop"] == "length" or
                            re.search(r"[0-9]{3}\Z", said["content"]), said)
            self.assertGreater(len(said["content"]), 3)

    def test_a_schema(self):
        schema = ('{"type": "object", "properties": {"kind": {"enum": ["cat", "dog"]}, '
                  '"age": {"type": "integer", "minimum": 1, "maximum": 30}}, '
                  '"required": ["kind", "age"]}')
        want = r'\A\{"kind": "(cat|dog)", "age": ([1-9]|[12][0-9]|30)\}\Z'
        for option in [schema, self.write("pet.json", schema.encode())]:
            said = self.json("run", self.toy(), "-phello", "--temp=2", "--json-schema", option)
            self.assertRegex(said["text"], want)
            said = self.json("chat", self.toy(template=PLAIN), "-phello", "--temp=2",
                             "--json-schema", option)
            self.assertRegex(said["content"], want)
        orders = {list(json.loads(self.json("run", self.toy(uniform=1), "-phello", f"-s{seed}",
                                            "--any-order", "--json-schema", schema)["text"]))[0]
                  for seed in range(12)}
        self.assertEqual(orders, {"kind", "age"})

    def test_errors(self):
        toy = self.toy(template=PLAIN)
        self.assertIn("--grammar, --regex and --json-schema give different forms",
                      self.fails("run", toy, "--regex=a", "--grammar=x", status=2))
        self.assertIn("--grammar, --regex and --json-schema give different forms",
                      self.fails("chat", toy, "--regex=a", "--grammar=x", status=2))
        self.assertIn("No such file", self.fails("run", toy, "--grammar", self.path("gone")))
        wrong = self.write("wrong.gbnf", b'root ::= a\na ::= [z-a]\n')
        for command in ["run", "chat"]:
            self.assertIn(f"{wrong}: grammar: line 2, column 7: a class with a range that ends",
                          self.fails(command, toy, "-phello", "--grammar", wrong))
        self.assertIn("--any-order goes with --json-schema",
                      self.fails("run", toy, "--any-order", status=2))
        self.assertIn("--json-schema: schema: #/contains: this keyword is not supported",
                      self.fails("run", toy, "-phello", '--json-schema={"contains": {}}'))
        broken = self.write("broken.json", b'{"type":\n}')
        self.assertIn(f"{broken}: JSON: line 2, column 1: not a value",
                      self.fails("chat", toy, "-phello", "--json-schema", broken))
        self.assertIn("--regex: grammar: line 1, column 2: ",
                      self.fails("run", toy, "-phello", "--regex=a(?=b)"))


main()
