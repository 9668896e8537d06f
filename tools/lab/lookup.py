#!/usr/bin/env python3
"""How much faster tuffet run generates with guesses, by the kind of text:

    tools/lab/lookup.py MODEL --text TEXT --code SOURCE [--draft MODEL] [OPTIONS]

Each row asks for one kind of text, with three excerpts of TEXT or SOURCE, and both with and without
guesses in turn, the same seed each. Fails if the two texts differ. Prints Markdown: tokens/s, each
the median over the rounds and then over the excerpts; the median of the ratios, with their range;
and the share of the tokens that had been computed as guesses. Answers of fewer than 20 tokens are
left out.
"""
import re
import statistics
import sys

from measure import Tuffet, arguments_of, print_row, print_titles

# what is asked of a model that answers, or None: a text that the model goes on with
KINDS = [
    ("summarizes", "Summarize this text in a few sentences:\n\n{text}"),
    ("corrects", "Correct the spelling of this text, and write all of it again:\n\n{text}"),
    ("answers", "{text}\n\nWho is in this text, and what do they do?"),
    ("writes JSON", "Write a JSON array with an object for each sentence of this text, with the "
                    "keys \"number\", \"sentence\" and \"words\":\n\n{text}"),
    ("writes a story", "Write a long story about what begins like this: {first}"),
    ("goes on with prose", None),
    ("goes on with code", None),
]


def arguments():
    p = arguments_of(__doc__)
    p.add_argument("--text", required=True, help="prose")
    p.add_argument("--code", required=True, help="source code")
    p.add_argument("--chars", type=int, default=1200, help="characters of an excerpt (1200)")
    p.add_argument("--chat", default="<|user|>\n{}</s>\n<|assistant|>\n",
                   help="how the model is asked (as tinyllama); empty: leave out these rows")
    p.add_argument("--tokenizer", help="tokenizer.bin of a llama2.c model")
    p.add_argument("--lookup", default="14", help="guesses of a pass, at most (14)")
    p.add_argument("--draft", help="a draft model, which makes guesses too")
    p.add_argument("-n", default="100", help="tokens of an answer (100)")
    p.add_argument("-r", type=int, default=3, help="rounds (3)")
    p.add_argument("-t", default="2", help="threads (2)")
    p.add_argument("--temp", action="append", default=[], help="temperatures (0 and 0.8)")
    return p.parse_args()


def excerpts(path, chars):
    """Three, which begin at a line."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    for i in range(1, 4):
        start = text.index("\n", len(text) * i // 5) + 1
        yield text[start:start + chars].strip("\n")


def prompts(a, kind, question):
    for text in excerpts(a.code if kind.endswith("code") else a.text, a.chars):
        if question is None:
            yield text
        else:
            first = re.split(r"(?<=[.!?])\s", " ".join(text.split()))[1]
            yield a.chat.format(question.format(text=text, first=first))


def generate(a, tuffet, prompt, temp, *guesses):
    tokenizer = ["--tokenizer", a.tokenizer] if a.tokenizer else []
    return tuffet("run", a.model, "--special", "-n", a.n, "-t", a.t, "-s1", "--temp", temp,
                  "-p", prompt, *tokenizer, *guesses)


def measure(a, tuffet, prompt, temp):
    """Tokens/s without and with guesses, the ratio, and the share of guesses; None: no answer."""
    rates, ratios = ([], []), []
    guesses = ["--lookup", a.lookup] + (["--draft", a.draft] if a.draft else [])
    for _ in range(a.r):
        plain = generate(a, tuffet, prompt, temp, "--lookup", "0")
        guessing = generate(a, tuffet, prompt, temp, *guesses)
        if plain["text"] != guessing["text"]:
            sys.exit(f"the texts differ: {plain['text']!r} and {guessing['text']!r}")
        if plain["tokens"] < 20:
            return None
        rates[0].append(plain["tok_s"])
        rates[1].append(guessing["tok_s"])
        ratios.append(guessing["tok_s"] / plain["tok_s"])
    return (*map(statistics.median, rates), statistics.median(ratios),
            guessing["guessed_tokens"] / guessing["tokens"])


def main():
    a = arguments()
    tuffet = Tuffet(a.tuffet)
    print_titles(["the model"], ["temperature", "tokens/s", "with guesses", "ratio", "guessed"])
    for kind, question in KINDS:
        if question and not a.chat:
            continue
        for temp in a.temp or ["0", "0.8"]:
            got = [r for p in prompts(a, kind, question) if (r := measure(a, tuffet, p, temp))]
            if not got:
                continue
            plain, guessing, ratio, share = (statistics.median(c) for c in zip(*got))
            low, high = min(r[2] for r in got), max(r[2] for r in got)
            print_row(kind, temp, f"{plain:.1f}", f"{guessing:.1f}",
                      f"{ratio:.2f} ({low:.2f} to {high:.2f})", f"{share:.0%}")


if __name__ == "__main__":
    main()
