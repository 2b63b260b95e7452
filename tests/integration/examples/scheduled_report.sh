#!/usr/bin/env bash
# The example of a scheduled report, on every engine and with a clock that is moved by hand.
# Proves: EX-4, SCH-01, COR-03
set -euo pipefail
program=$1 posthorn=$2
: "${POSTHORN_TEST_POSTGRESQL:?is not set: run ./dev servers, and then this with what it prints}"
: "${POSTHORN_TEST_MARIADB:?is not set: run ./dev servers, and then this with what it prints}"
scratch=$(mktemp -d)

fail() {
    printf 'failed: %s\n' "$1" >&2
    cat "$scratch/out" >&2
    exit 1
}

# times <count> <line>: stands there so often.
times() { [[ $(grep -cx -- "$2" "$scratch/out") == "$1" ]] || fail "$engine: '$2' should be there $1 times"; }

# tell <engine> [url]
tell() {
    local engine=$1
    if [[ $# == 2 ]]; then "$posthorn" init "$2" >"$scratch/out" || fail "$1: init"; fi
    timeout 60 "$program" "${@:2}" >"$scratch/out" || fail "$1: exit status $?"
    times 1 'will run at 2027-03-28 03:00:00 +02:00 CEST, for want of 02:30'
    times 1 'making the report of 2027-03-27T01:30:00Z'
    times 1 'making the report of 2027-03-28T01:00:00Z'
    times 1 'making the report of 2027-03-29T00:30:00Z'
    times 3 '  mail to ada, number 1'
    times 3 '  mail to bob, number 2'
    times 3 'nightly-report: done'
    times 3 '  report.make done'
    times 6 '    report.mail done'
}

# Databases of its own, because others test on these servers, too.
name=report_$$_$RANDOM
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

tell memory
tell sqlite "sqlite:$scratch/report.db"
on_postgres "CREATE DATABASE $name"
tell postgres "${POSTHORN_TEST_POSTGRESQL%/*}/$name"
on_mariadb "CREATE DATABASE $name"
tell mariadb "${POSTHORN_TEST_MARIADB%/*}/$name"
