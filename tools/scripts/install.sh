#!/bin/sh
# Installs Debian packages that are missing: sh tools/scripts/install.sh PACKAGE...
# With --architecture NAME before the packages, lets Debian have packages of NAME beside its own.
# Uses sudo only if something is missing.
set -eu
root=
[ "$(id -u)" = 0 ] || root=sudo

if [ "$1" = --architecture ]; then
    dpkg --print-foreign-architectures | grep -qx "$2" || $root dpkg --add-architecture "$2"
    shift 2
fi

missing=
for package; do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
        missing="$missing $package"
done
[ -n "$missing" ] || exit 0

export DEBIAN_FRONTEND=noninteractive
# A mirror may have one list of several that is old or damaged, which need not matter here: what
# cannot be installed then says so.
$root apt-get update -qq || echo "install.sh: some package lists could not be updated" >&2
# shellcheck disable=SC2086 # one word for each package
$root apt-get install -y -qq --no-install-recommends $missing >/dev/null
