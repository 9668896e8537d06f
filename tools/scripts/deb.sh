#!/bin/sh
# Builds the Debian packages of packaging/debian from the last commit, twice, into build/deb:
# sh tools/scripts/deb.sh
# Both builds must have the same bytes, lintian must say nothing, and the packages must install, run
# and go in a Debian that has nothing else. With CHECK=no, they are built once, and not tried. Needs
# root, and a mirror of Debian.
set -eu
cd "$(dirname "$0")/../.."
top=$PWD
out=$top/build/deb
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")

sh tools/scripts/install.sh git build-essential debhelper lintian mmdebstrap meson pkgconf \
    libcurl4-openssl-dev libedit-dev libevent-dev libjansson-dev libssl-dev

commit=$(git rev-parse HEAD)
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" meson.build)
rm -rf "$out"
mkdir -p "$out"

# build FOLDER VARIABLE=VALUE...: packages in $out/FOLDER.
build() {
    folder=$out/$1/tuffet-$version
    mkdir -p "$folder"
    git archive "$commit" | tar -x -C "$folder"
    cp -a "$folder/packaging/debian" "$folder/debian"
    git archive --prefix="tuffet-$version/" "$commit" |
        gzip -n9 >"$out/$1/tuffet_$version.orig.tar.gz"
    (cd "$folder" && shift && env "$@" dpkg-buildpackage -us -uc >"../build.log" 2>&1) || {
        tail -40 "$out/$1/build.log"
        exit 1
    }
}

echo "== build 1"
build 1 LC_ALL=C.UTF-8 TZ=UTC
[ "${CHECK-}" != no ] || exit 0
echo "== build 2: elsewhere, later, with another umask, language and time zone"
(umask 077 && build a/longer/name LC_ALL=C TZ=Pacific/Kiritimati)

echo "== the same bytes"
for file in "$out"/1/*.deb "$out"/1/*.dsc "$out"/1/*.tar.*; do
    cmp "$file" "$out/a/longer/name/${file##*/}"
done
(cd "$out/1" && sha256sum ./*.deb && du -k ./*.deb)

echo "== lintian"
lintian --allow-root --fail-on error,warning "$out"/1/*.changes

echo "== a Debian with nothing but these packages"
root=$out/root
mmdebstrap --variant=minbase --include=gcc,libc6-dev,pkgconf "$suite" "$root" >"$out/root.log" 2>&1
cp "$out"/1/*.deb "$root/tmp"
chroot "$root" sh -ec '
    cd /tmp
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends ./*.deb bash zsh fish >/dev/null 2>&1
    tuffet --version
    tuffet run --temp 0 -n 40 --echo -p "Once upon a time" </dev/null
    tuffet demo -t 1 | grep "are the same"
    tuffet quantize --help >/dev/null
    cc $(pkg-config --cflags tuffet) /usr/share/doc/libtuffet-dev/examples/embed.c -o embed \
        $(pkg-config --libs tuffet)
    ./embed /usr/share/tuffet/stories2M.gguf "Once upon a time" | head -c 100
    echo
    cc $(pkg-config --cflags tuffet-chat) /usr/share/doc/libtuffet-dev/examples/embed_chat.c \
        -o embed_chat $(pkg-config --libs tuffet-chat)
    ./embed_chat 2>&1 | grep usage
    zsh -fc "autoload -Uz compinit; compinit -D; whence -v _tuffet" | grep -q shell
    fish -c "complete -C \"tuffet run --kv par\"" | grep -q partial-logquant
    apt-get purge -y -qq tuffet tuffet-stories libtuffet1 libtuffet-chat1 libtuffet-quantize1 \
        >/dev/null
    left=$(find / -xdev -name "*tuffet*" ! -path "/tmp/*" ! -path "/proc/*" ! -path "/var/log/*")
    [ -z "$left" ] || { echo "left behind: $left"; exit 1; }'
rm -rf "$root"
echo "all passed"
