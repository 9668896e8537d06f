"""packaging/debian says what the sources say: debian.py SOURCE VERSION

A node of a library's map, TUFFET_1.0, is a line of the package's symbols file, by which programs
depend on the package of version 1.0.0. The changelog's version is that of meson.build. What each
package installs is checked by tools/scripts/deb.sh, which builds them.
"""
import pathlib
import re
import sys

source, version = pathlib.Path(sys.argv[1]), sys.argv[2]
debian = source / "packaging/debian"


def check(map_file, symbols_file):
    nodes = re.findall(r"^(\w+_([\d.]+)) \{", (source / map_file).read_text(), re.M)
    lines = re.findall(r"^ \(symver\)(\S+) (\S+)$", (debian / symbols_file).read_text(), re.M)
    want = [(node, number + ".0") for node, number in nodes]
    assert want and lines == want, f"{symbols_file} has {lines}, {map_file} {want}"


soname = version.split(".")[0]
check("src/tuffet.map", f"libtuffet{soname}.symbols")
check("src/chat/tuffet_chat.map", f"libtuffet-chat{soname}.symbols")
check("tools/quantize/tuffet_quantize.map", f"libtuffet-quantize{soname}.symbols")
newest = re.match(r"tuffet \(([\d.]+)-", (debian / "changelog").read_text())
assert newest and newest[1] == version, f"the changelog begins with {newest and newest[1]}"
