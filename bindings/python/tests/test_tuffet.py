"""The Python module over the C libraries:

    test_tuffet.py TUFFET TOY ABI CHAT_ABI QUANTIZE_ABI SOURCE

TUFFET is the program; its texts must be the same. TOY writes random models. The ABIs list the
structs as a C compiler made them. SOURCE is the folder of the repository. The environment says
where the libraries are, as for every program with the module.
"""
import ctypes
import gc
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
import warnings

TUFFET, TOY, ABI, CHAT_ABI, QUANTIZE_ABI, SOURCE = sys.argv[1:7]
sys.path.insert(0, str(pathlib.Path(SOURCE) / "bindings" / "python"))
import tuffet  # noqa: E402
from tuffet import _c, errors, session as session_module  # noqa: E402

TEMPLATE = ("{% for m in messages %}{{ '<s>' + m.role + ': ' + m.content }}{% endfor %}"
            "{% if thinking %}{{ 'hmm' }}{% endif %}{{ ' assistant:' }}")
PROMPT = "once upon a time"


class Abi(unittest.TestCase):
    def test_structs_are_those_of_the_compiler(self):
        seen = set()
        for dump in (ABI, CHAT_ABI, QUANTIZE_ABI):
            struct = None
            for line in pathlib.Path(dump).read_text().splitlines():
                if found := re.match(r"struct (\w+): (\d+) bytes", line):
                    struct = getattr(_c, found[1], None)
                    if struct is not None:
                        seen.add(found[1])
                        self.assertEqual(ctypes.sizeof(struct), int(found[2]), found[1])
                        names = [name for name, *_ in struct._fields_]
                elif found := re.match(r" +(\d+) +(\d+)  .*: (\w+)$", line):
                    if struct is not None:
                        field = getattr(struct, found[3])
                        self.assertEqual((field.offset, field.size, names.pop(0)),
                                         (int(found[1]), int(found[2]), found[3]), line)
        mine = {name for name, value in vars(_c).items() if isinstance(value, type)
                and issubclass(value, ctypes.Structure) and value is not ctypes.Structure}
        self.assertEqual(seen, mine)
        self.assertGreater(len(mine), 12)

    def test_numbers_of_enums(self):
        text = pathlib.Path(ABI).read_text()
        numbers = {name: int(n) for name, n in re.findall(r"TFT_(\w+) = (\d+)", text)}
        for name, value in vars(_c).items():
            if name in numbers:
                self.assertEqual(value, numbers.pop(name), name)
        of_loops = ("WEIGHTS_", "FIM_")  # model.py goes through them by number
        self.assertEqual([n for n in numbers if not n.startswith(of_loops)], [])
        self.assertEqual(set(errors.BY_STATUS), set(range(1, 10)))

    def test_functions_have_the_arguments_of_the_header(self):
        text = "".join(pathlib.Path(dump).read_text() for dump in (ABI, CHAT_ABI, QUANTIZE_ABI))
        for name, (_, *arguments) in {**_c.CORE, **_c.CHAT, **_c.QUANTIZE}.items():
            found = re.search(rf"\b{name}\((.*)\)", text)
            self.assertIsNotNone(found, name)
            n = 0 if found[1] == "void" else len(re.split(r",(?![^()]*\))", found[1]))
            self.assertEqual(len(arguments), n, found[0])

    @unittest.skipUnless(sys.platform == "linux", "other systems name libraries otherwise")
    def test_a_library_of_another_soname_is_not_opened(self):
        with unittest.mock.patch("ctypes.util.find_library", return_value="libnone.so.99"):
            with self.assertRaisesRegex(ImportError, rf"^libnone\.so\.{_c.SONAME}: "):
                _c.open_library("none", "TUFFET_NONE")


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.path = cls.toy("toy", f"template={TEMPLATE}", "endless=1")

    @classmethod
    def toy(cls, name, *settings):
        path = str(cls.folder / f"{name}.gguf")
        subprocess.run([TOY, "write", path, *settings], check=True, capture_output=True)
        return path

    def model(self, path=None, **options):
        model = tuffet.Model(path or self.path, **options)
        self.addCleanup(model.close)
        return model

    def program(self, *args):
        """The text of `tuffet run`, without the newline that it adds."""
        done = subprocess.run([TUFFET, "run", self.path, *args], check=True, capture_output=True)
        return done.stdout.decode("utf-8").rstrip("\n")


