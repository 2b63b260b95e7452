#!/usr/bin/env bash
# The style test: what a reviewer should never have to say twice. Prints file:line messages and
# fails, or prints "tidy: ok". It needs nothing but bash, find and any awk, so that it can run
# before a compiler is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Who may read a clock, sleep or draw randomness. Everyone else gets an environment handed in, or a
# test could not steer it. One line per file: path (with *), then the reason.
allowed_time='
src/core/environment*.cpp   the real environment: the one place where time and chance come in
'

# Which folders of src a folder must not include: dependencies point downwards only. A public header
# of an engine or a transport counts as its folder.
components='outbox|inbox|joins|leases|schedules|idempotency|unit_of_work'
engines='sqlite|postgres|mariadb'
transports='rabbitmq|kafka|nats|redis|webhook'
top='relay/|feeds/|endpoint/|app/'
forbidden_includes="
core                store/|($components)/|runtime/|transport/|http/|$top
http                store/|($components)/|runtime/|transport/|$top
store               ($components)/|runtime/|transport/|http/|$top
($components)       store/($engines)/|runtime/|transport/|http/|$top
transport           store/($engines)/|runtime/|http/|$top
runtime             store/($engines)/|http/|$top
(relay|feeds)       store/($engines)/|http/|endpoint/|app/
endpoint            store/($engines)/|runtime/|relay/|app/
"

# What a user of the public headers must not need.
client_libraries='sqlite3|libpq|mysql|mariadb|nlohmann|fmt|CLI|curl|hiredis|librdkafka|amqp|httplib|openssl'

header_lines_max=400
source_lines_max=600
columns_max=100

mapfile -d '' files < <(find . \( -name build -o -name .git -o -name node_modules \) -prune -o \
    -type f \( -name '*.hpp' -o -name '*.cpp' -o -name '*.h' -o -name '*.sql' -o -name '*.sh' \
    -o -name '*.cmake' -o -name '*.md' -o -name '*.json' -o -name '*.html' -o -name '*.css' \
    -o -name '*.js' -o -name CMakeLists.txt -o -path ./dev -o -path ./.ci/run \) -print0 | sort -z)

LC_ALL=C awk -v allowed_time="$allowed_time" -v forbidden_includes="$forbidden_includes" \
    -v client_libraries="$client_libraries" -v engines="$engines" -v transports="$transports" \
    -v header_lines_max="$header_lines_max" -v source_lines_max="$source_lines_max" \
    -v columns_max="$columns_max" '
function complain(line, text) {
    print path ":" line ": " text
    complaints++
}

# One character is one column: in UTF-8 every byte but a continuation byte starts one.
function columns(text) {
    gsub(/[\200-\277]/, "", text)
    return length(text)
}

function finish_file() {
    if (header && lines > header_lines_max)
        complain(lines, "a header of more than " header_lines_max " lines: split it by concept")
    if (source && lines > source_lines_max)
        complain(lines, "a source of more than " source_lines_max " lines: split it by idea")
}

