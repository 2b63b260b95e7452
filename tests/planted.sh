#!/usr/bin/env bash
# Plants known bugs of other systems into a build of its own, one after the other, and sees that the
# tests of joins fail for each: tests that cannot fail show nothing.
#
#   tests/planted.sh FILTER [BUG…]
#
# FILTER is for googletest: which tests run (all but the slow ones of servers, say). Needs the
# servers of tools/servers.sh unless it leaves them out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
filter=${1:-'*sqlite*'}
bugs=("${@:2}")
((${#bugs[@]})) || bugs=(2 3 4 5 25)
missed=0
for bug in 0 "${bugs[@]}"; do
    build=build/planted
    cmake --preset dev -B "$build" -DPOSTHORN_PLANT_BUG="$bug" -DPOSTHORN_BUILD_EXAMPLES=OFF >/dev/null
    ninja -C "$build" joins >"$build/log" || { tail -20 "$build/log"; exit 1; }
    status=0
    "$build/tests/joins/joins" --gtest_brief=1 --gtest_filter="$filter" >"$build/log" 2>&1 || status=$?
    failed=$(grep -c '^\[  FAILED  \].*ms)$' "$build/log" || true)
    if ((bug == 0 && status != 0)); then
        echo "without a bug the tests fail:"
        tail -20 "$build/log"
        exit 1
    elif ((bug == 0)); then
        echo "without a bug: all pass"
    elif ((status == 0)); then
        echo "bug $bug: NOT FOUND"
        missed=1
    else
        echo "bug $bug: found by $failed tests"
    fi
done
exit "$missed"
