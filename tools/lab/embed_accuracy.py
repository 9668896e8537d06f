#!/usr/bin/env python3
"""The loss of files of one encoder: 1 - cosine of their vectors from the first file's, and which
queries find their document.

    tools/lab/embed_accuracy.py FLOATS.gguf OTHER.gguf... --retrieval retrieval.json

retrieval.json is that of all-MiniLM-L6-v2: {"documents": [TEXT], "queries": [{"query": TEXT,
"right": N}]}. A query finds its document within K if no more than K documents are as near.
"""
import argparse
import json
import pathlib
import subprocess

from measure import print_row, print_titles


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def vectors_of(tuffet, model, texts):
    lines = "".join(json.dumps(t) + "\n" for t in texts).encode()
    done = subprocess.run([tuffet, "embed", model, "--json-lines"], input=lines,
                          stdout=subprocess.PIPE, check=True)
    return [json.loads(line)["embedding"] for line in done.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--tuffet", default="build/test/tools/tuffet")
    parser.add_argument("--retrieval", required=True)
    args = parser.parse_args()
    said = json.loads(pathlib.Path(args.retrieval).read_text("utf-8"))
    documents, queries = said["documents"], said["queries"]
    exact = None
    print_titles(["file"], ["MB", "1 - cosine, mean", "most", "recall@1", "recall@5"])
    for model in args.models:
        vectors = vectors_of(args.tuffet, model, documents + [q["query"] for q in queries])
        exact = exact or vectors
        lost = [1 - dot(a, b) for a, b in zip(exact, vectors)]
        texts, asked = vectors[:len(documents)], vectors[len(documents):]
        ranks = [sum(dot(v, t) >= dot(v, texts[q["right"]]) for t in texts)
                 for v, q in zip(asked, queries)]
        found = [f"{sum(r <= k for r in ranks)}/{len(ranks)}" for k in (1, 5)]
        size = pathlib.Path(model).stat().st_size
        print_row(pathlib.Path(model).name, f"{size / 1e6:.1f}",
                  f"{max(0, sum(lost) / len(lost)):.1e}", f"{max(0, *lost):.1e}", *found)


if __name__ == "__main__":
    main()
