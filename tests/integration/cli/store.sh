#!/usr/bin/env bash
# Creating, migrating, counting, cleaning and examining a store.
# Proves: OPS-01, OPS-02
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"

# The migrations as they stand in the sources: 0001_outbox and so on.
mapfile -t migrations < <(basename -s .sql -a "$(dirname "${BASH_SOURCE[0]}")"/../../../src/store/sqlite/migrations/*.sql)
latest=${#migrations[@]}
all=$(printf '"%s",' "${migrations[@]}")

expect 0 init "$url"
out_has "created the tables, version $latest"
expect 0 init "$url"
out_has 'nothing to do'
expect 0 migrate "$url"
out_has 'nothing to do'
expect 0 migrate "$url" --json
out_is "{\"version_before\":$latest,\"version_after\":$latest,\"applied\":[]}"
expect 0 init "sqlite:$scratch/second.db" --json
out_is "{\"version_before\":0,\"version_after\":$latest,\"applied\":[${all%,}]}"
expect 2 init sqlite::memory:
expect 1 init "sqlite:$scratch/none/deep/store.db"
err_has "there is no folder '$scratch/none/deep'; make it first, as with mkdir -p"
touch "$scratch/plain"
expect 1 init "sqlite:$scratch/plain/store.db"
err_has "'$scratch/plain' is not a folder"

# What --print writes makes the same store, and printing touches nothing.
expect 0 migrate "sqlite:$scratch/printed.db" --print
out_has 'CREATE TABLE posthorn_message'
[[ ! -e $scratch/printed.db ]] || fail "--print must not create the file"
sqlite3 "$scratch/printed.db" <"$scratch/out" >/dev/null
expect 0 migrate "sqlite:$scratch/printed.db"
out_has 'nothing to do'
expect 0 doctor "sqlite:$scratch/printed.db"
expect 0 migrate "$url" --print --json
out_has '{"sql":"'

# Two stores in one file, told apart by their prefix.
expect 0 init "$url?prefix=mail_"
expect 0 enqueue "$url?prefix=mail_" --topic t --payload x
expect 0 stats "$url" --json
[[ $(json_value ready) == 0 ]] || fail "the stores of two prefixes must not mix"

expect 0 enqueue "$url" --topic t --payload x --count 3
expect 0 enqueue "$url" --topic t --payload x --delay 1h
expect 0 stats "$url"
out_matches 'ready +3 .*delayed +1 .*done +0'
expect 0 stats "$url" --json
out_matches '^\{"ready":3,"delayed":1,"retrying":0,"waiting":0,"parked":0,"claimed":0,"done":0,"dead":0,"cancelled":0,"expired":0,"blocked_keys":0,"oldest_ready_seconds":[0-9.e-]+,"exact":(true|false),"pauses":\[\]\}$'

# Retention removes what is finished, and only when its time has come.
"$worker" "$url" acknowledge >/dev/null
expect 0 clean "$url"
out_is 'removed 0 finished messages, 0 dead messages, 0 dedup keys, 0 rows of joins, 0 rows of the inbox, 0 keys of commands, 0 leases and 0 executions of jobs'
expect 0 clean "$url" --keep 0s --json
out_is '{"finished":3,"dead":0,"dedup_keys":0,"join_rows":0,"inbox":0,"command_keys":0,"leases":0,"executions":0}'
expect 0 enqueue "$url" --topic t --payload x
"$worker" "$url" fail >/dev/null
expect 0 clean "$url" --keep 0s
out_has '0 dead messages'
expect 0 clean "$url" --keep-dead 0s
out_has '1 dead message,'
expect 2 clean "$url" --keep 1y
err_has "--keep: '1y' is not a length of time"

# A doctor's warning is no failure, a problem is one.
expect 0 doctor "$url"
out_matches "ok +schema version: $latest"
out_has '0 problems'
expect 0 doctor "$url" --json
out_matches '^\{"problems":0,"warnings":[0-9]+,"findings":\[\{"level":"'
sqlite3 "$scratch/store.db" 'DROP INDEX posthorn_queue_dead'
expect 1 doctor "$url"
out_matches 'problem +indexes: 1 '
expect 1 doctor "$url" --json
[[ $(json_value problems) == 1 ]] || fail "a missing index is one problem"
