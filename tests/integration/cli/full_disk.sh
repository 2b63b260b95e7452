#!/usr/bin/env bash
# A full disk: the error says so, what was enqueued before stays, and free space is all it takes to
# go on.
# Proves: OPS-01, F9
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
in_own_mounts

mkdir "$scratch/disk"
mount -t tmpfs -o size=4m none "$scratch/disk"
url=sqlite:$scratch/disk/store.db
expect 0 init "$url"
head -c 200000 /dev/zero >"$scratch/payload"
head -c 1000000 /dev/zero >"$scratch/disk/ballast"

stored=0
for _ in {1..100}; do
    run enqueue "$url" --topic t - --json <"$scratch/payload"
    ((status == 0)) || break
    stored=$((stored + 1))
done
((status == 1)) || fail "a full disk is a failure"
((stored > 0)) || fail "some messages should fit"
err_has '{"error":{"code":"storage_full","message":'
run enqueue "$url" --topic t - <"$scratch/payload"
((status == 1)) || fail "the disk is still full"
err_has 'free some disk space'

expect 0 stats "$url" --json
[[ $(json_value ready) == "$stored" ]] || fail "$stored messages should be there"

# In bulk, whole transactions fit or do not.
run enqueue "$url" --topic bulk --payload x --count 1000000
((status == 1)) || fail "a million messages do not fit"
err_has 'of 1000000 messages)'
[[ $err =~ after\ ([0-9]+)\ of ]] || fail "how many were enqueued?"
bulk=${BASH_REMATCH[1]}

rm "$scratch/disk/ballast"
expect 0 enqueue "$url" --topic t --payload x
expect 0 stats "$url" --json
[[ $(json_value ready) == "$((stored + bulk + 1))" ]] || fail "$stored + $bulk + 1 should be there"
expect 0 doctor "$url"
