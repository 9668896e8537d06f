"""Compares grammars of schemas with the JSON-Schema-Test-Suite, which is not part of tuffet:
schema_suite.py MATCH MODEL FOLDER, where FOLDER is tests/draft2020-12 of a copy of it, MATCH
build/test/tests/chat/match and MODEL a model with a token for each byte, such as those of the tests
(build/test/tests/toy write toy.gguf). Every instance that a grammar accepts must be valid. How many
valid ones it accepts is printed: some have another spelling, or leave what docs/chat.md names."""
import json
import pathlib
import subprocess
import sys
import tempfile


def main():
    match, model, folder = sys.argv[1:]
    refused = supported = valid = accepted = wrong = 0
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        for case in json.loads(path.read_text(encoding="utf-8")):
            with tempfile.NamedTemporaryFile("w", encoding="utf-8") as f:
                json.dump(case["schema"], f)
                f.flush()
                texts = [json.dumps(t["data"], ensure_ascii=False) for t in case["tests"]]
                done = subprocess.run([match, model, f.name], input="\n".join(texts) + "\n",
                                      capture_output=True, text=True, encoding="utf-8")
            if done.returncode == 3:
                refused += 1
                continue
            supported += 1
            for test, does in zip(case["tests"], done.stdout.split(), strict=True):
                valid += test["valid"]
                accepted += test["valid"] and does == "1"
                if does == "1" and not test["valid"]:
                    wrong += 1
                    print(f"{path.name}: {case['description']}: {test['description']}: accepted")
    print(f"{supported} schemas, {refused} refused; {accepted} of {valid} valid instances "
          f"accepted, {wrong} invalid ones")
    sys.exit(wrong > 0 or not supported)


main()
