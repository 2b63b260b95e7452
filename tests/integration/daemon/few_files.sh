#!/usr/bin/env bash
# A daemon that may have few files says so once, however many messages and connections meet the limit,
# and handles everything all the same.
# Proves: F31, OPS-03
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
expect 0 init "$url"
configure <<END
[daemon]
listen = "127.0.0.1:0"
[[stores]]
name = "shop"
url = "$url"
[[handlers]]
on = "t"
command = ["true"]
END
enqueue --topic t --payload x --count 100
# What is open here stays open in the daemon, and takes its numbers from it.
inherited=0
for number in {3..19}; do
    if [[ -e /proc/self/fd/$number ]]; then inherited=$((inherited + 1)); fi
done
ulimit -Sn $((20 + inherited))
start
ulimit -Sn "$(ulimit -Hn)"
# More connections than files, again and again.
for _ in {1..5}; do
    for _ in {1..30}; do
        (exec 5<>"/dev/tcp/127.0.0.1/$port" && sleep 0.1) 2>/dev/null &
        helpers+=($!)
    done
    wait "${helpers[@]}" || true
    helpers=()
done
until_true count_is 'done' 100
stop
(($(log_count 'no room for another process') <= 1)) || fail "the shortage is told once"
(($(log_count 'cannot accept connections') <= 2)) || fail "and so is that of the port"
(($(wc -l <"$log") < 30)) || fail "the log should stay short: $(wc -l <"$log") lines"
