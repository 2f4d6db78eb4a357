#!/bin/sh
# Install Debian's packages whose programs are missing: packages.sh [PROGRAM=]PACKAGE ...
# A package is left alone where its program is on PATH, and no service is started; root, or sudo, is asked for only when something is missing.
set -eu
missing=""
for item in "$@"; do
    program=${item%%=*} package=${item#*=}
    case "$package" in
        python3-venv) missing="$missing $package" ;;
        *) command -v "$program" >/dev/null 2>&1 || missing="$missing $package" ;;
    esac
done
[ -z "$missing" ] && exit 0
command -v apt-get >/dev/null 2>&1 || { echo "missing:$missing (this is not a Debian machine: install them by its own means)" >&2; exit 1; }
as_root=""
[ "$(id -u)" = 0 ] || as_root=sudo
echo "installing:$missing"
# invoke-rc.d asks this program before it starts a service.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap '$as_root rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
    $as_root chmod +x "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
# shellcheck disable=SC2086 # a list of words
$as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
