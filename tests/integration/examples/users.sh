#!/usr/bin/env bash
# The service that manages users, driven over HTTP on one engine: users.sh ENGINE PROGRAM POSTHORN
# Double clicks, concurrent duplicates and kill -9 in a loop: one user and one event for each key.
# Proves: EX-1, IDM-02, IDM-03, IDM-04, IDM-07, UOW-01, I1
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
engine=$1 program=$2 posthorn=$3
command -v python3 >/dev/null || {
    echo 'failed: this test needs python3' >&2
    exit 1
}
scratch=$(mktemp -d)
name=users_$$_$RANDOM

# Databases of its own, because others test on these servers, too.
case $engine in
sqlite)
    url=sqlite:$scratch/users.db
    dump=(sqlite3 -cmd ".timeout 60000" "$scratch/users.db" .dump)
    remove() { :; }
    ;;
postgres)
    : "${POSTHORN_TEST_POSTGRESQL:?is not set: run ./dev servers, and then this with what it prints}"
    on_postgres() { psql -X -q "$POSTHORN_TEST_POSTGRESQL" -c "$1"; }
    url=${POSTHORN_TEST_POSTGRESQL%/*}/$name
    dump=(pg_dump "$url")
    remove() { on_postgres "DROP DATABASE IF EXISTS $name WITH (FORCE)"; }
    on_postgres "CREATE DATABASE $name"
    ;;
mariadb)
    : "${POSTHORN_TEST_MARIADB:?is not set: run ./dev servers, and then this with what it prints}"
    place=${POSTHORN_TEST_MARIADB##*@}
    place=${place%%/*}
    where=(--no-defaults -h "${place%:*}" -P "${place#*:}" -u root)
    url=${POSTHORN_TEST_MARIADB%/*}/$name
    dump=(mariadb-dump "${where[@]}" --single-transaction --hex-blob "$name")
    remove() { mariadb "${where[@]}" -e "DROP DATABASE IF EXISTS $name"; }
    mariadb "${where[@]}" -e "CREATE DATABASE $name"
    ;;
esac
cleanup() {
    rm -rf "$scratch"
    remove
}
trap 'cleanup 2>/dev/null' EXIT

python3 "$here/users.py" "$scratch" "$url" "$program" "$posthorn" "${dump[@]}"
