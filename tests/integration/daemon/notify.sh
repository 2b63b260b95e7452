#!/usr/bin/env bash
# The service manager is told when the daemon is ready, reloads and ends; its children are not.
# Proves: OPS-03
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
expect 0 init "$url"
configure <<END
[[stores]]
url = "$url"
[[handlers]]
on = "t"
command = ["sh", "-c", "env >$scratch/env"]
END
# A socket without a place in the file system: paths may be longer than sockets allow.
name="@posthorn-test-$$-$RANDOM"
python3 -u - "$name" "$scratch/told" <<'END' &
import socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
listener.bind("\0" + sys.argv[1][1:])
with open(sys.argv[2], "w") as told:
    while True:
        said = listener.recv(4096).decode()
        told.write(said.replace("\n", "|") + "\n")
        told.flush()
        if said.startswith("STOPPING"):
            break
END
until_true test -e "$scratch/told"
export NOTIFY_SOCKET=$name WATCHDOG_USEC=100000
start
until_true grep -q '^READY=1|STATUS=serving$' "$scratch/told"
until_true grep -q '^WATCHDOG=1$' "$scratch/told"
kill -HUP "$daemon"
until_true grep -qE '^RELOADING=1\|MONOTONIC_USEC=[0-9]+$' "$scratch/told"
until_true eval '[[ $(grep -c ^READY=1 "$scratch/told") == 2 ]]'
enqueue --topic t --payload x
until_true state_is "$id" 'done'
! grep -q NOTIFY_SOCKET "$scratch/env" || fail "handlers cannot speak for the daemon"
stop
until_true grep -q '^STOPPING=1' "$scratch/told"
