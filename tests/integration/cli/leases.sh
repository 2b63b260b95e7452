#!/usr/bin/env bash
# Leases on the command line: who holds what, and taking it away.
# Proves: OPS-01, LSE-01
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
expect 0 init "$url"
expect 0 leases list "$url"
err_has 'no leases'
expect 0 leases list "$url" --json
out_is '{"leases":[],"next_after":null}'
expect 1 leases release "$url" reindex
out_is 'nobody has the lease'

# Held until this line is closed.
coproc holder { exec "$worker" "$url" lease reindex worker-1; }
read -r fence <&"${holder[0]}"
((fence > 0)) || fail "the holder has no fence"

expect 0 leases list "$url"
out_matches "reindex +held +$fence +worker-1 +[0-9]+"
expect 0 leases list "$url" --held --json
out_has "{\"leases\":[{\"name\":\"reindex\",\"held\":true,\"holder\":\"worker-1\",\"fence\":$fence,\"length_seconds\":3600.0,\"left_seconds\":"
expect 0 leases list "$url" --limit 1 --json
[[ $(json_value next_after) == reindex ]] || fail "the next page starts behind the last name"
expect 0 leases list "$url" --after reindex --json
out_is '{"leases":[],"next_after":null}'

expect 1 leases release "$url" reindex --fence $((fence + 1)) --json
out_is '{"name":"reindex","released":false,"fence":null}'
expect 0 leases release "$url" reindex --fence "$fence"
out_is "released: its holder had the fence $fence"
expect 1 leases release "$url" reindex
out_is 'nobody has the lease'
expect 0 leases list "$url"
out_matches "reindex +free +$fence"
expect 0 leases list "$url" --held
err_has 'no leases'
expect 0 doctor "$url"
out_matches 'fences +ok|ok +fences'

exec {holder[1]}>&-
wait "$holder_PID"
expect 2 leases release "$url" ''
expect 2 leases release "$url"
expect 2 leases list "$url" --limit 0
