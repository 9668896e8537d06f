"""What the scripts that write tables of Unicode as C share."""
import sys
import textwrap
import unicodedata


def rows(items):
    """The items of an initializer, in lines of at most 100 columns."""
    return textwrap.wrap(", ".join(items) + ",", 100, initial_indent="    ",
                         subsequent_indent="    ")


def write_or_check(lines):
    """Prints the file or, with `--check FILE`, compares FILE with it. The first line names the
    version of Unicode. Returns the exit status: 1 if they differ, 77 if the versions do."""
    text = "\n".join(lines) + "\n"
    if sys.argv[1:2] != ["--check"]:
        sys.stdout.write(text)
        return 0
    with open(sys.argv[2], encoding="ascii") as file:
        found = file.read()
    if found.split("\n")[0] != text.split("\n")[0]:
        print("skipped: this Python has Unicode " + unicodedata.unidata_version)
        return 77
    return 0 if found == text else 1
