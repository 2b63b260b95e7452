#!/usr/bin/env bash
# The code in the guides is code that compiles and runs: every ```cpp block of the guides must occur
# in a file of examples/guides, line for line (indentation and empty lines aside).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

LC_ALL=C awk '
function trimmed(line) {
    sub(/^[ \t]+/, "", line)
    sub(/[ \t]+$/, "", line)
    return line
}

FNR == 1 { inside = 0 }

# First the sources: each becomes one long text.
FILENAME ~ /\.cpp$/ {
    if (trimmed($0) != "")
        source[FILENAME] = source[FILENAME] "\n" trimmed($0)
    next
}

# Then the guides.
/^```cpp$/ {
    inside = FNR
    block = ""
    next
}
/^```/ && inside {
    found = 0
    for (file in source)
        if (index(source[file] "\n", block "\n"))
            found = 1
    if (!found || block == "") {
        print FILENAME ":" inside ": this code is in no file of examples/guides"
        complaints++
    }
    blocks++
    inside = 0
    next
}
inside && trimmed($0) != "" { block = block "\n" trimmed($0) }

END {
    if (complaints || !blocks) {
        print "guides: " (blocks ? complaints " of " blocks : "no") " blocks of code are not checked"
        exit 1
    }
    print "guides: " blocks " blocks of code, all of them compiled"
}
' examples/guides/*.cpp docs/guides/*.md docs/testing.md