class Models(Case):
    def test_it_says_what_the_program_says(self):
        info = self.model().info
        said = json.loads(subprocess.run([TUFFET, "inspect", self.path, "--json"], check=True,
                                         capture_output=True).stdout)["values"]
        self.assertEqual((info.arch, info.n_embd, info.n_layer, info.n_ctx),
                         ("llama", said["llama.embedding_length"], said["llama.block_count"],
                          said["llama.context_length"]))
        self.assertEqual(info.weights, "f32")
        self.assertEqual(self.model().prefixes, [])

    def test_tokens(self):
        model = self.model(self.toy("ending"))
        ids = model.tokenize(PROMPT)
        self.assertEqual(ids[0], model.bos)
        self.assertEqual(model.tokenize(PROMPT, bos=False), ids[1:])
        self.assertEqual(model.detokenize(ids), PROMPT)
        self.assertEqual(model.detokenize(ids[1:], goes_on=True), " " + PROMPT)
        self.assertIsNone(model.fim)
        gap = self.model(self.toy("gap", "fim=1"))
        self.assertEqual([gap.token_bytes(token, special=True) for token in gap.fim],
                         [b"<fim_prefix>", b"<fim_suffix>", b"<fim_middle>"])
        self.assertIn(model.eos, model.tokenize("a</s>", special=True))
        self.assertNotIn(model.eos, model.tokenize("a</s>"))
        self.assertEqual(model.tokenize(PROMPT, eos=True), ids)  # the model does not want it
        with self.assertRaises(tuffet.Unsupported):
            model.tokenize_pair(PROMPT, "a")
        other = self.model(self.toy("adds_eos", "adds_eos=1"))
        self.assertEqual(other.tokenize(PROMPT, eos=True), [*other.tokenize(PROMPT), other.eos])
        first, second = other.tokenize(PROMPT, eos=True), other.tokenize("é" * 50, bos=False)
        self.assertEqual(other.tokenize_pair(PROMPT, "é" * 50),
                         ([*first, *second, other.eos], [0] * (len(first) + len(second) + 1)))
        self.assertTrue(model.ends(model.eos))
        self.assertEqual(model.token_bytes(model.eos, special=True), b"</s>")
        self.assertEqual(model.token_bytes(model.eos), b"")
        long = "word " * 5000  # more tokens than a first guess may have room for
        self.assertEqual(model.detokenize(model.tokenize(long)), long)
        with self.assertRaises(ValueError):
            model.token_bytes(10 ** 6)
        with self.assertRaises(ValueError):
            list(model.texts([-1]))

    def test_half_characters_wait(self):
        model = self.model()
        ids = model.tokenize("é☃", bos=False)
        pieces = list(model.texts(ids))
        self.assertEqual("".join(pieces), "é☃")
        self.assertGreater(len(ids), 2)  # bytes
        self.assertIn("", pieces)
        self.assertEqual("".join(model.texts(ids[:-1])), "é\ufffd")

    def test_errors_have_the_line_of_the_library(self):
        with self.assertRaises(tuffet.FileError) as caught:
            tuffet.Model("nowhere/model.gguf")
        self.assertIn("nowhere/model.gguf", str(caught.exception))
        self.assertEqual(caught.exception.errno, 2)
        self.assertIsInstance(caught.exception, OSError)
        damaged = self.folder / "damaged.gguf"
        damaged.write_bytes(pathlib.Path(self.path).read_bytes()[:1000])
        with self.assertRaises(tuffet.FormatError) as caught:
            tuffet.Model(damaged)
        self.assertGreater(caught.exception.offset, 0)
        with self.assertRaises(ValueError):
            tuffet.Model(self.path, weights="i8")
        with self.assertRaisesRegex(tuffet.ArgumentError, "nonsense"):
            self.model().session(kv="nonsense")
        with self.assertRaisesRegex(tuffet.ArgumentError, "vocab_only"):
            self.model(vocab_only=True).session()

    def test_progress(self):
        seen = []
        self.model(self.toy("packed", "type=q8_0"), progress=seen.append)
        self.assertTrue(seen and all(0 <= x <= 1 for x in seen), seen)

    def test_conversations(self):
        model = self.model()
        prompt = model.prompt([{"role": "user", "content": "a</s>"}])
        self.assertEqual(prompt.text, "<s>user: a</s> assistant:")
        self.assertEqual(prompt.tokens[0], model.bos)
        self.assertNotIn(model.eos, prompt.tokens)  # what a user wrote stays text
        self.assertTrue(prompt.text_goes_on)
        self.assertIn("hmm", model.prompt([], thinking=True).text)
        with self.assertRaisesRegex(tuffet.Error, "template"):
            self.model(self.toy("bare")).prompt([])

    def test_what_the_template_drops(self):
        deaf = "{% for m in messages %}{{ m.content if m.role == 'user' }}{% endfor %}"
        model = self.model(self.toy("deaf", f"template={deaf}", "endless=1"))
        said = [{"role": "user", "content": "hello"}, {"role": "tool", "content": "once"}]
        with self.assertWarnsRegex(UserWarning, r"messages\[1\]: .* drops this result") as caught:
            self.assertEqual(model.prompt(said).text, "hello")
        self.assertTrue(caught.filename.endswith("test_tuffet.py"), caught.filename)
        dropped = r"^messages\[2\]: the chat template drops this message$"
        with self.assertRaisesRegex(tuffet.ArgumentError, dropped):
            model.session().chat([*said, {"role": "system", "content": "upon"}])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(model.prompt(said[:1]).text, "hello")

    def test_the_template_named_tool_use(self):
        model = self.model(self.toy("tools", f"template={TEMPLATE}",
                                    "tool_template={{ tools[0] }}{{ messages[0].content }}"))
        said = [{"role": "user", "content": "hello"}]
        for tools, text in [([], "<s>user: hello assistant:"), (["f"], "fhello"),
                            (None, "<s>user: hello assistant:")]:
            self.assertEqual(model.prompt(said, tools=tools).text, text)


