"""packaging/oss-fuzz says what the fuzz targets are: oss_fuzz.py SOURCE

Each .options file belongs to a target and names a dictionary that exists; each dictionary is used,
and each of its lines has the form that libFuzzer reads. Each target has seeds.
"""
import configparser
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
folder = source / "packaging" / "oss-fuzz"
targets = {p.stem for p in (source / "tests" / "fuzz").glob("fuzz_*.c")}
assert targets
used = set()
for path in sorted(folder.glob("*.options")):
    assert path.stem in targets, f"{path.name} belongs to no target"
    options = configparser.ConfigParser()
    options.read(path)
    assert options.sections() == ["libfuzzer"], path.name
    assert set(options["libfuzzer"]) <= {"dict", "max_len"}, path.name
    largest = max(p.stat().st_size for p in
                  (source / "tests/fuzz/corpus" / path.stem.removeprefix("fuzz_")).iterdir())
    assert largest <= int(options["libfuzzer"]["max_len"]), f"{path.name}: a seed has {largest}"
    used.add(options["libfuzzer"].get("dict"))
assert used == {p.name for p in folder.glob("*.dict")}, used

# a name and "=" may come before a string; \" \\ and \xNN are the escapes
LINE = re.compile(r'(\w+=)?"(?:[^"\\\x00-\x1f\x7f-\xff]|\\["\\]|\\x[0-9a-fA-F]{2})+"')
for path in folder.glob("*.dict"):
    lines = [n for n in path.read_text(encoding="latin-1").splitlines() if n and n[0] != "#"]
    for line in lines:
        assert LINE.fullmatch(line), f"{path.name}: {line}"
    assert len(lines) == len(set(lines)) > 10, path.name
for target in targets:
    seeds = list((source / "tests/fuzz/corpus" / target.removeprefix("fuzz_")).iterdir())
    assert seeds, f"{target} has no seeds"
print(len(targets), "targets,", len(used), "dictionaries")
