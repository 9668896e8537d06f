"""Qwen3-Reranker and Qwen3-Embedding by the rules of their cards, restated here: folders of random
weights, whose scores and vectors are compared with those of plain sessions of the same weights."""
import json
import math
import os
import subprocess

from program import PATIENCE, TUFFET, Case, main
from support import hf_folder
from test_serve import Server

# The prompt: markup with special tokens, text without, markup.
BEFORE = """<|im_start|>system
Judge whether the Document meets the requirements based on the Query and the Instruct provided. \
Note that the answer can only be "yes" or "no".<|im_end|>
<|im_start|>"""
TEXT = """user
<Instruct>: Given a web search query, retrieve relevant passages that answer the query
<Query>: %s
<Document>: %s"""
AFTER = """<|im_end|>
<|im_start|>assistant
<think>

</think>

"""
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]
END = 261  # of the words before SPECIAL
QUERY = "How do I bleed a radiator? yes"
DOCUMENTS = ["Open the valve until water comes.", "Bread needs yeast, no salt",
             "<|im_end|> {query}", "x", "yes"]
PLAIN = ["--kv=f32", "--template=chatml", "--pooling=last"]
TASK = ("Instruct: Given a web search query, retrieve relevant passages that answer the query\n"
        "Query:")
MODULES = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
           {"idx": 1, "name": "1", "path": "1_Pooling",
            "type": "sentence_transformers.models.Pooling"},
           {"idx": 2, "name": "2", "path": "2_Normalize",
            "type": "sentence_transformers.models.Normalize"}]
NORMS = {"layers.0.self_attn.q_norm": (8,), "layers.0.self_attn.k_norm": (8,)}


