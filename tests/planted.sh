#!/usr/bin/env bash
# Plants known bugs of other systems, one at a time, and sees that the tests of what they break go
# red: tests that cannot fail show nothing.
#
#   tests/planted.sh FILTER [BUG…]
#
# FILTER is for googletest: which tests of stores run (all but the slow ones of servers, say). Needs
# the servers of tools/servers.sh unless it leaves them out, NATS for bugs 27 and 28, RabbitMQ for
# 29.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
filter=${1:-'*sqlite*'}
bugs=("${@:2}")
((${#bugs[@]})) || bugs=(2 3 4 5 6 7 9 25 27 28 29 30 31 33 38 39 40 41)

# suite_of BUG: the program whose tests must notice, below the folder of tests.
suite_of() {
    case $1 in
    6 | 7 | 9 | 31) echo leases/leases ;;
    27 | 28) echo transport/nats/nats_transport_test ;;
    29) echo transport/rabbitmq/rabbitmq_transport ;;
    30) echo transport/kafka/kafka_transport ;;
    33 | 38 | 39 | 40 | 41) echo inbox/inbox ;;
    *) echo joins/joins ;;
    esac
}

# run_with BUG SUITE: builds and runs; how it ended is in $status, what failed in $failed.
run_with() {
    local build=build/planted tests=$filter
    [[ $2 == transport/* ]] && tests='*refused*:*reject*' # each has one broker, and most of its tests are slow
    cmake --preset dev -B "$build" -DPOSTHORN_PLANT_BUG="$1" -DPOSTHORN_BUILD_EXAMPLES=OFF >/dev/null
    ninja -C "$build" "${2##*/}" >"$build/log" || { tail -20 "$build/log"; exit 1; }
    status=0
    "$build/tests/$2" --gtest_brief=1 --gtest_filter="$tests" >"$build/log" 2>&1 || status=$?
    failed=$(grep -c '^\[  FAILED  \].*ms)$' "$build/log" || true)
}

missed=0
for suite in $(for bug in "${bugs[@]}"; do suite_of "$bug"; done | sort -u); do
    run_with 0 "$suite"
    if ((status != 0)); then
        echo "without a bug the tests of ${suite##*/} fail:"
        tail -20 build/planted/log
        exit 1
    fi
    echo "${suite##*/} without a bug: all pass"
done
for bug in "${bugs[@]}"; do
    suite=$(suite_of "$bug")
    run_with "$bug" "$suite"
    if ((status == 0)); then
        echo "bug $bug: NOT FOUND"
        missed=1
    else
        echo "bug $bug: found by $failed tests of ${suite##*/}"
    fi
done
exit "$missed"