class Sessions(Case):
    def test_the_text_of_the_program(self):
        session = self.model().session()
        for options, args in [({}, ["--temp=0"]),
                              ({"temperature": 1.5, "seed": 7}, ["--temp=1.5", "--seed=7"]),
                              ({"temperature": 1.5, "seed": 8, "top_k": 5, "min_p": 0.01,
                                "top_p": 0.9, "repeat_penalty": 1.3},
                               ["--temp=1.5", "--seed=8", "--top-k=5", "--min-p=0.01",
                                "--top-p=0.9", "--repeat-penalty=1.3"])]:
            if "top_k" not in options:  # the program has defaults of its own
                args = args + ["--top-k=0", "--top-p=1", "--min-p=0"]
            text = "".join(session.generate(PROMPT, max_tokens=20, **options))
            self.assertEqual(text.strip(), self.program("-p", PROMPT, "-n", "20", *args).strip())
            self.assertEqual(session.stopped, "length")
        self.assertNotEqual(*("".join(session.generate(PROMPT, max_tokens=20, temperature=9))
                              for _ in range(2)))

    def test_embedders(self):
        model = self.model()
        ids = model.tokenize(PROMPT)
        session = model.session(n_hidden=1, kv="f32")
        session.prefill(ids)
        last = tuffet.Embedder(model, pooling="last", raw=True)
        self.assertEqual((last.pooling, last.width, last.n_types), ("last", model.info.n_embd, 0))
        self.assertEqual(list(last.embed([ids, ids[:2]])[0]), list(session.hidden()))
        mean = tuffet.Embedder(model)
        [vector] = mean.embed([ids])
        self.assertEqual(mean.pooling, "mean")
        self.assertAlmostEqual(sum(x * x for x in vector), 1, places=5)
        rows = tuffet.Embedder(model, pooling="none").embed([ids, ids[:2]])
        self.assertEqual([len(text) for text in rows], [len(ids), 2])
        self.assertEqual(list(rows[0][-1]), list(session.hidden()))
        with self.assertRaises(tuffet.ArgumentError):
            tuffet.Embedder(model, pooling="rank")  # it has no classifier
        with self.assertRaises(tuffet.ArgumentError):
            mean.embed([[]])
        with self.assertRaises(ValueError):
            mean.embed([ids[:2]], types=[[0, 256]])
        with self.assertRaises(tuffet.Full):
            tuffet.Embedder(model, max_text=2).embed([ids])
        with self.assertRaises(tuffet.Unsupported):
            mean.rerank([ids])
        mean.cancel()
        with self.assertRaises(tuffet.Cancelled):
            mean.embed([ids])
        mean.close()

    def test_what_it_holds(self):
        model = self.model()
        session, ids = model.session(n_logits=2, n_hidden=1), model.tokenize(PROMPT)
        self.assertIsNone(session.logits())
        session.prefill(ids)
        self.assertEqual((session.pos, session.tokens), (len(ids), ids))
        before, last = list(session.logits(1)), list(session.logits())
        self.assertEqual(len(last), model.info.n_vocab)
        self.assertEqual(len(session.hidden()), model.info.n_embd)
        self.assertIsNone(session.hidden(1))
        [(best, logprob)] = session.likeliest(1)
        self.assertEqual(best, last.index(max(last)))
        total = math.log(sum(math.exp(x - max(last)) for x in last))
        self.assertAlmostEqual(logprob, -total, places=4)
        self.assertEqual(session.logprob(best), logprob)
        self.assertEqual(session.sample(tuffet.Sampler()), best)
        other = session.sample(tuffet.Sampler(1, seed=1, xtc_probability=1, xtc_threshold=1e-9))
        self.assertNotEqual(other, best)
        self.assertEqual(session.sample(tuffet.Sampler(1, seed=1, top_n_sigma=1e-3)), best)
        with self.assertRaisesRegex(TypeError, "unknown arguments: size, xtc"):
            tuffet.Sampler(xtc=1, size=1)
        session.decode(best)
        self.assertNotEqual(list(session.logits()), last)
        session.rewind(len(ids) - 1)
        session.prefill(ids[-1:])
        self.assertEqual(list(session.logits()), last)
        session.sync(ids[:-1])
        self.assertEqual(list(session.logits()), before)

    def test_guesses_change_nothing_but_time(self):
        model = self.model()
        plain, guessing = model.session(), model.session(lookup=8)
        for token in [5, 6, 7] * 20:
            plain.decode(token)
            guessing.decode(token)
            self.assertEqual(list(guessing.logits()), list(plain.logits()))
        self.assertEqual(plain.guessed, 0)
        self.assertGreater(guessing.guessed, 20)

    def test_a_draft_changes_nothing_but_time(self):
        model = self.model()
        for closed_first in ["session", "draft's model"]:
            drafting = self.model()
            draft = drafting.session()
            plain, looking = model.session(), model.session(lookup=8)
            guessing = model.session(lookup=8, draft=draft)
            with self.assertRaises(ValueError):
                draft.decode(1)  # it is no longer the caller's
            for _ in range(40):
                token = plain.likeliest(1)[0][0] if plain.pos else 5
                for session in [plain, looking, guessing]:
                    session.decode(token)
                self.assertEqual(list(guessing.logits()), list(plain.logits()))
            # a draft as large as the model does not pay, and is asked now and then
            self.assertGreater(guessing.guessed, looking.guessed)
            (guessing if closed_first == "session" else drafting).close()
            with self.assertRaises(ValueError):
                guessing.decode(1)

    def test_a_draft_can_be_stopped(self):
        def raising(done):
            raise KeyError("stop")
        model = self.model()
        session = model.session(lookup=8, draft=model.session(progress=raising))
        session.prefill([5, 6, 7])
        with self.assertRaises(KeyError):
            for _ in range(40):
                session.decode(session.likeliest(1)[0][0])

    def test_a_copy_of_logits_stays(self):
        session = self.model().session()
        session.prefill([1, 2, 3])
        kept = session.logits()
        numbers = list(kept)
        session.prefill([4, 5, 6])
        self.assertEqual(list(kept), numbers)
        self.assertNotEqual(list(session.logits()), numbers)
        if session_module.numpy is not None:
            self.assertEqual(kept.dtype, "float32")

    def test_it_ends_when_it_is_full(self):
        session = self.model().session(capacity=12)
        ids = session.model.tokenize(PROMPT)
        text = "".join(session.generate(ids))
        self.assertEqual((session.stopped, session.pos), ("full", 12))
        self.assertTrue(text)
        with self.assertRaises(tuffet.Full):
            session.decode(5)
        with self.assertRaises(tuffet.Full):
            session.generate([1] * 13).__next__()

    def test_saved(self):
        model, path = self.model(), self.folder / "saved"
        a, b, c = model.session(), model.session(), model.session()
        a.prefill([1, 5, 9])
        a.save(path)
        b.load(path)
        c.restore(a.dump())
        d = model.session()
        d.copy_from(a)
        for session in (a, b, c, d):
            session.decode(7)
            self.assertEqual(list(session.logits()), list(a.logits()))
            self.assertEqual(session.tokens, [1, 5, 9, 7])
        with self.assertRaises(tuffet.FormatError):
            c.restore(a.dump()[:-1])
        with self.assertRaises(tuffet.ArgumentError):
            model.session(kv="f32").load(path)

    def test_batch(self):
        model = self.model()
        batch, alone = model.batch(n_sessions=2), model.session()
        a, b = model.session(), model.session(capacity=4)
        self.assertEqual(batch.step({a: [1, 2, 3], b: [1, 2, 4]}), {})
        alone.prefill([1, 2, 3])
        self.assertEqual(list(a.logits()), list(alone.logits()))
        failed = batch.step({a: [5], b: [5, 6]})
        self.assertEqual(list(failed), [b])
        self.assertIsInstance(failed[b], tuffet.Full)
        self.assertEqual((a.pos, b.pos), (4, 3))

    def test_callbacks(self):
        model = self.model()
        seen, asked = [], []
        session = model.session(progress=seen.append, kv="bits=2,group=16,window=16,keep=4",
                                keep=lambda position, token: asked.append((position, token)))
        ids = [1 + i % 9 for i in range(100)]
        session.prefill(ids)
        self.assertTrue(seen and all(0 <= x <= 1 for x in seen), seen)
        self.assertEqual(asked, list(enumerate(ids)))

    def test_an_exception_in_a_callback_comes_out(self):
        def stop(done):
            raise KeyboardInterrupt
        session = self.model().session(progress=stop)
        with self.assertRaises(KeyboardInterrupt):
            session.prefill([1] * 40)
        self.assertEqual(session.pos, 0)
        session.prefill([1, 2])  # a short one is not asked about

    def test_cancel_from_another_thread(self):
        session = self.model().session()
        thread = threading.Thread(target=session.cancel)
        thread.start()
        thread.join()
        with self.assertRaises(tuffet.Cancelled):
            session.prefill([1, 2])
        session.prefill([1, 2])
        self.assertEqual(session.pos, 2)

    def test_chat(self):
        session = self.model().session()
        said = [{"role": "user", "content": "hello"}]
        text = "".join(session.chat(said, max_tokens=8))
        prompt = session.model.prompt(said)
        again = session.generate(prompt.tokens, max_tokens=8, goes_on=prompt.text_goes_on)
        self.assertEqual(text, "".join(again))
        self.assertEqual(session.tokens[:len(prompt.tokens)], prompt.tokens)


