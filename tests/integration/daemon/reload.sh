#!/usr/bin/env bash
# SIGHUP: handlers, stores and jobs change while messages flow; nothing is lost, nothing is handled
# twice, and a file that is wrong changes nothing.
# Proves: OPS-03
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
expect 0 init "$url"
second=sqlite:$scratch/second.db
expect 0 init "$second"

# configuration NUMBER [MORE]
configuration() {
    configure <<END
[daemon]
listen = "127.0.0.1:0"
concurrency = 4
[[stores]]
name = "first"
url = "$url"
[[handlers]]
on = "t"
command = ["sh", "-c", "echo \"\$POSTHORN_ID $1\" >>$scratch/handled; sleep 0.02"]
${2:-}
END
}
configuration 0
start
first_port=$port
# Messages come while the file changes ten times.
(
    for _ in {1..20}; do
        "$posthorn" enqueue "$url" --topic t --payload x --count 20 >/dev/null 2>&1
    done
) &
feeding=$!
# So does somebody who looks.
python3 -c 'import sys, urllib.request
while True: urllib.request.urlopen(sys.argv[1]).read()' "http://127.0.0.1:$port/metrics" 2>/dev/null &
looking=$!
helpers+=("$looking")
for i in {1..10}; do
    configuration "$i"
    reload
done
wait "$feeding"
kill -0 "$looking" || fail "whoever looked was always answered"
kill -9 "$looking"
wait "$looking" 2>/dev/null || true
until_true count_is done 400
[[ $(log_count 'was read again') == 10 ]] || fail "ten times it was read again"
[[ $(cut -d ' ' -f 1 "$scratch/handled" | sort -u | wc -l) == 400 ]] || fail "each message was handled"
[[ $(wc -l <"$scratch/handled") == 400 ]] || fail "each message was handled once"
(($(cut -d ' ' -f 2 "$scratch/handled" | sort -u | wc -l) > 1)) || fail "the handler changed on the way"
port=$first_port
metric_is 'posthorn_reloads_total\{answer="done"\} 10' || fail "reloads are counted, where they were before"

# What a handler has in hand when the file changes is finished by the old one.
configuration slow
sed -i "s/sleep 0.02/until test -e \\/proc\\/self \&\& test -e ${scratch//\//\\/}\\/go; do sleep 0.05; done/" "$config"
reload
rm -f "$scratch/handled"
enqueue --topic t --payload x
held=$id
until_true grep -qs slow "$scratch/handled"
configuration quick
reload
enqueue --topic t --payload x
until_true state_is "$id" 'done'
state_is "$held" claimed || fail "the old handler has it still"
touch "$scratch/go"
until_true state_is "$held" 'done'
[[ $(grep -c "$held" "$scratch/handled") == 1 ]] || fail "it was not started again"

# A broken file changes nothing, and all that is wrong is logged.
cp "$config" "$scratch/good"
printf '[daemon]\nnonsense = 1\n[[stores]]\nurl = 3\n' >"$config"
reload
log_has 'posthorn.toml:2:1: daemon.nonsense' || fail "the first problem is logged"
log_has 'posthorn.toml:4:7: stores[0].url' || fail "and the second"
metric_is 'posthorn_reloads_total\{answer="refused"\} 1' || fail "it is counted"
enqueue --topic t --payload x
until_true state_is "$id" 'done'

# A store and a job more; then both go, and the job stays in its store unless it is to be pruned.
configuration more "[[stores]]
name = \"second\"
url = \"$second\"
[[schedules]]
name = \"nightly\"
cron = \"30 2 * * *\"
zone = \"Europe/Vienna\"
topic = \"t\"
payload = \"night\""
reload
until_true log_has 'a job was created job=nightly store=first'
until_true log_has 'a job was created job=nightly store=second'
enqueue_second=$("$posthorn" enqueue "$second" --topic t --payload x)
until_true eval '[[ $(state_of "$enqueue_second" "$second") == done ]]'
expect 0 jobs add "$url" other --topic t --every 1h
configuration less
reload
expect 0 jobs list "$url" --json
out_has '"name":"nightly"'
late=$("$posthorn" enqueue "$second" --topic t --payload x)
sed -i 's/concurrency = 4/concurrency = 4\nprune_jobs = true/' "$config"
reload
until_true log_has 'a job was deleted job=nightly store=first'
expect 0 jobs list "$url" --json
out_has '"name":"other"'
out_lacks nightly
[[ $(state_of "$late" "$second") == ready ]] || fail "a store that is not listed is not served"
stop

all_jobs() { "$posthorn" jobs list "$url" --json | tr '{' '\n'; }
# The jobs of a new file come after those of the old one, also when a store keeps the old one waiting.
# jobs CRON: twenty of them.
jobs() {
    configuration jobs
    sed -i "s#^url = .*#url = \"$url?busy_timeout=50s\"#" "$config"
    local i
    for i in {1..20}; do
        printf '[[schedules]]\nname = "job-%d"\ncron = "%s"\ntopic = "t"\n' "$i" "$1" >>"$config"
    done
}
enqueue --topic t --payload x # that it cannot be claimed shows that the store keeps everybody waiting
exec 7> >(exec sqlite3 "${url#sqlite:}" >/dev/null)
helpers+=($!)
echo "BEGIN IMMEDIATE; SELECT 1;
.shell touch $scratch/locked" >&7
until_true test -e "$scratch/locked"
jobs '0 1 * * *'
start
until_true eval 'get /readyz; [[ $body == *hanging* ]]'
jobs '0 2 * * *'
reload
echo 'ROLLBACK;' >&7
exec 7>&-
until_true eval '(($(all_jobs | grep -c "0 2 \* \* \*") == 20))'
stop
(($(all_jobs | grep -c "0 2 \* \* \*") == 20)) || fail "the old jobs came back"
