#!/usr/bin/env bash
# The example that sends e-mail, on every engine: the story is the same on all of them.
# Proves: EX-5
set -euo pipefail
program=$1
: "${POSTHORN_TEST_POSTGRESQL:?is not set: run ./dev servers, and then this with what it prints}"
: "${POSTHORN_TEST_MARIADB:?is not set: run ./dev servers, and then this with what it prints}"
scratch=$(mktemp -d)

fail() {
    printf 'failed: %s\n' "$1" >&2
    exit 1
}

# tell <engine> <url>
tell() {
    "$program" "$2" "$scratch/$1" >"$scratch/$1.txt" || fail "$1: exit status $?"
    tail -1 "$scratch/$1.txt"
    grep -q '1 user, 1 e-mail to send' "$scratch/$1.txt" || fail "$1: the dead registration left something"
    grep -q '2 e-mails sent, 0 to send, 1 dead letter' "$scratch/$1.txt" || fail "$1: the end is wrong"
    for who in ada carl; do
        [[ $(grep -l "^To: $who@example.org" "$scratch/$1"/*.eml | wc -l) == 1 ]] || fail "$1: not one e-mail to $who"
    done
}

# Databases of its own, because others test on these servers, too.
name=mail_$$_$RANDOM
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

tell sqlite "sqlite:$scratch/shop.db"
on_postgres "CREATE DATABASE $name"
tell postgres "${POSTHORN_TEST_POSTGRESQL%/*}/$name"
on_mariadb "CREATE DATABASE $name"
tell mariadb "${POSTHORN_TEST_MARIADB%/*}/$name"
