"""The needle in a haystack: a sentence with a number stands somewhere in a long text, and the model
is to complete it at the end of the text (SKVQ, section 4.2 and figure 5)."""
import json
import os

LENGTHS, DEPTHS = (512, 1024, 1536, 2000), (0.1, 0.3, 0.5, 0.7, 0.9)


def _number(n):
    return 10000 + n * 7919 % 90000


def _question(text, length, depth, letters_a_token, number):
    """A text that contains a sentence, then that sentence again: the last word of it is what the
    model must predict. None if the text is too short."""
    letters = int((length - 60) * letters_a_token)
    if len(text) < letters:
        return None
    secret = f"The secret number of the lighthouse keeper is {number}"
    at = text.rfind(". ", 0, int(letters * depth) + 2) + 2
    return {"text": f"{text[:at]}{secret}. {text[at:letters]}\n\n{secret}"}


class Needle:
    """The questions that can be made of some texts, in one file for each length and depth, in the
    format of LAMBADA."""

    def __init__(self, tuffet, model, names, folder):
        self.tuffet, self.model, self.folder = tuffet, model, folder
        self.count = {}  # (length, depth): questions
        n = 0
        for name in names:
            with open(name, encoding="utf-8", errors="replace") as f:
                text = f.read()
            ratio = len(text) / len(tuffet("tokenize", model, "-f", name)["tokens"])
            for length in LENGTHS:
                for depth in DEPTHS:
                    n += 1
                    question = _question(text, length, depth, ratio, _number(n))
                    if question:
                        self._add((length, depth), question)

    def _path(self, cell):
        return os.path.join(self.folder, f"needle-{cell[0]}-{cell[1]}.jsonl")

    def _add(self, cell, question):
        self.count[cell] = self.count.get(cell, 0) + 1
        with open(self._path(cell), "a", encoding="utf-8") as f:
            f.write(json.dumps(question) + "\n")

    def total(self):
        return sum(self.count.values())

    def found(self, kv):
        """(length, depth): the share that the model completes with this cache."""
        return {cell: self.tuffet("eval", self.model, "--task", "lambada", "-f", self._path(cell),
                                  "--kv", kv)["acc"] for cell in self.count}

    def mean(self, found):
        return sum(found[c] * n for c, n in self.count.items()) / self.total()


CELL_W, CELL_H, GAP, LEFT, TOP = 44, 22, 28, 56, 46


def _color(share):
    """From red, nothing is found, over yellow to green."""
    red, green = (220, int(60 + 300 * share)) if share < 0.5 else (int(220 - 300 * (share - 0.5)),
                                                                   190)
    return f"rgb({red},{min(green, 200)},70)"


def _panel(title, found, x):
    yield f'<text x="{x + len(LENGTHS) * CELL_W / 2}" y="20" class="t">{title}</text>'
    for i, length in enumerate(LENGTHS):
        yield (f'<text x="{x + (i + 0.5) * CELL_W}" y="{TOP - 8}">{length}</text>')
        for j, depth in enumerate(DEPTHS):
            share = found.get((length, depth))
            if share is None:
                continue
            left, top = x + i * CELL_W, TOP + j * CELL_H
            yield (f'<rect x="{left}" y="{top}" width="{CELL_W - 1}" height="{CELL_H - 1}" '
                   f'fill="{_color(share)}"/>'
                   f'<text x="{left + CELL_W / 2}" y="{top + 15}">{100 * share:.0f}</text>')


def heat_map(results):
    """A drawing with a panel for each cache, as SVG. results: [(cache, of Needle.found())]"""
    width = LEFT + len(results) * (len(LENGTHS) * CELL_W + GAP)
    height = TOP + len(DEPTHS) * CELL_H + 24
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
             f'width="{width}" height="{height}" font-family="sans-serif" font-size="11" '
             'text-anchor="middle"><style>.t{font-size:13px;font-weight:bold}</style>',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for j, depth in enumerate(DEPTHS):
        y = TOP + j * CELL_H + 15
        lines.append(f'<text x="{LEFT - 26}" y="{y}">{100 * depth:.0f} %</text>')
    for i, (title, found) in enumerate(results):
        lines += _panel(title, found, LEFT + i * (len(LENGTHS) * CELL_W + GAP))
    lines.append(f'<text x="{width / 2}" y="{height - 6}">numbers found, in percent; across: '
                 'tokens of the text; down: how far in the sentence stands</text></svg>')
    return "\n".join(lines) + "\n"