class Grammars(Case):
    def test_each_kind(self):
        model = self.model()
        session = model.session()
        for seed in range(5):
            for grammar, valid in [
                    (model.grammar('root ::= "once" | "upon a time"'), r"once|upon a time"),
                    (model.regex("[a-c]{3}x"), r"[a-c]{3}x"),
                    (model.schema({"enum": ["the", "end", 5]}), r'"the"|"end"|5')]:
                text = "".join(session.generate(PROMPT, grammar=grammar, temperature=2, seed=seed,
                                                max_tokens=40, goes_on=False))
                self.assertRegex(text.strip(), f"^({valid})$")
                self.assertEqual(session.stopped, "end")

    def test_errors(self):
        model = self.model()
        with self.assertRaisesRegex(tuffet.FormatError, "line 1"):
            model.grammar("root ::= (")
        session = model.session()
        session.sample = lambda sampler: None  # as if the grammar allowed no token
        with self.assertRaisesRegex(tuffet.ArgumentError, "no token may come"):
            list(session.generate(PROMPT))
        with self.assertRaisesRegex(tuffet.Unsupported, "/unevaluatedItems"):
            model.schema({"unevaluatedItems": False})


class Lifetimes(Case):
    """Freed memory that is used is a crash: what Python collects first must not matter."""

    def test_closed(self):
        model = tuffet.Model(self.path)
        session, grammar = model.session(), model.regex("a*")
        model.close()
        model.close()
        for use in (lambda: session.pos, lambda: session.decode(1), lambda: model.info,
                    lambda: tuffet.Sampler(grammar=grammar)):
            with self.assertRaisesRegex(ValueError, "closed"):
                use()
        session.close()

    def test_a_closed_grammar_is_an_error(self):
        model = tuffet.Model(self.path)
        other = tuffet.Model(self.path)
        session = other.session()
        session.prefill([1])
        grammar = model.regex("a*")
        sampler = tuffet.Sampler(grammar=grammar)
        session.sample(sampler)
        grammar.close()
        for use in (lambda: session.sample(sampler), lambda: sampler._done,
                    lambda: tuffet.Sampler(grammar=grammar)):
            with self.assertRaisesRegex(ValueError, "this Grammar is closed"):
                use()
        sampler = tuffet.Sampler(grammar=model.regex("a*"))
        model.close()
        with self.assertRaisesRegex(ValueError, "this Grammar is closed"):
            session.sample(sampler)

    def test_collected_in_any_order(self):
        opened = []
        close, _c.lib.tft_model_close = _c.lib.tft_model_close, lambda p: (opened.append("model"),
                                                                           close(p))
        self.addCleanup(setattr, _c.lib, "tft_model_close", close)
        end, _c.lib.tft_session_close = _c.lib.tft_session_close, lambda p: (
            opened.append("session"), end(p))
        self.addCleanup(setattr, _c.lib, "tft_session_close", end)
        for _ in range(20):
            del opened[:]
            model = tuffet.Model(self.path)
            session = model.session()
            model.me, session.me, model.session_too = model, session, session  # only gc frees these
            sampler = tuffet.Sampler(grammar=model.regex("a*"))
            session.prefill([1])
            session.sample(sampler)
            del model, session, sampler
            gc.collect()
            self.assertEqual(opened, ["session", "model"])

    def test_a_generator_keeps_its_model(self):
        text = tuffet.Model(self.path).session().generate(PROMPT, max_tokens=5)
        gc.collect()
        self.assertTrue("".join(text))

    def test_with(self):
        with tuffet.Model(self.path) as model, model.session() as session:
            session.decode(1)
        with self.assertRaises(ValueError):
            model.tokenize("")


