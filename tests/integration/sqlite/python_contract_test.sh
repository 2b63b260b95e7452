#!/usr/bin/env bash
# Another language itself: Python and the SQLite of its standard library. (It has no driver for the
# servers; their own clients stand for every other language there.)
# Proves: OUT-20, OUT-01, I1
set -euo pipefail
migration=$1 # a program that prints the SQL of the tables
command -v python3 >/dev/null || {
    echo 'failed: this test needs python3' >&2
    exit 1
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$migration" >"$folder/tables.sql"

python3 - "$folder" <<'PYTHON'
import sqlite3
import sys
import uuid

folder = sys.argv[1]
db = sqlite3.connect(folder + "/store.db", isolation_level=None)
with open(folder + "/tables.sql", encoding="utf-8") as tables:
    db.executescript(tables.read())
db.execute("CREATE TABLE orders (customer TEXT)")


def enqueue(**arguments):
    names = ", ".join(arguments)
    marks = ", ".join("?" * len(arguments))
    db.execute(f"INSERT INTO posthorn_enqueue ({names}) VALUES ({marks})", tuple(arguments.values()))


def messages(topic):
    return db.execute(
        "SELECT payload, id FROM posthorn_message WHERE topic = ? ORDER BY seq", (topic,)).fetchall()


# A message exists exactly when its transaction commits.
for customer, end in (("ada", "COMMIT"), ("bob", "ROLLBACK")):
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO orders VALUES (?)", (customer,))
    enqueue(topic="placed", payload=customer)
    db.execute(end)
assert db.execute("SELECT customer FROM orders").fetchall() == [("ada",)]
assert [payload for payload, _ in messages("placed")] == [b"ada"]
assert uuid.UUID(bytes=messages("placed")[0][1]).version == 7

# Python's own types: bytes, text, whole numbers, None.
own = uuid.uuid4()
enqueue(topic="types", payload=bytes(range(256)), priority=-3, ordering_key="Größe", headers=None,
        delay_ms=60_000, id=own.bytes)
assert messages("types") == [(bytes(range(256)), own.bytes)]

# Every payload is stored byte for byte, whichever type carries it; text as UTF-8, also behind a NUL.
for payload, stored in ((b"\x00\xff\xfe", b"\x00\xff\xfe"), (bytearray(b"\xc3\x28"), b"\xc3\x28"),
                        (memoryview(b"\x80"), b"\x80"), ("Größe", "Größe".encode()),
                        ("a\0b", b"a\0b"), ("", b""), (b"", b""), (None, b"")):
    topic = f"payload {uuid.uuid4()}"
    enqueue(topic=topic, payload=payload)
    assert [found for found, _ in messages(topic)] == [stored], (payload, messages(topic))

# A duplicate adds nothing.
for _ in range(3):
    enqueue(topic="once", dedup_key="d")
assert len(messages("once")) == 1

# A refusal is an exception with a reason, and the transaction goes on.
db.execute("BEGIN IMMEDIATE")
for argument, bad in (("topic", None), ("priority", 101), ("priority", 0.5), ("headers", "[]"),
                      ("delay_ms", "soon"), ("id", str(own))):
    try:
        enqueue(**({"topic": "bad"} | {argument: bad}))
        raise AssertionError(f"{argument} = {bad!r} was taken")
    except sqlite3.Error as refused:
        assert str(refused).startswith(f"posthorn: {argument} must"), refused
    assert db.in_transaction
enqueue(topic="good")
db.execute("COMMIT")
assert messages("bad") == [] and len(messages("good")) == 1
PYTHON
