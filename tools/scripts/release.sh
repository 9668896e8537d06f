#!/bin/sh
# Makes a release from a tag: sh tools/scripts/release.sh TAG FOLDER --key FILE [OPTION VALUE]...
#
#   --key FILE      secret key of signify-openbsd, which signs SHA256SUMS
#   --parts "..."   of source, static, deb, windows, wheels and node (default: all)
#   --tests LOG     output of tools/scripts/test.sh at this commit; without it, the tests run here
#
# Everything is made twice, in clones of the tag in two folders, under another umask, language and
# time zone, and must have the same bytes; the first time it is tried too. Refused are a tree with
# changes, a tag that is not the version of meson.build or not in NEWS, and tests that failed or
# were skipped without a reason. The tag of a release is vX.Y.Z, that of a candidate vX.Y.Z-rcN,
# while NEWS may say "not yet released".
# FOLDER gets the archives, NOTES (the section of NEWS), SHA256SUMS and SHA256SUMS.sig.
set -eu
refuse() {
    echo "release.sh: $*" >&2
    exit 1
}

# packed FOLDER: an archive of FOLDER, in the folder where it lies, to the standard output.
packed() {
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        --mode=u=rwX,go=rX -c "$1" | gzip -n9
}

# part NAME TO: makes a part in the clone, which is the current folder.
part() {
    case $1 in
    source)
        mkdir -p build
        git archive --prefix="tuffet-$name/" --output=build/source.tar HEAD
        gzip -n9 <build/source.tar >"$2/tuffet-$name.tar.gz"
        amalgamation=tuffet-amalgamation-$name
        python3 tools/scripts/amalgamate.py "build/$amalgamation"
        (cd build && packed "$amalgamation") >"$2/$amalgamation.tar.gz"
        ;;
    static)
        sh tools/scripts/static.sh
        cp build/static/tuffet-*.tar.gz "$2"
        ;;
    deb)
        sh tools/scripts/deb.sh
        cp build/deb/1/*.deb build/deb/1/*.dsc build/deb/1/*.tar.* "$2"
        ;;
    windows)
        sh tools/scripts/windows.sh
        python3 tools/scripts/zip.py build/windows/tuffet "$2/tuffet-$name-windows-x86_64.zip"
        ;;
    wheels)
        sh tools/scripts/wheels.sh
        cp build/wheels/*.whl "$2"
        ;;
    node)
        sh tools/scripts/node.sh
        cp build/node/tuffet-*.tgz "$2/tuffet-$name-node-$(uname -m).tgz"
        ;;
    *) refuse "no part $1" ;;
    esac
}

# In a process of its own, where a command that fails ends the part.
if [ "${1-}" = --part ]; then
    name=$RELEASE_NAME
    part "$2" "$3"
    exit
fi

[ $# -ge 2 ] || {
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
tag=$1 out=$2 key='' parts='source static deb windows wheels node' tests=''
shift 2
while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || refuse "$1 needs a value"
    case $1 in
    --key) key=$(realpath "$2") ;;
    --parts) parts=$2 ;;
    --tests) tests=$(realpath "$2") ;;
    *) refuse "no option $1" ;;
    esac
    shift 2
done
out=$(realpath -m "$out")
cd "$(dirname "$0")/../.."
top=$PWD

# ---- what may be released

[ -n "$key" ] && [ -r "$key" ] || refuse "--key FILE: the secret key that signs is missing"
command -v signify-openbsd >/dev/null || refuse "there is no signify-openbsd to sign with"
[ ! -e "$out" ] || refuse "$out exists"
[ -z "$(git status --porcelain)" ] || refuse "the tree has changes: commit or remove them"
git rev-parse --quiet --verify "refs/tags/$tag" >/dev/null || refuse "there is no tag $tag"
echo "$tag" | grep -Eqx 'v[0-9]+\.[0-9]+\.[0-9]+(-rc[0-9]+)?' ||
    refuse "$tag is not vX.Y.Z or vX.Y.Z-rcN"
name=${tag#v}
version=${name%-rc*}
built=$(git show "$tag:meson.build" | sed -n "s/^  version: '\(.*\)',/\1/p")
[ "$version" = "$built" ] || refuse "$tag, but meson.build has version $built"

# NEWS: a line "VERSION (date)" begins a section.
section=$(git show "$tag:NEWS" | awk -v version="$version" '
    /^[0-9]+\.[0-9]+/ { inside = $1 == version } inside')
[ -n "$section" ] || refuse "NEWS has no section $version"
[ "$name" != "$version" ] || ! echo "$section" | head -1 | grep -q 'not yet released' ||
    refuse "NEWS says that $version is not yet released"

# check_tests LOG
check_tests() {
    tail -1 "$1" | grep -Eq '^[0-9]+ passed, 0 failed, [0-9]+ skipped$' ||
        refuse "tests failed, or did not end: $1"
    if grep '^skipped .*no reason given' "$1" >&2; then
        refuse "tests were skipped without a reason: $1"
    fi
}
[ -z "$tests" ] || check_tests "$tests"

# ---- made twice

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$tag^{commit}")
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# make CLONE TO: every part, from a clone of the tag.
make() {
    mkdir -p "$2" "$(dirname "$1")"
    git clone --quiet --depth 1 --branch "$tag" "file://$top" "$1" 2>"$work/clone.log" || {
        cat "$work/clone.log" >&2
        refuse "no clone"
    }
    for one in $parts; do
        echo "== $one" >&2
        (cd "$1" && RELEASE_NAME=$name sh "$top/tools/scripts/release.sh" --part "$one" "$2") \
            >"$work/$one.log" 2>&1 || {
            tail -20 "$work/$one.log" >&2
            refuse "$one failed"
        }
        grep '^left out: ' "$work/$one.log" >&2 || true
    done
}

(umask 022 && LC_ALL=C.UTF-8 TZ=UTC make "$work/1" "$work/first") || exit
if [ -z "$tests" ]; then
    echo "== tests" >&2
    (cd "$work/1" && sh tools/scripts/test.sh) >"$work/tests.log" 2>&1 || {
        tail -20 "$work/tests.log" >&2
        refuse "tests failed"
    }
    check_tests "$work/tests.log"
fi
(umask 077 && CHECK=no LC_ALL=C TZ=Pacific/Kiritimati make "$work/a/longer/name" "$work/second") ||
    exit
diff -rq "$work/first" "$work/second" >&2 || refuse "the second time, other bytes were made"

# ---- signed

printf '%s\n' "$section" >"$work/first/NOTES" # echo may read backslashes
(
    cd "$work/first"
    LC_ALL=C
    export LC_ALL
    sha256sum -- * >"$work/SHA256SUMS"
    mv "$work/SHA256SUMS" .
    signify-openbsd -S -s "$key" -m SHA256SUMS -x SHA256SUMS.sig
)
if [ -f packaging/tuffet.pub ]; then
    signify-openbsd -V -q -p packaging/tuffet.pub -m "$work/first/SHA256SUMS" ||
        refuse "the key is not that of packaging/tuffet.pub"
fi
mkdir -p "$(dirname "$out")"
mv "$work/first" "$out"
chmod 755 "$out"
cat "$out/SHA256SUMS"
