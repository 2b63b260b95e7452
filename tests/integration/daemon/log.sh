#!/usr/bin/env bash
# The log: one line per event in both forms, escaped once, numbers as numbers, and counted by level.
# log.py reads each line as a program would.
# Proves: OPS-03, OPS-04
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
expect 0 init "$url"
cat >"$scratch/handler" <<'END'
printf 'say "no"\n\033[31mtwice=2\n'
printf 'a\\b\n' >&2
exit 3
END

for form in text json; do
    configure <<END
[daemon]
log = "$form"
log_level = "debug"
listen = "127.0.0.1:0"
attempts = 2
backoff = "50ms"

[[stores]]
name = "shop"
url = "$url"

[[handlers]]
on = "bad*"
command = ["sh", "$scratch/handler"]
END
    start
    enqueue --topic 'bad "one" \' --payload x
    bad=$id
    until_true state_is "$bad" dead
    until_true log_has "a message is dead"
    # Nothing more is to be said by now but that it ends.
    get /metrics
    printf '%s\n' "$body" >"$scratch/metrics"
    stop
    sed -i '/ending what is in hand/d' "$log"
    python3 "$here/log.py" "$form" "$bad" "$scratch/metrics" <"$log" >"$scratch/verdict" 2>&1 ||
        { err=$(<"$log") && fail "$form: $(<"$scratch/verdict")"; }
done
