#!/bin/sh
# Installs Debian packages that are missing: sh tools/scripts/install.sh PACKAGE...
# With --architecture NAME before the packages, lets Debian have packages of NAME beside its own.
# Uses sudo only if something is missing. Says which packages could not be had.
set -eu
root=
[ "$(id -u)" = 0 ] || root=sudo
export DEBIAN_FRONTEND=noninteractive

# bounded SECONDS COMMAND...: tries three times, each for at most so long. Another program may have
# apt's lock for a while. A try that ran out of time left packages half installed, as on a slow
# card: apt wants them configured first.
bounded() {
    seconds=$1
    shift
    for try in 1 2 3; do
        [ "$try" = 1 ] ||
            timeout --kill-after=10 "$seconds" $root dpkg --configure -a >/dev/null 2>&1 || :
        timeout --kill-after=10 "$seconds" $root "$@" && return
        echo "install.sh: try $try of 3 failed: $*" >&2
    done
    return 1
}

has() {
    dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed
}

get() {
    bounded 600 apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=120 "$@" \
        >/dev/null
}

if [ "$1" = --architecture ]; then
    dpkg --print-foreign-architectures | grep -qx "$2" || $root dpkg --add-architecture "$2"
    shift 2
fi

missing=
for package; do
    has "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

echo "installing$missing" >&2
# A mirror may have one list of several that is old or damaged, which need not matter here: what
# cannot be installed then says so.
bounded 300 apt-get update -qq -o DPkg::Lock::Timeout=120 ||
    echo "install.sh: some package lists could not be updated" >&2
# shellcheck disable=SC2086 # one word for each package
get $missing && exit
for package in $missing; do
    has "$package" || timeout 60 apt-get install -qq --simulate "$package" >/dev/null 2>&1 ||
        echo "install.sh: $package cannot be had" >&2
done
exit 1
