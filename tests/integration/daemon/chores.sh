#!/usr/bin/env bash
# Beside handling messages: jobs are put into stores and run, and old rows are removed by one of
# several daemons.
# Proves: OPS-03
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
expect 0 init "$url"
configure <<END
[daemon]
name = "clock"
listen = "127.0.0.1:0"
[[stores]]
name = "shop"
url = "$url"
[[stores]]
url = "sqlite:$scratch/later-*.db"
[[handlers]]
on = "tick"
command = ["sh", "-c", "cat >>$scratch/ticks; printenv POSTHORN_HEADER_LANG >>$scratch/ticks"]
[[schedules]]
name = "ticks"
every = "1s"
topic = "tick"
payload = "tick "
headers = { lang = "de" }
[[schedules]]
name = "elsewhere"
every = "1s"
topic = "tick"
store = "another"
[[schedules]]
name = "yearly"
cron = "@yearly"
zone = "Europe/Vienna"
topic = "tick"
misfire = "skip"
overlap = "queue"
[retention]
every = "1s"
keep = "0s"
keep_dead = "90d"
END
expect 0 serve --config "$config" --check --json
out_matches '"name":"yearly","store":null,"topic":"tick","times":"@yearly in Europe/Vienna","next_at":"20[0-9-]+T23:00:00'
start
touch "$scratch/ticks"
until_true eval '(($(grep -c "tick de" "$scratch/ticks") >= 2))'
expect 0 jobs list "$url" --json
out_has '"name":"ticks"'
out_matches '"name":"yearly".*"misfire":"skip","overlap":"queue"'
out_lacks elsewhere
# What is done is gone soon, and it was this daemon that removed it.
until_true metric_is 'posthorn_retention_removed_total [1-9][0-9]*'
expect 0 leases list "$url" --json
out_has '"name":"posthorn.retention"'
out_has '"holder":"clock"'
stop
log_has 'old rows were removed store=shop' || fail "the log says so"
# The same file once more changes nothing.
start
until_true metric_is 'posthorn_deliveries_started_total\{topic="tick"\} [1-9][0-9]*'
stop
log_lacks 'a job was' || fail "the jobs were there already"

# Two daemons: what one of them has cleaned not long ago, the other does not clean again.
# another NAME: its own file and log.
another() {
    log=$scratch/log-$1 config=$scratch/$1.toml
    configure <<END
[daemon]
name = "$1"
listen = "127.0.0.1:0"
[[stores]]
name = "shop"
url = "$url"
[[handlers]]
on = "from-$1"
command = ["true"]
[retention]
every = "1h"
keep = "0s"
END
    start
}
url=sqlite:$scratch/shared.db
expect 0 init "$url"
# finish NAME COUNT: messages that this one handles.
finish() {
    expect 0 enqueue "$url" --topic "from-$1" --payload x --count "$2"
    until_true metric_is "posthorn_deliveries_settled_total\\{topic=\"from-$1\",outcome=\"done\"\\} $2"
}
expect 0 enqueue "$url" --topic old --payload x --count 5
expect 0 work "$url" --until-empty --on old -- true
another first
until_true log_has 'old rows were removed store=shop rows=5'
finish first 3
helpers+=("$daemon")
first=$daemon
another second
finish second 4
metric_is 'posthorn_retention_removed_total 0' || fail "it was done not long ago, by the first"
count_is done 7 || fail "what is done since then is there until it is done again"
expect 0 leases list "$url" --json
out_has '"holder":"first"'
log_lacks 'old rows were removed' || fail "the second has removed nothing"
stop
kill -TERM "$first"
wait "$first" || fail "the first ends as it should"
