"""Builds and runs tests, and says what passed: suite.py BUILD [--again] [ARGUMENT of meson test]...

Ends with a line for each test that was skipped, in whole or in part, with its reason; a line for
each that failed; and `N passed, N failed, N skipped`. The exit status is 1 if one failed.

--again: a test of the suite "outside", which depends on other programs or on the scheduler, may run
once more, alone. If it passes then, it counts as passed, and `unsteady: NAME` comes before the
outputs of both runs. An end by a signal, a sanitizer's report, a time-out or a difference of bytes
is final.

SUITE_COUNTS: a file to which the numbers of the last line are added, as a line.
"""
import json
import os
import re
import subprocess
import sys

FINAL = re.compile(r"Sanitizer|runtime error:|bytes differ|core dumped")
REASON = re.compile(r"(?m)\b(?:skipped|left out)(?:: | ['\"])(.*[^\s'\"])['\"]?\s*$")
CASES = re.compile(r"(?m)^\[  SKIPPED \] (?!\d+ test)(\S+)|\bskipped=(\d+)")


def run(build, log, arguments):
    """The status of meson, and the results of its tests."""
    path = f"{build}/meson-logs/{log}.json"
    if os.path.exists(path):
        os.remove(path)
    status = subprocess.call(["meson", "test", "-C", build, "--print-errorlogs", "--logbase", log,
                              *arguments])
    if not os.path.exists(path):
        sys.exit(status or 1)
    with open(path, encoding="utf-8") as f:
        return status, [json.loads(line) for line in f]


def output(test):
    return (test.get("stdout") or "") + (test.get("stderr") or "")


def name(test):
    return test["name"].rpartition(" / ")[2]


def skipped(test):
    """What of a test that has not failed was skipped, and why; None: nothing."""
    text = output(test)
    reasons = "; ".join(dict.fromkeys(REASON.findall(text)))
    if test["result"] == "SKIP":
        return reasons or "no reason given"
    cases = sum(int(n or 1) for _, n in dict.fromkeys(CASES.findall(text)))
    return f"{cases} of its cases: {reasons or 'no reason given'}" if cases else None


def may_repeat(test, outside):
    return (name(test) in outside and test["result"] == "FAIL" and test["returncode"] > 0
            and not FINAL.search(output(test)))


def of_suite(build, suite):
    listed = subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "--list", "--suite",
                             suite], check=True, capture_output=True, text=True).stdout
    return {line.rpartition(" / ")[2] for line in listed.splitlines()}


def repeat(build, test, options):
    """Runs a test that has failed once more, alone. Returns the result that counts."""
    _, (again,) = run(build, "again", [*options, name(test)])
    if again["result"] == "OK":
        print(f"unsteady: {name(test)}\nfirst:\n{output(test)}\nthen:\n{output(again)}")
    return again


def main():
    build, *arguments = sys.argv[1:]
    again = "--again" in arguments
    arguments = [a for a in arguments if a != "--again"]
    status, tests = run(build, "testlog", arguments)
    if again and status:
        outside = of_suite(build, "outside")
        # -t N: names and suites choose tests, but a time is for all
        options = arguments[arguments.index("-t"):][:2] if "-t" in arguments else []
        tests = [repeat(build, t, options) if may_repeat(t, outside) else t for t in tests]
    print()
    for t in tests:
        why = skipped(t) if t["result"] in ("OK", "SKIP") else None
        if why:
            print(f"skipped  {name(t)}: {why}")
    bad = [t for t in tests if t["result"] not in ("OK", "SKIP")]
    for t in bad:
        print(f"{'too long' if t['result'] == 'TIMEOUT' else 'failed  '} {name(t)}")
    n_skipped = sum(t["result"] == "SKIP" for t in tests)
    counts = len(tests) - len(bad) - n_skipped, len(bad), n_skipped
    print("{} passed, {} failed, {} skipped".format(*counts))
    if "SUITE_COUNTS" in os.environ:
        with open(os.environ["SUITE_COUNTS"], "a", encoding="utf-8") as f:
            print(*counts, file=f)
    sys.exit(1 if bad or not tests else 0)


if __name__ == "__main__":
    main()
