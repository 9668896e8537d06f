#!/usr/bin/env python3
"""Writes what a program was linked with, as SPDX 2.3: sbom.py BUILD PROGRAM OUTPUT [FILE]

BUILD is a folder of meson, PROGRAM a program in it by its path there. FILE is the stripped copy
that users get, if it is another file: the document has its name and checksums. Shared libraries are
those that the program asks the system's linker for; a static program has those that its link was
given.
Versions are from pkg-config, as the build used it. A library without a row in `known` is an error.
SOURCE_DATE_EPOCH is the time of making, else it is that of the program.
"""
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

# Name in the link: package, licence of the part that is linked, pkg-config's name or None.
known = {
    "c": ("libc", None, None),  # glibc's or musl's, see below
    "m": ("libc", None, None),
    "dl": ("libc", None, None),
    "pthread": ("libc", None, None),
    "jansson": ("jansson", "MIT", "jansson"),
    "event_core": ("libevent", "BSD-3-Clause", "libevent_core"),
    "event_extra": ("libevent", "BSD-3-Clause", "libevent_extra"),
    "edit": ("libedit", "BSD-3-Clause", "libedit"),
    "curl": ("curl", "curl", "libcurl"),
    "crypto": ("openssl", "Apache-2.0", "libcrypto"),
    "gomp": ("gcc", "GPL-3.0-or-later WITH GCC-exception-3.1", None),
    "atomic": ("gcc", "GPL-3.0-or-later WITH GCC-exception-3.1", None),
    "gcc_s": ("gcc", "GPL-3.0-or-later WITH GCC-exception-3.1", None),
}
C_LIBRARY = {"glibc": "LGPL-2.1-or-later", "musl": "MIT"}
OWN = "Apache-2.0 AND Unicode-DFS-2016"  # .reuse/dep5


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def asked_for(program):
    """The shared libraries that the program needs; the system's linker itself is none of them."""
    names = re.findall(r"\(NEEDED\).*\[lib(.+?)\.so", output("readelf", "--dynamic", program))
    return [re.sub(r"-\d.*", "", name) for name in names]


def link_line(build, target):
    """The words of ninja's command that links the target."""
    commands = output("ninja", "-C", build, "-t", "commands", "-s", target).splitlines()
    return shlex.split(commands[-1])


def given(words):
    """The libraries of a static link: not those that the build itself made, but the compiler's."""
    archives = [re.fullmatch(r"/.*/lib(.+)\.a", word) for word in words]
    return [m[1] for m in archives if m] + [w[2:] for w in words if w.startswith("-l")] + [
        "c", "gcc_s"]


def compiler(words):
    """The compiler of a link, with the options that say which C library it takes."""
    specs = [w for at, w in enumerate(words) if w == "-specs" or words[at - 1] == "-specs"]
    return [words[0], *specs]


def c_library(cc):
    """(name, version) of the C library. musl tells neither to programs: its package does."""
    macros = output(*cc, "-dM", "-E", "-include", "features.h", "-x", "c", "/dev/null")
    glibc = dict(re.findall(r"#define (__GLIBC(?:_MINOR)?__) (\d+)", macros))
    if glibc:
        return "glibc", f"{glibc['__GLIBC__']}.{glibc['__GLIBC_MINOR__']}"
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}\n", "musl-dev"],
                          capture_output=True, text=True)
    return "musl", done.stdout.split("\n")[0].partition("-")[0] or None


def pkg_config_version(build, name):
    """The version that the build found, which may be of another machine than this one."""
    for one in json.loads(output("meson", "introspect", "--dependencies", build)):
        if one["name"] == name:
            return one["version"]
    return None


def packages(build, names, cc):
    """name: (version, licence), in the order of the names."""
    found = {}
    for name in sorted(set(names)):
        if name not in known:
            sys.exit(f"sbom.py: no licence is known for lib{name}: add it to `known`")
        package, licence, module = known[name]
        if package == "libc":
            package, version = c_library(cc)
            licence = C_LIBRARY[package]
        elif package == "gcc":
            version = output(cc[0], "-dumpfullversion").strip()
        else:
            version = pkg_config_version(build, module)
        if not version:
            sys.exit(f"sbom.py: the version of {package} is unknown")
        found[package] = version, licence
    return found


def package(name, version, licence):
    return {"SPDXID": f"SPDXRef-Package-{name}", "name": name, "versionInfo": version,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": licence, "licenseDeclared": licence,
            "copyrightText": "NOASSERTION"}


def document(build, target, file):
    program = pathlib.Path(file or pathlib.Path(build, target))
    data = program.read_bytes()
    words = link_line(build, target)
    shared = asked_for(program)
    linked = packages(build, shared or given(words), compiler(words))
    version = json.loads(output("meson", "introspect", "--projectinfo", build))["version"]
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or program.stat().st_mtime)
    sha256 = hashlib.sha256(data).hexdigest()

    def relation(one, kind, other):
        return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}

    own, made = "SPDXRef-Package-tuffet", "SPDXRef-File-tuffet"
    kind = "DYNAMIC_LINK" if shared else "STATIC_LINK"
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"tuffet-{version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/tuffet-{version}-{sha256}",
        "creationInfo": {
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)),
            "creators": ["Tool: tuffet-sbom.py", "Organization: tuffet maintainers"]},
        "packages": [package("tuffet", version, OWN)] + [
            package(name, *what) for name, what in linked.items()],
        "files": [{
            "SPDXID": made, "fileName": f"./{program.name}", "fileTypes": ["BINARY"],
            "checksums": [
                {"algorithm": "SHA1", "checksumValue": hashlib.sha1(data).hexdigest()},
                {"algorithm": "SHA256", "checksumValue": sha256}],
            "licenseConcluded": OWN, "licenseInfoInFiles": OWN.split(" AND "),
            "copyrightText": "NOASSERTION"}],
        "relationships": [relation("SPDXRef-DOCUMENT", "DESCRIBES", own),
                          relation(made, "GENERATED_FROM", own)] + [
            relation(made, kind, f"SPDXRef-Package-{name}") for name in linked],
    }


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    build, target, out, file = [*sys.argv[1:], None][:4]
    text = json.dumps(document(build, target, file), indent=2) + "\n"
    pathlib.Path(out).write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