class Quantizing(Case):
    TEXT = "hello world, once upon a time and the end. " * 60

    def made(self, name, **options):
        path = str(self.folder / name)
        return path, tuffet.quantize(self.path, path, calib=self.TEXT, dynamic="none",
                                     n_threads=1, **options)

    def test_it_makes_the_file_of_the_program(self):
        text = self.folder / "calib"
        text.write_text(self.TEXT)
        theirs = self.folder / "theirs.gguf"
        said = json.loads(subprocess.run(
            [TUFFET, "quantize", self.path, "-o", theirs, "--calib", text, "--dynamic=none",
             "--json", "-t1"], check=True, capture_output=True).stdout)
        steps, plans = [], []
        path, result = self.made("mine.gguf", progress=lambda step, done: steps.append(step),
                                 plan=plans.append)
        self.assertEqual(len(plans), 1)
        self.assertEqual(plans[0].imported, 0)
        self.assertTrue(0 < plans[0].file <= plans[0].disk and plans[0].operations > 0)
        self.assertEqual(pathlib.Path(path).read_bytes(), theirs.read_bytes())
        self.assertIn("quantizing", steps)
        self.assertEqual((result.prefix, result.window, result.n_tokens),
                         (said["prefix"], said["window"], said["tokens"]))
        self.assertEqual([i.name for i in result.inputs], [i["name"] for i in said["inputs"]])
        self.assertEqual({c.group: c.tokens for c in result.check},
                         {group: c["tokens"] for group, c in said["check"].items()})
        self.assertEqual({**result.json, "seconds": 0}, {**said, "seconds": 0})
        self.assertTrue(result.check)
        for c in result.check:
            self.assertIn(f"check: {c.group}: perplexity", result.report)
        self.assertTrue("".join(self.model(path).session().generate(PROMPT, max_tokens=5)))

    def test_what_stops_it(self):
        before = sorted(self.folder.iterdir())
        with self.assertRaises(tuffet.Cancelled):
            self.made("stopped.gguf", progress=lambda step, done: False)

        def broken(step, done):
            raise ZeroDivisionError
        with self.assertRaises(ZeroDivisionError):
            self.made("stopped.gguf", progress=broken)
        with self.assertRaises(tuffet.Cancelled):
            self.made("stopped.gguf", plan=lambda plan: False)
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_wrong_use(self):
        for options, error in [({"bits": "5"}, tuffet.ArgumentError), ({"bit": "4"}, TypeError),
                               ({"rounding": "up"}, ValueError),
                               ({"intact_tokens": "x"}, tuffet.ArgumentError)]:
            with self.assertRaises(error):
                self.made("wrong.gguf", **options)
        with self.assertRaises(tuffet.FileError):
            tuffet.quantize("nowhere", str(self.folder / "wrong.gguf"), calib=self.TEXT)
        with self.assertRaises(tuffet.Error):
            tuffet.import_folder(str(self.folder / "nowhere"), str(self.folder / "wrong.gguf"))


class Examples(Case):
    def test_the_readme(self):
        """Its Python runs, with a random model in place of model.gguf."""
        text = (pathlib.Path(SOURCE) / "bindings" / "python" / "README.md").read_text("utf-8")
        blocks = re.findall(r"```python\n(.*?)```", text, re.S)
        self.assertGreater(len(blocks), 2)
        for block in blocks:
            code = block.replace('"model.gguf"', repr(self.path))
            self.assertNotEqual(code, block)
            printed = []
            exec(compile(code, "README.md", "exec"),  # noqa: S102
                 {"print": lambda *args, **_: printed.append(args), "__name__": "__main__"})
            self.assertTrue(printed, block)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
