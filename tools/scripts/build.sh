#!/bin/sh
# Configures FOLDER, if that is not done yet, and builds it: sh tools/scripts/build.sh FOLDER
# [OPTION of meson setup]... Says how far it is.
set -eu
folder=$1
shift

# A setup that was interrupted leaves a folder that neither setup nor ninja goes on from.
if [ ! -f "$folder/build.ninja" ] || [ ! -f "$folder/meson-private/build.dat" ]; then
    rm -rf "$folder"
    mkdir -p "$folder"
    meson setup "$folder" "$@" >"$folder.log" 2>&1 || {
        cat "$folder.log" >&2
        rm -rf "$folder"
        exit 1
    }
    rm "$folder.log"
fi

export NINJA_STATUS='compiling %f of %t '
if [ -t 1 ]; then
    exec ninja -C "$folder"
fi
rm -f "$folder/built"
# errors as they are, and each fiftieth line of progress
{ ninja -C "$folder" && touch "$folder/built"; } | sed -u \
    -e '/^ninja: Entering/d' -e '/^ninja: no work/d' \
    -e '/^compiling [0-9]* of /{' -e '/[05]0 of /!d' -e 's/ of \([0-9]*\).*/ of \1/' -e '}'
[ -f "$folder/built" ]
