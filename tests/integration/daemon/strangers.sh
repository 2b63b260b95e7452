#!/usr/bin/env bash
# Whoever reaches the daemon's port cannot make it take memory or files without end, nor keep it from
# ending.
# Proves: OPS-04
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
start
python3 "$here/strangers.py" "$port" "$daemon" || fail "strangers cost too much"

# One who sends a byte now and then does not hold up the end.
exec 6<>"/dev/tcp/127.0.0.1/$port"
printf 'GET /metrics HTTP/1.1\r\nX: ' >&6
(while printf x >&6; do sleep 0.2; done) 2>/dev/null &
dripping=$!
began=$SECONDS
stop
((SECONDS - began < 5)) || fail "the end took $((SECONDS - began)) seconds"
exec 6>&-
wait "$dripping" || true
