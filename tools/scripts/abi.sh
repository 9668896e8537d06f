#!/bin/sh
# Compares the binary interface of the shared libraries with that of the last tag, by abidiff:
#     sh tools/scripts/abi.sh [TAG]
#     sh tools/scripts/abi.sh --compare OLD NEW      two installations that were made before
# Prints what was added, and fails if a program that was built with the tag's libraries might not
# run with the tree's. Libraries with another soname may differ. Before the first tag there is
# nothing to compare. docs/embedding.md says what may change. Needs Debian.
set -eu
cd "$(dirname "$0")/../.."

# installed SOURCE TO: the libraries with debug information, and the headers.
installed() {
    rm -rf "$2"
    mkdir -p "$2"
    meson setup "$2/build" "$1" --buildtype=debug --prefix=/usr --libdir=lib -Dtests=false \
        -Dsimd=false -Dthreads=posix -Dmpi=disabled >"$2/log" 2>&1 &&
        ninja -C "$2/build" >>"$2/log" 2>&1 &&
        meson install -C "$2/build" --destdir "$2/root" >>"$2/log" 2>&1 || {
        tail -20 "$2/log" >&2
        exit 1
    }
}

soname() {
    readelf --dynamic "$1" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p'
}

broken='offset changed|deletions?:|enumerator change|return type changed|type name changed'
broken="$broken|type of .* changed|parameter [0-9]+ of type .* (changed|was)"

# compare OLD NEW: folders with include/ and lib/.
compare() {
    failed=
    for old in "$1"/lib/libtuffet*.so; do
        name=${old##*/}
        new=$2/lib/$name
        case $name in *-cuda.so | *-mpi.so) continue ;; esac # plug-ins of one build
        if [ ! -e "$new" ]; then
            echo "$name: is gone"
            failed=yes
            continue
        fi
        if [ "$(soname "$old")" != "$(soname "$new")" ]; then
            echo "$name: $(soname "$old") became $(soname "$new"), which may differ"
            continue
        fi
        status=0
        report=$(abidiff --headers-dir1 "$1/include" --headers-dir2 "$2/include" "$old" "$new") ||
            status=$?
        [ -z "$report" ] || echo "$report"
        # bits: 1, 2 errors; 4 a change; 8 a change that breaks programs. A struct may grow at its
        # end, which is a change as a moved field is: the words of the report tell them apart.
        if [ $((status & 11)) != 0 ] || echo "$report" | grep -Eq "$broken"; then
            echo "$name: programs that were built with the old one might not run"
            failed=yes
        else
            echo "$name: $([ "$status" = 0 ] && echo unchanged || echo compatible)"
        fi
    done
    [ -z "$failed" ]
}

if [ "${1-}" = --compare ]; then
    compare "$2" "$3"
    exit
fi
tag=${1-$(git describe --tags --abbrev=0 2>/dev/null || true)}
if [ -z "$tag" ]; then
    echo "skipped: there is no tag yet, the first one begins the comparison"
    exit
fi
sh tools/scripts/install.sh abigail-tools binutils gcc libc6-dev meson ninja-build pkgconf git
out=$PWD/build/abi
rm -rf "$out"
mkdir -p "$out/source"
git archive "$tag" | tar -x -C "$out/source"
installed "$out/source" "$out/old"
installed "$PWD" "$out/new"
compare "$out/old/root/usr" "$out/new/root/usr"
