#!/usr/bin/env bash
# Checks that what "make dev" and "make test" need is there, and installs what
# is missing: through apt on Debian and Ubuntu, elsewhere it says what to
# install. It says nothing when nothing is missing.
#
#   scripts/setup.sh NEED...      postgres redis compiler node python curl spin faketime pgbouncer chromium
#
# The servers run as children on private ports; nothing of the distribution's
# own services is used, and none is left running.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly oldest_postgres=15 oldest_redis=7 oldest_node=18

fail() {
    printf 'setup: %s\n' "$@" >&2
    exit 1
}

# number prints the first whole number of its input, or 0.
number() { { grep -oE '[0-9]+' || echo 0; } | head -n 1; }

has_postgres() {
    local bin
    for bin in "$(dirname "$(command -v initdb || echo /none/initdb)")" \
        /usr/lib/postgresql/*/bin /usr/pgsql-*/bin \
        /opt/homebrew/opt/postgresql@*/bin /usr/local/opt/postgresql@*/bin; do
        if [ -x "$bin/initdb" ] && [ -x "$bin/postgres" ] &&
            [ "$("$bin/postgres" --version | number)" -ge "$oldest_postgres" ]; then
            return 0
        fi
    done
    return 1
}

has_redis() {
    command -v redis-server >/dev/null &&
        [ "$(redis-server --version | sed 's/.*v=//' | number)" -ge "$oldest_redis" ]
}

# The race detector is linked by the C compiler, and Spin's checkers are compiled by it.
has_compiler() { command -v "${CC:-gcc}" >/dev/null || command -v cc >/dev/null || command -v clang >/dev/null; }

has_node() {
    command -v npm >/dev/null && command -v node >/dev/null &&
        [ "$(node --version | number)" -ge "$oldest_node" ]
}

has_python() { command -v python3 >/dev/null; }

has_curl() { command -v curl >/dev/null; }

has_spin() { command -v spin >/dev/null; }

# The library that gives one server another time, where tests look for it.
has_faketime() { compgen -G '/usr/lib*/*/faketime/libfaketime.so.1' >/dev/null || compgen -G '/usr/lib*/faketime/libfaketime.so.1' >/dev/null; }

# Debian has it where only root's PATH leads.
has_pgbouncer() { command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ]; }

has_chromium() { command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; }

# packages prints the Debian packages that bring a need.
packages() {
    case "$1" in
        postgres) echo postgresql ;;
        redis) echo redis-server ;;
        compiler) echo gcc libc6-dev ;;
        node) echo nodejs npm ;;
        python) echo python3 ;;
        curl) echo curl ;;
        spin) echo spin ;;
        faketime) echo libfaketime ;;
        chromium) echo chromium fonts-dejavu-core ;;
        pgbouncer) echo pgbouncer ;;
        *) fail "unknown need '$1'" ;;
    esac
}

describe() {
    case "$1" in
        postgres) echo "Postgres $oldest_postgres or newer (initdb and postgres)" ;;
        redis) echo "Redis $oldest_redis or newer (redis-server)" ;;
        compiler) echo "a C compiler (for the race detector and the model checker)" ;;
        node) echo "Node.js $oldest_node or newer with npm" ;;
        python) echo "Python 3" ;;
        curl) echo "curl" ;;
        spin) echo "the model checker Spin" ;;
        faketime) echo "libfaketime" ;;
        chromium) echo "Chromium" ;;
        pgbouncer) echo "PgBouncer" ;;
    esac
}

check_go() {
    local wanted
    wanted=$(sed -n 's/^go //p' go.mod)
    command -v go >/dev/null || fail "Go $wanted or newer is missing: install it from https://go.dev/dl/"
    # In this folder go itself compares its version with go.mod's, and fetches
    # a newer toolchain when it may.
    go env GOVERSION >/dev/null || fail "Go $wanted or newer is needed: install it from https://go.dev/dl/"
}

# apt runs apt-get quietly and shows its output only when it fails. RUNLEVEL=1
# keeps service scripts from starting what was just installed.
apt() {
    local log
    log=$(mktemp)
    if ! $sudo env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get "$@" >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        fail "apt-get $* failed (above)"
    fi
    rm -f "$log"
}

# without_clusters runs a command while Debian's Postgres packages are told to
# make no cluster of their own, which they would start.
without_clusters() {
    local folder=/etc/postgresql-common/createcluster.d file
    file=$folder/countersign-setup.conf
    $sudo mkdir -p "$folder"
    echo "create_main_cluster = false" | $sudo tee "$file" >/dev/null
    # shellcheck disable=SC2064  # the names of now
    trap "$sudo rm -f '$file'" EXIT
    "$@"
    $sudo rm -f "$file"
}

install_missing() {
    local wanted=()
    for need in "$@"; do
        read -ra names <<<"$(packages "$need")"
        wanted+=("${names[@]}")
    done
    if ! command -v apt-get >/dev/null; then
        fail "missing: $(for need in "$@"; do describe "$need"; done | paste -sd ';' | sed 's/;/; /g')" \
            "install it (macOS: brew install postgresql@17 redis node python curl spin pgbouncer chromium; Fedora: dnf install postgresql-server redis gcc nodejs python3 curl libfaketime pgbouncer chromium, and Spin from https://spinroot.com) and try again"
    fi
    sudo=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || fail "run this as root, then try again: apt-get install ${wanted[*]}"
        sudo=sudo
    fi
    echo "setup: installing ${wanted[*]} with ${sudo:+$sudo }apt-get (once)"
    apt update
    without_clusters apt install --yes --no-install-recommends "${wanted[@]}"
    for need in "$@"; do
        "has_$need" || fail "$(describe "$need") is needed, and this distribution's is older:" \
            "install a newer one (Postgres: https://www.postgresql.org/download/; Redis: https://redis.io/docs/latest/operate/oss_and_stack/install/) and try again"
    done
}

check_go
missing=()
for need in "$@"; do
    packages "$need" >/dev/null
    "has_$need" || missing+=("$need")
done
if [ ${#missing[@]} -gt 0 ]; then
    install_missing "${missing[@]}"
fi
