#!/usr/bin/env python3
"""A tool: computes. Standard input: {"expression": "2 * (3 + 4)"}. What the model writes is never
run: it is read here, number by number."""
import json
import re
import sys


def read(text):
    """The value of: sum = product (+|- product)*; product = factor (*|/ factor)*; factor = number,
    (sum), -factor."""
    parts = re.findall(r"\d+\.?\d*|\.\d+|[-+*/()]|[^\s]", text)

    def take(*which):
        return parts.pop(0) if parts and parts[0] in which else None

    def factor():
        if take("-"):
            return -factor()
        if take("("):
            value = total()
            if not take(")"):
                raise ValueError("a parenthesis is not closed")
            return value
        if not parts or not re.fullmatch(r"\d+\.?\d*|\.\d+", parts[0]):
            raise ValueError(f"a number is expected before {''.join(parts) or 'the end'}")
        text = parts.pop(0)
        return float(text) if "." in text else int(text)

    def product():
        value = factor()
        while op := take("*", "/"):
            value = value * factor() if op == "*" else value / factor()
        return value

    def total():
        value = product()
        while op := take("+", "-"):
            value = value + product() if op == "+" else value - product()
        return value

    value = total()
    if parts:
        raise ValueError(f"not expected: {''.join(parts)}")
    return value


try:
    print(read(json.load(sys.stdin)["expression"]))
except (ArithmeticError, RecursionError, ValueError) as e:
    print(f"error: {e}")
    sys.exit(1)
