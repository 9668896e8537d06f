"""The version, which meson.build has, in the files that need a copy: version.py ROOT [NEW]

Names each copy that differs, and exits with 1 if there is one. With NEW, X.Y.Z, sets meson.build
and all copies, and renames the Debian packages of the libraries, whose names end with the soname.
"""
import pathlib
import re
import sys

PACKAGE = r"\blibtuffet(?:-chat|-quantize)?(\d+)\b"
# file, the copy as group 1, which number of X.Y.Z it is (all: None)
COPIES = [
    ("NEWS", r"\A(\S+) ", None),
    ("src/tuffet.h", r"#define TFT_VERSION_MAJOR (\d+)", 0),
    ("src/tuffet.h", r"#define TFT_VERSION_MINOR (\d+)", 1),
    ("src/tuffet.h", r"#define TFT_VERSION_PATCH (\d+)", 2),
    ("bindings/kotlin/android/CMakeLists.txt", r"find_package\(tuffet (\d+) ", 0),
    ("bindings/node/package.json", r'"version": "(.*)"', None),
    ("bindings/python/pyproject.toml", r'\nversion = "(.*)"', None),
    ("bindings/python/tuffet/_c.py", r"\nSONAME = (\d+)\n", 0),
    ("bindings/rust/Cargo.toml", r'\nversion = "(.*)"', None),
    ("bindings/rust/Cargo.lock", r'name = "tuffet"\nversion = "(.*)"', None),
    ("docs/embedding.md", r"find_package\(tuffet (\d+) ", 0),
    ("docs/install.md", PACKAGE, 0),
    ("packaging/debian/changelog", r"\Atuffet \((.*)-", None),
    ("packaging/debian/control", PACKAGE, 0),
    ("packaging/debian/*.symbols", PACKAGE, 0),
    ("packaging/debian/*.symbols", r"\Alibtuffet\S*\.so\.(\d+)", 0),
    ("packaging/windows/tuffet.manifest", r'name="tuffet" version="(.*)\.0"', None),
    ("tools/scripts/deb.sh", PACKAGE, 0),
]
MESON = r"\n  version: '(.*)',"


def replaced(text, pattern, value, name):
    """`text` with `value` as the group of each match."""
    found = list(re.finditer(pattern, text))
    if not found:
        sys.exit(f"{name}: has no {pattern}")
    for match in reversed(found):
        text = text[:match.start(1)] + value + text[match.end(1):]
    return text


def main():
    root, *new = sys.argv[1:]
    root = pathlib.Path(root)
    meson = root / "meson.build"
    version = new[0] if new else re.search(MESON, meson.read_text())[1]
    numbers = version.split(".")
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        sys.exit(f"{version} is not X.Y.Z")
    if new:
        meson.write_text(replaced(meson.read_text(), MESON, version, meson))
        for path in list((root / "packaging/debian").glob("libtuffet*[0-9].*")):
            path.rename(path.with_name(re.sub(r"\d+(?=\.)", numbers[0], path.name)))
    differ = 0
    for name, pattern, number in COPIES:
        for path in sorted(root.glob(name)):
            text = path.read_text(encoding="utf-8")
            want = replaced(text, pattern, version if number is None else numbers[number], path)
            if new:
                path.write_text(want, encoding="utf-8")
            elif want != text:
                differ += 1
                print(f"{path}: {pattern} is not that of {version}")
    sys.exit(1 if differ else 0)


main()
