"""tuffet run --json-schema: the library jsonschema checks the output"""
import json
import os
import random
import subprocess
import unittest

from program import TUFFET, Case, main

try:
    import jsonschema
except ImportError:
    jsonschema = None

WORDS = ["a", "b", "the", "hello", "x\"y", "é", "n\n"]


class Schemas:
    """Random schemas of what is supported. Those below `depth` are small."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def number(self):
        r, s = self.random, {"type": self.random.choice(["integer", "number"])}
        low = r.choice([r.randint(-2000, 2000), r.randint(-99, 99) / 4, 0])
        if r.random() < 0.7:
            s[r.choice(["minimum", "exclusiveMinimum"])] = low
        if r.random() < 0.7:
            s[r.choice(["maximum", "exclusiveMaximum"])] = low + r.choice([2, 1.5, 300])
        return s

    def string(self):
        r = self.random
        return r.choice([
            {"type": "string", "maxLength": r.randint(0, 9)},
            {"type": "string", "minLength": 2, "maxLength": r.randint(2, 5)},
            {"type": "string", "pattern": r.choice(["^[a-f]{1,4}$", "^(ab|c)+d?$", "^[^a-z]{2}$",
                                                   "^x.{0,3}$", "^a{2}|b{3}$"]),
             "$comment": "1"},
            {"type": "string", "format": r.choice(["date", "time", "date-time", "uuid", "ipv4",
                                                  "email"])}])

    def array(self, depth):
        r, s = self.random, {"type": "array"}
        if r.random() < 0.3:
            s["prefixItems"] = [self.schema(depth) for _ in range(r.randint(1, 3))]
        if r.random() < 0.8:
            s["items"] = self.schema(depth)
        s["maxItems"] = r.randint(0, 4)
        if r.random() < 0.4:
            s["minItems"] = r.randint(0, s["maxItems"])
        return s

    def object(self, depth):
        r = self.random
        names = r.sample(WORDS, r.randint(0, 4))
        s = {"type": "object", "properties": {name: self.schema(depth) for name in names}}
        s["required"] = [name for name in names if r.random() < 0.5]
        if r.random() < 0.3:
            s["additionalProperties"] = r.choice([False, {"type": "integer"}])
        if r.random() < 0.2:
            s["maxProperties"] = len(s["required"]) + 1
        return s

    def schema(self, depth=0):
        r = self.random
        kind = r.choice("nsaoenscrl1b" if depth < 3 else "nse")
        if kind == "n":
            return self.number()
        if kind == "s":
            return self.string()
        if kind == "a":
            return self.array(depth + 1)
        if kind in "or":
            return self.object(depth + 1)
        if kind == "c":
            return {"anyOf": [self.schema(depth + 1) for _ in range(r.randint(1, 3))]}
        if kind == "1":
            return {"oneOf": [self.schema(depth + 1) for _ in range(r.randint(1, 3))]}
        if kind == "b":  # a choice beside what all options share
            return {**self.object(depth + 1), "oneOf": [
                {"properties": {"k": {"const": value}, **self.object(depth + 1)["properties"]},
                 "required": ["k"]} for value in r.sample(WORDS, 2)]}
        if kind == "l":
            return {"allOf": [self.object(depth + 1), {"properties": {"b": self.number()}}]}
        return {"enum": r.sample([*WORDS, None, True, 1.5, -3, [1], {"k": "v"}], 3)}


@unittest.skipUnless(jsonschema, "python3-jsonschema is not installed")
class Schema(Case):
    def test_what_is_written_is_valid(self):
        toys = [self.toy(uniform=1, ctx=2000), self.toy(vocab="gpt2", ctx=2000)]
        known, whole = ["matches no text", "minLength or maxLength", "a second pattern",
                         "names that are not", "may both be valid", "enum or const"], 0
        draft = jsonschema.Draft202012Validator
        for seed in range(int(os.environ.get("TUFFET_SCHEMAS", "250"))):
            schema = Schemas(seed).schema()
            path = self.write("schema.json", json.dumps(schema).encode())
            done = subprocess.run([*TUFFET, "run", toys[seed % 2], "-phello", "-n900", "-t1",
                                   f"-s{seed}", f"--temp={1.5 + seed % 3}", "--min-p=0",
                                   "--top-p=1", "--json", "--json-schema", path,
                                   *["--any-order"][:seed % 2]],
                                  capture_output=True, stdin=subprocess.DEVNULL)
            if done.returncode:
                self.assertTrue(any(k in done.stderr.decode() for k in known),
                                (schema, done.stderr))
                continue
            said = json.loads(done.stdout)
            if said["stop"] == "length":
                continue
            whole += 1
            value = json.loads(said["text"])
            errors = list(draft(schema, format_checker=draft.FORMAT_CHECKER).iter_errors(value))
            self.assertEqual(errors, [], (schema, said["text"]))
        self.assertGreater(whole, 100)


main()