class Qwen3(Case):
    def folder_of(self, name, end=False, tied=True):
        """end: EOS goes after a text. A tokenizer of bytes, with the words yes and no."""
        made = hf_folder.tokenizer()
        vocab = made["model"]["vocab"]
        for word in "ye", "yes", "no":
            vocab[word] = len(vocab)
        made["model"]["merges"] += [["y", "e"], ["ye", "s"], ["n", "o"]]
        one = made["added_tokens"][0]
        first = len(vocab)
        made["added_tokens"] = [{**one, "id": first + i, "content": name, "special": "think" not in
                                 name} for i, name in enumerate(SPECIAL)]
        if end:
            made["post_processor"] = {
                "type": "TemplateProcessing", "pair": [],
                "single": [{"Sequence": {"id": "A", "type_id": 0}},
                           {"SpecialToken": {"id": SPECIAL[0], "type_id": 0}}],
                "special_tokens": {SPECIAL[0]: {"id": SPECIAL[0], "ids": [first],
                                                "tokens": [SPECIAL[0]]}}}
        config = {**hf_folder.CONFIG, "architectures": ["Qwen3ForCausalLM"], "head_dim": 8,
                  "max_position_embeddings": 1024, "vocab_size": 272, "tie_word_embeddings": tied}
        more = {**NORMS, **({} if tied else {"lm_head": (272, 32)})}
        hf_folder.write(self.path(name), {
            "config.json": config, "tokenizer.json": made,
            "tokenizer_config.json": {"eos_token": SPECIAL[0 if end else 2],
                                      "pad_token": SPECIAL[0]}},
            *hf_folder.safetensors(hf_folder.tensors(272, more, {"lm_head.weight":
                                                                 "lm_head.weight"})))
        return self.path(name)

    def imported(self, name, **how):
        self.tuffet("import", self.folder_of(name, **how), "-o", self.path(name + ".gguf"))
        return self.path(name + ".gguf")

    def scores(self, model):
        out = self.tuffet("rerank", model, QUERY, "--json",
                          stdin="".join(d + "\n" for d in DOCUMENTS).encode())
        rows = [json.loads(line) for line in out.splitlines()]
        return [r["score"] for r in sorted(rows, key=lambda r: r["index"])]

    def ids(self, s, text, special):
        return s.answer("/tokenize", content=text, add_special=False,
                        parse_special=special)["tokens"]

    def rule(self, s, document):
        """P(yes) of the log-probabilities of both words after the prompt."""
        prompt = (self.ids(s, BEFORE, True) + self.ids(s, TEXT % (QUERY, document), False) +
                  self.ids(s, AFTER, True))
        yes, no = (self.logprob(s, prompt, word) for word in ("yes", "no"))
        return math.exp(yes) / (math.exp(yes) + math.exp(no))

    def logprob(self, s, prompt, word):
        (word,) = self.ids(s, word, False)
        choice = s.answer("/v1/completions", prompt=[*prompt, word], max_tokens=0, echo=True,
                          logprobs=0)["choices"][0]
        return choice["logprobs"]["token_logprobs"][-1]

    def test_the_probability_of_yes(self):
        for tied in True, False:
            got = self.scores(self.imported(f"Qwen3-Reranker-{tied}", tied=tied))
            with Server(self.imported(f"plain-{tied}", tied=tied), *PLAIN) as s:
                want = [self.rule(s, d) for d in DOCUMENTS]
            self.assertGreater(max(want) - min(want), 0.01)
            for a, b in zip(got, want):
                self.assertAlmostEqual(a, b, 5)

    def test_a_reranker_keeps_the_rule_in_a_server_and_in_other_types(self):
        model = self.imported("qwen3-reranker")
        want = self.scores(model)
        with Server(model) as s:
            said = s.answer("/v1/rerank", query=QUERY, documents=DOCUMENTS)["results"]
        for r in said:
            self.assertAlmostEqual(r["relevance_score"], want[r["index"]], 6)
        self.tuffet("import", self.path("qwen3-reranker"), "-o", self.path("f16.gguf"),
                    "--type=f16")
        for a, b in zip(self.scores(self.path("f16.gguf")), want):
            self.assertAlmostEqual(a, b, 2)
        config = json.loads(self.read(self.path("qwen3-reranker/tokenizer.json")))
        del config["model"]["vocab"]["yes"], config["model"]["merges"][-2]
        self.write("qwen3-reranker/tokenizer.json", json.dumps(config).encode())
        self.assertIn('a reranker without a token "yes"', self.fails(
            "import", self.path("qwen3-reranker"), "-o", self.path("x.gguf")))

    def test_the_vector_of_the_end(self):
        """The last hidden vector, of EOS, which comes once, also after a text that is cut."""
        folder = self.folder_of("Qwen3-Embedding", end=True)
        os.mkdir(folder + "/1_Pooling")
        for name, content in [("modules.json", MODULES),
                              ("1_Pooling/config.json", {"pooling_mode_lasttoken": True}),
                              ("config_sentence_transformers.json",
                               {"prompts": {"query": TASK, "document": ""}})]:
            self.write("Qwen3-Embedding/" + name, json.dumps(content).encode())
        self.tuffet("import", folder, "-o", self.path("embed.gguf"))

        def embed(text, *args):
            done = subprocess.run([*TUFFET, "embed", self.path("embed.gguf"), "--json-lines",
                                   *args], input=json.dumps(text).encode(), capture_output=True,
                                  timeout=PATIENCE)
            return json.loads(done.stdout)["embedding"]
        with Server(self.imported("plain"), *PLAIN) as s:
            def rule(tokens):
                return s.answer("/v1/embeddings", input=[*tokens, END])["data"][0]["embedding"]
            for text in QUERY, "x":
                self.close(embed(text), rule(self.ids(s, text, False)))
                self.close(embed(text, "--prompt-name=document"), embed(text))
                self.close(embed(text, "--prompt-name=query"),
                           rule(self.ids(s, TASK + text, False)))
            ids = self.ids(s, QUERY, False)
            self.close(embed(QUERY, "--truncate", "--ctx=9"), rule(ids[:8]))
            with Server(self.path("embed.gguf"), *PLAIN[:2]) as t:
                for how, text in [({}, QUERY), ({"input_type": "query"}, TASK + QUERY),
                                  ({"input_type": "document"}, QUERY)]:
                    (got,) = t.answer("/v1/embeddings", input=QUERY, **how)["data"]
                    self.close(got["embedding"], rule(self.ids(s, text, False)))

    def close(self, got, want):
        self.assertEqual(len(got), 32)
        self.assertLess(max(abs(a - b) for a, b in zip(got, want)), 1e-5)


if __name__ == "__main__":
    main()
