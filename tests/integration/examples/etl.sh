#!/usr/bin/env bash
# The example with a join, on every engine: one run succeeds, one ends in its failure continuation.
# Proves: EX-2
set -euo pipefail
program=$1
: "${POSTHORN_TEST_POSTGRESQL:?is not set: run ./dev servers, and then this with what it prints}"
: "${POSTHORN_TEST_MARIADB:?is not set: run ./dev servers, and then this with what it prints}"
scratch=$(mktemp -d)

fail() {
    printf 'failed: %s\n' "$1" >&2
    cat "$scratch/out" >&2
    exit 1
}

# once <line>: stands there exactly once.
once() { [[ $(grep -cx -- "$1" "$scratch/out") == 1 ]] || fail "$engine: '$1' should be there once"; }

# tell <engine> <url>
tell() {
    local engine=$1
    timeout 60 "$program" "$2" >"$scratch/out" || fail "$1: exit status $?"
    once '  transforming what was extracted of acme'
    once '  completed: 3 extracted, 0 failed'
    once '  giving up on umbrella: its extracts are removed'
    once '  failed: 2 extracted, 1 failed'
    once 'acme: completed'
    once 'umbrella: failed'
}

# Databases of its own, because others test on these servers, too.
name=etl_$$_$RANDOM
place=${POSTHORN_TEST_MARIADB##*@}
place=${place%%/*}
on_postgres() { psql -X -q "$POSTHORN_TEST_POSTGRESQL" -c "$1"; }
on_mariadb() { mariadb --no-defaults -h "${place%:*}" -P "${place#*:}" -u root -e "$1"; }
cleanup() {
    rm -rf "$scratch"
    on_postgres "DROP DATABASE IF EXISTS $name WITH (FORCE)"
    on_mariadb "DROP DATABASE IF EXISTS $name"
}
trap 'cleanup 2>/dev/null' EXIT

tell memory sqlite::memory:
tell sqlite "sqlite:$scratch/etl.db"
on_postgres "CREATE DATABASE $name"
tell postgres "${POSTHORN_TEST_POSTGRESQL%/*}/$name"
on_mariadb "CREATE DATABASE $name"
tell mariadb "${POSTHORN_TEST_MARIADB%/*}/$name"
