#!/usr/bin/env bash
# Private clusters of three brokers, for tests that kill one of them. Each node is a server as
# tools/servers.sh starts it.
#
#   tools/clusters.sh NAME start DIR          three nodes that know each other
#   tools/clusters.sh NAME urls DIR           where they are, with commas between
#   tools/clusters.sh NAME kill DIR NODE      a crash of node 1, 2 or 3
#   tools/clusters.sh NAME revive DIR NODE    starts it again, with its data and its port
#   tools/clusters.sh NAME stop DIR           ends all of them and removes their data
#
# NAME is rabbitmq or nats.
#
# DIR receives node-1, node-2 and node-3, as tools/servers.sh describes them.
set -euo pipefail

servers=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/servers.sh
ports=${POSTHORN_TEST_PORTS:-20000-32000}
nodes=(1 2 3)

# ----------------------------------------------------------------------------------- the clusters

# NAME_prepare writes what each node is started with; NAME_begin and NAME_end are for what they
# share; NAME_url is how tests reach one.

rabbitmq_prepare() {
    local node options=('cluster_formation.peer_discovery_backend = classic_config')
    local secret=$RANDOM$RANDOM$RANDOM family=$RANDOM$RANDOM
    free_port >"$dir/epmd.port"
    for node in "${nodes[@]}"; do
        options+=("cluster_formation.classic_config.nodes.$node = posthorn-$family-$node@localhost")
    done
    for node in "${nodes[@]}"; do
        printf 'export POSTHORN_TEST_RABBITMQ_%s\n' "NODE=posthorn-$family-$node@localhost" \
            "COOKIE=$secret" "EPMD=$(<"$dir/epmd.port")" >"$dir/node-$node/settings"
        printf '%s\n' "${options[@]}" >"$dir/node-$node/options"
    done
}
# The daemon through which the nodes find each other must outlive each of them.
rabbitmq_begin() {
    ERL_EPMD_ADDRESS=127.0.0.1 ERL_EPMD_PORT=$(<"$dir/epmd.port") \
        setsid epmd </dev/null >"$dir/epmd.log" 2>&1 &
    printf '%s\n' "$!" >"$dir/epmd.pid"
}
rabbitmq_end() {
    local pid
    [[ -e $dir/epmd.pid ]] || return 0
    pid=$(<"$dir/epmd.pid")
    # Its number alone is no proof: numbers are used again.
    if [[ $(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline") == epmd* ]]; then kill "$pid"; fi
    rm -f "$dir/epmd.pid"
}
rabbitmq_url() { printf 'amqp://guest:guest@127.0.0.1:%s' "$1"; }

nats_prepare() {
    local node routes=() port name=posthorn-$RANDOM$RANDOM
    for node in "${nodes[@]}"; do
        routes+=("nats://127.0.0.1:$(free_port)")
    done
    for node in "${nodes[@]}"; do
        : >"$dir/node-$node/settings" # there are none
        printf '%s\n' -n "node-$node" -cluster_name "$name" -cluster "${routes[node - 1]}" \
            -routes "$(IFS=, && printf %s "${routes[*]}")" >"$dir/node-$node/options"
    done
}
nats_begin() { :; }
nats_end() { :; }
nats_url() { printf 'nats://127.0.0.1:%s' "$1"; }

# ----------------------------------------------------------------------------------------- verbs

start_cluster() {
    local node pids=() failed=0
    for node in "${nodes[@]}"; do mkdir -p "$dir/node-$node"; done
    "${name}_prepare"
    "${name}_begin"
    for node in "${nodes[@]}"; do
        revive_node "$node" &
        pids+=($!)
    done
    for node in "${pids[@]}"; do wait "$node" || failed=1; done
    if ((failed)); then
        stop_cluster
        die "the cluster does not start: see $dir/node-*/$name.log"
    fi
}

urls_of_cluster() {
    local node result=()
    for node in "${nodes[@]}"; do result+=("$("${name}_url" "$(<"$dir/node-$node/$name.port")")"); done
    (IFS=, && printf '%s\n' "${result[*]}")
}

# Nodes that start at the same time have no port in common.
ports_of_node() {
    local first=${ports%-*} last=${ports#*-} share
    share=$(((last - first + 1) / ${#nodes[@]}))
    printf '%s-%s' $((first + share * ($1 - 1))) $((first + share * $1 - 1))
}

revive_node() {
    local options
    mapfile -t options <"$dir/node-$1/options"
    source "$dir/node-$1/settings"
    POSTHORN_TEST_PORTS=$(ports_of_node "$1") "$servers" "$name" start "$dir/node-$1" "${options[@]}"
}

kill_node() { "$servers" "$name" kill "$dir/node-$1"; }

stop_cluster() {
    local node
    for node in "${nodes[@]}"; do
        [[ ! -d $dir/node-$node ]] || "$servers" "$name" stop "$dir/node-$node"
    done
    "${name}_end"
}

# ----------------------------------------------------------------------------------------- steps

free_port() {
    local first=${ports%-*} last=${ports#*-} port
    while :; do
        port=$((first + (RANDOM * 32768 + RANDOM) % (last - first + 1)))
        { exec 3<>"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null || break # nobody listens there
        exec 3>&-
    done
    printf %s "$port"
}

die() {
    printf 'clusters: %s\n' "$1" >&2
    exit 1
}

usage() {
    sed -n 's/^#   //p' "${BASH_SOURCE[0]}" >&2
    exit 2
}

name=${1:-} verb=${2:-} dir=${3:-} node=${4:-}
[[ $name =~ ^(rabbitmq|nats)$ && -n $dir ]] || usage
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
case $verb in
start) start_cluster ;;
urls) urls_of_cluster ;;
stop) stop_cluster ;;
kill | revive) [[ $node =~ ^[123]$ ]] && "${verb}_node" "$node" || usage ;;
*) usage ;;
esac