function start_file() {
    path = substr(FILENAME, 3)
    folder = path
    sub(/[^\/]*$/, "", folder)
    header = path ~ /\.hpp$/
    source = path ~ /\.cpp$/
    cpp = header || source
    cmake_tests = path ~ /^tests\/(.*\/)?CMakeLists\.txt$/
    checks_words = path !~ /\.(md|json)$/ && path != "tools/tidy.sh"
    may_use_time = path ~ allowed
    public_header = path ~ /^include\/posthorn\// && path != "include/posthorn/json.hpp" # only who asks for JSON
    catch_tail = ""
    catch_line = 0

    layer = ""
    if (path ~ /^src\//) {
        layer = substr(path, 5)
        sub(/\/.*/, "", layer)
        if (cpp && $0 !~ /^\/\//)
            complain(1, "line 1 must be a // comment: the idea of this file")
    }
    if (path ~ /^tests\// && source)
        unregistered[path] = 1
}

# An empty catch may span lines: collect what follows until it shows what it is.
function look_for_empty_catch(    tail) {
    if (!catch_line && match($0, /catch *\( *\.\.\. *\)/)) {
        catch_line = FNR
        catch_tail = substr($0, RSTART + RLENGTH)
    } else if (catch_line) {
        catch_tail = catch_tail $0
    }
    if (!catch_line)
        return
    tail = catch_tail
    gsub(/[ \t]/, "", tail)
    if (tail == "" || tail == "{")
        return
    if (tail ~ /^\{\}/)
        complain(catch_line, "an empty catch (...): handle it, or say in the body why not")
    catch_line = 0
}

function look_at_include(    target, written, i) {
    target = $0
    sub(/^ *# *include *["<]/, "", target)
    sub(/[">].*/, "", target)
    written = target
    if (public_header && target ~ "^(" client_libraries ")(/|[-_a-z0-9]*\\.h)")
        complain(FNR, "a public header must not include a client library: " target)
    if (target ~ /^\.\.?\//)
        complain(FNR, "include by the path from src, not relative: " target)
    if (target ~ "^posthorn/(" engines ")\\.hpp$")
        sub(/^posthorn\//, "store/", target)
    else if (target ~ "^posthorn/(" transports ")\\.hpp$")
        sub(/^posthorn\//, "transport/", target)
    sub(/\.hpp$/, "/", target)
    for (i = 1; i <= rules; i++)
        if (layer ~ rule_layer[i] && target ~ rule_target[i])
            complain(FNR, "src/" layer " must not include " written ": that points upwards")
}

BEGIN {
    # "glob reason" lines become one pattern of paths.
    n = split(allowed_time, rows, "\n")
    for (i = 1; i <= n; i++) {
        if (split(rows[i], words, / +/) < 2)
            continue
        glob = words[1]
        gsub(/\./, "\\.", glob)
        gsub(/\*/, "[^/]*", glob)
        allowed = allowed (allowed == "" ? "" : "|") glob
    }
    allowed = "^(" allowed ")$"

    n = split(forbidden_includes, rows, "\n")
    for (i = 1; i <= n; i++)
        if (split(rows[i], words, / +/) == 2) {
            rules++
            rule_layer[rules] = "^(" words[1] ")$"
            rule_target[rules] = "^(" words[2] ")"
        }
}

FNR == 1 {
    finish_file()
    start_file()
}

{ lines = FNR }

/\t/ { complain(FNR, "a tab") }
/[ \t\r]$/ { complain(FNR, "white space at the end of the line") }

checks_words && /(^|[^A-Za-z0-9_])(TODO|FIXME|XXX)([^A-Za-z0-9_]|$)/ {
    complain(FNR, "an unfinished note: finish it, or write it down where work is planned")
}

# Names of files in the build description of the tests, relative to where they are written.
cmake_tests {
    text = $0
    sub(/#.*/, "", text)
    n = split(text, words, /[ \t()";]+/)
    for (i = 1; i <= n; i++) {
        sub(/^\$\{CMAKE_CURRENT_(SOURCE|LIST)_DIR\}\//, "", words[i])
        if (words[i] ~ /\.(cpp|sh)$/)
            registered[folder words[i]] = 1
    }
}

# A script that claims to prove something must run, too.
/^# Proves:/ && path ~ /^tests\/.*\.sh$/ { unregistered[path] = 1 }

!cpp { next }

length($0) > columns_max && columns($0) > columns_max {
    complain(FNR, "more than " columns_max " columns: " columns($0))
}

/^ *# *include/ {
    look_at_include()
    next
}

{ look_for_empty_catch() }

{
    code = $0
    if (index(code, "//"))
        sub(/\/\/.*/, "", code)
}

!may_use_time && code ~ /system_clock::now|sleep_for|sleep_until|random_device/ {
    complain(FNR, "time and chance come from the environment that is handed in")
}
code ~ /if *\([^;]*dialect[a-z_]*(\(\))? *[!=]=/ {
    complain(FNR, "a question for the dialect: what differs belongs into its store")
}
code ~ /\+ *" *(WHERE|AND|OR|ORDER BY|LIMIT) / || code ~ /\+ *" *WHERE/ {
    complain(FNR, "SQL put together from pieces: name the statement in a .sql file")
}

END {
    finish_file()
    for (file in unregistered)
        if (!(file in registered)) {
            print file ":1: no CMakeLists.txt of the tests mentions this file, so it never runs"
            complaints++
        }
    if (complaints) {
        print "tidy: " complaints (complaints == 1 ? " complaint" : " complaints")
        exit 1
    }
    print "tidy: ok"
}
' "${files[@]}"
