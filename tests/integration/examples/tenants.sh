#!/usr/bin/env bash
# A tenant, a store: the same program with files of its own, and with schemas of one database.
# Proves: EX-3
set -euo pipefail
program=$1
: "${POSTHORN_TEST_POSTGRESQL:?is not set: run ./dev servers, and then this with what it prints}"
scratch=$(mktemp -d)
name=tenants_$$_$RANDOM
on_postgres() { psql -X -q "$POSTHORN_TEST_POSTGRESQL" -c "$1"; }
cleanup() {
    rm -rf "$scratch"
    on_postgres "DROP DATABASE IF EXISTS $name WITH (FORCE)"
}
trap 'cleanup 2>/dev/null' EXIT

fail() {
    printf 'failed: %s\n' "$1" >&2
    cat "$scratch/out" >&2
    exit 1
}

# tell <engine> <url>
tell() {
    timeout 60 "$program" "$2" >"$scratch/out" || fail "$1: exit status $?"
    tail -1 "$scratch/out"
    for tenant in anna bert carl dora emil; do
        for order in 1 2 3; do
            [[ $(grep -c "^order $order of $tenant is shipped$" "$scratch/out") == 1 ]] ||
                fail "$1: order $order of $tenant was not shipped once"
        done
    done
    grep -q '^order 1 of fred is shipped$' "$scratch/out" || fail "$1: the new tenant was not found"
    grep -q '^nobody fails: ' "$scratch/out" || fail "$1: nobody's store should fail"
    grep -q '^16 orders of 6 tenants are shipped$' "$scratch/out" || fail "$1: the end is wrong"
}

tell sqlite "sqlite:$scratch/files"
on_postgres "CREATE DATABASE $name"
tell postgres "${POSTHORN_TEST_POSTGRESQL%/*}/$name"
