#!/usr/bin/env bash
# A store on a read-only file system: writing fails with a clear word, and nothing is damaged.
# Proves: OPS-01
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
in_own_mounts

mkdir "$scratch/disk"
mount -t tmpfs -o size=8m none "$scratch/disk"
url=sqlite:$scratch/disk/store.db
expect 0 init "$url"
expect 0 enqueue "$url" --topic t --payload x
mount -o remount,ro "$scratch/disk"

expect 1 enqueue "$url" --topic t --payload x --json
err_has '{"error":{"code":"read_only","message":'
expect 1 enqueue "$url" --topic t --payload x
err_has 'writable'
expect 1 init "sqlite:$scratch/disk/other.db"

mount -o remount,rw "$scratch/disk"
expect 0 enqueue "$url" --topic t --payload x
expect 0 stats "$url" --json
[[ $(json_value ready) == 2 ]] || fail "both messages should be there"
