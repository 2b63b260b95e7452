#!/usr/bin/env bash
# Keeps the table "requirement → tests that prove it" in docs/requirements.md.
#
#   tools/requirements.sh           rewrites the table
#   tools/requirements.sh --check   fails when the table is not current
#
# A test says what it proves in a comment directly above it, and a shell test anywhere in its file:
#
#   // Proves: OUT-01, I4
#   TEST_P(outbox, a_message_is_delivered_after_its_transaction_commits)
#
#   # Proves: OUT-20
#
# Both modes fail when a test names an id that the document does not define. An id is defined by a
# list item: "- **OUT-01** …".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C

document=docs/requirements.md
begin='<!-- table: begin -->'
end='<!-- table: end -->'

die() {
    printf 'requirements: %s\n' "$1" >&2
    exit "${2:-1}"
}

case ${1:-} in
'' | --check) ;;
*) die "unknown option '$1'; --check is the only one" 2 ;;
esac

[[ -f $document ]] || die "$document does not exist: it defines the ids that tests may prove"
markers=$(awk -v begin="$begin" -v end="$end" \
    '$0 == begin { printf "b" } $0 == end { printf "e" }' "$document")
[[ $markers == be ]] || die "$document must have one line '$begin' and below it one line '$end'"

# Reads the document first and then the tests; prints "prefix number id test" for each proof, tab
# separated, ready to sort in the order people count: OUT-2 before OUT-10.
proofs() {
    local tests=()
    if [[ -d tests ]]; then
        mapfile -d '' tests < <(find tests -type f \
            \( -name '*.cpp' -o -name '*.hpp' -o -name '*.sh' \) -print0 | sort -z)
    fi
    awk -v document="$document" '
    function complain(where, text) {
        print where ": " text > "/dev/stderr"
        bad = 1
    }

    function prove(list, test, where,    ids, n, i, prefix, number) {
        n = split(list, ids, /[ \t]*,[ \t]*/)
        for (i = 1; i <= n; i++) {
            if (!(ids[i] in defined)) {
                complain(where, "\"" ids[i] "\" is not defined in " document)
                continue
            }
            prefix = number = ids[i]
            sub(/[0-9].*$/, "", prefix)
            sub(/^[^0-9]*/, "", number)
            print prefix "\t" number "\t" ids[i] "\t" test
        }
    }

    function claimed_list(text) {
        sub(/^[ \t]*(\/\/|#)[ \t]*Proves:[ \t]*/, "", text)
        sub(/[ \t.]*$/, "", text)
        return text
    }

    function nothing_below() {
        if (claim != "")
            complain(claim_at, "a Proves line with no test directly below it")
        claim = head = ""
    }

    FILENAME == document {
        if (match($0, /^ *- \*\*[A-Z]+-?[0-9]+\*\*/)) {
            id = substr($0, RSTART, RLENGTH)
            gsub(/[-* ]*\*\*/, "", id)
            if (id in defined)
                complain(FILENAME ":" FNR, id " is defined twice")
            defined[id] = 1
        }
        next
    }

    FNR == 1 {
        nothing_below()
        script = FILENAME ~ /\.sh$/
        script_name = FILENAME
        sub(/.*\//, "", script_name)
    }

    script {
        if ($0 ~ /^[ \t]*#[ \t]*Proves:/)
            prove(claimed_list($0), script_name, FILENAME ":" FNR)
        next
    }

    /^[ \t]*\/\/[ \t]*Proves:/ {
        claim = claim (claim == "" ? "" : ",") claimed_list($0)
        claim_at = FILENAME ":" FNR
        next
    }

    # Other comment lines may stand between a claim and its test.
    claim == "" || (head == "" && /^[ \t]*\/\//) { next }

    {
        # The head of a test may be broken over lines; collect it up to its closing parenthesis.
        head = head $0
        if (head !~ /^[ \t]*(TYPED_)?TEST(_F|_P)?[ \t]*\(/) {
            nothing_below()
            next
        }
        if (head !~ /\)/)
            next
        sub(/^[^(]*\([ \t]*/, "", head)
        sub(/[ \t]*\).*/, "", head)
        sub(/[ \t]*,[ \t]*/, ".", head)
        if (head ~ /DISABLED_/)
            complain(FILENAME ":" FNR, "a disabled test proves nothing")
        else
            prove(claim, head, claim_at)
        claim = head = ""
    }

    END {
        nothing_below()
        exit bad
    }' "$document" "${tests[@]}" | sort -u -t $'\t' -k1,1 -k2,2n -k4,4
}

table() {
    printf '| Id | Proved by |\n| --- | --- |\n'
    printf '%s' "$1" | awk -F '\t' '
    $3 != id { if (id != "") print row " |"; id = $3; row = "| " id " | " $4; next }
    { row = row ", " $4 }
    END { if (id != "") print row " |" }'
}

list=$(proofs) || die "the lines above must be put right first"
list+=${list:+$'\n'}
rows=$(table "$list")

current() {
    awk -v begin="$begin" -v end="$end" '\
        $0 == end { on = 0 } on; $0 == begin { on = 1 }' "$document"
}

if [[ ${1:-} == --check ]]; then
    difference=$(diff <(current) <(printf '%s\n' "$rows")) || {
        printf '%s\n' "$difference" >&2
        die "the table in $document is not current (< has, > should have): run $0"
    }
else
    # Above the table, the table, below the table; held in memory so that no half file is written.
    text=$(awk -v begin="$begin" '{ print } $0 == begin { exit }' "$document"
        printf '%s\n' "$rows"
        awk -v end="$end" '$0 == end { on = 1 } on' "$document")
    printf '%s\n' "$text" >"$document"
fi

defined=$(grep -cE '^ *- \*\*[A-Z]+-?[0-9]+\*\*' "$document") || true
proved=$(printf '%s' "$list" | cut -f 3 | sort -u | wc -l)
printf 'requirements: ok, %d of %d ids are proved by a test\n' "$proved" "$defined"
