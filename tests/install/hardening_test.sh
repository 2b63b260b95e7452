#!/usr/bin/env bash
# What users get is compiled and linked with the protections that POSTHORN_HARDENING promises: this
# reads the programs themselves, since a flag that a build forgets shows nowhere else.
# Proves: OPS-08
set -euo pipefail
export LC_ALL=C

fail() {
    printf 'failed: %s\n' "$1" >&2
    exit 1
}
(($#)) || fail 'it needs programs to read'
code=$(mktemp)
trap 'rm -f "$code"' EXIT

# shows TEXT PATTERN WHAT
shows() { grep -Eq -- "$2" <<<"$1" || fail "$program: $3"; }

read_program() {
    local header dynamic segments symbols machine
    header=$(readelf -hW "$program")
    dynamic=$(readelf -dW "$program")
    segments=$(readelf -lW "$program")
    symbols=$(readelf --dyn-syms -W "$program")
    machine=$(sed -n 's/^ *Machine: *//p' <<<"$header")

    shows "$header" 'Type: +DYN' 'it is loaded at the same address each time'
    shows "$dynamic" 'FLAGS_1.* PIE' 'it is a library, not a program that can be loaded anywhere'
    shows "$segments" '^ *GNU_RELRO ' 'the tables of the linker stay writable'
    shows "$dynamic" '(BIND_NOW|FLAGS.* NOW)' 'functions are looked up late, so their table stays writable'
    shows "$segments" '^ *GNU_STACK .* RW +0x' 'the stack can be executed'
    shows "$symbols" ' __stack_chk_fail@' 'nothing looks after the return addresses'
    shows "$symbols" ' __(mem|str|v?s?n?printf|v?fprintf|read|recv|fd)[a-z]*_chk@' 'copies are not checked'
    [[ $machine == *X86-64* ]] || return 0
    # The file is marked only where the C library's start files are as well, so this looks at the code.
    # A large frame touches each page, so that it cannot step over the guard below the stack.
    objdump -d --no-show-raw-insn "$program" >"$code"
    (($(grep -c 'endbr64' "$code") > 1000)) || fail "$program: jumps may lead anywhere"
    grep -Eq 'orq? +\$0x0,(0x[0-9a-f]+)?\(%rsp' "$code" ||
        fail "$program: large frames step over the guard of the stack"
}

for program; do
    read_program
    echo "$(basename "$program") is protected"
done
