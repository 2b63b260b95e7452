-- The inbox, and keys of commands.

-- What came from outside: (source, id) is known for as long as its row is kept.
-- state: 0 seen · 1 somebody outside the queue is at it · 2 done · 3 dead
-- The message that carries it has a row in join_member with role 3 and number 0, until it is done.
CREATE TABLE {p}inbox (
    number       INTEGER PRIMARY KEY,
    source       TEXT    NOT NULL,
    id           TEXT    NOT NULL,
    state        INTEGER NOT NULL,
    seq          INTEGER,
    message      BLOB,
    content_hash TEXT,
    seen_at      INTEGER NOT NULL,
    settled_at   INTEGER
) STRICT;
CREATE UNIQUE INDEX {p}inbox_id    ON {p}inbox (source, id);
CREATE INDEX        {p}inbox_seq   ON {p}inbox (seq) WHERE seq IS NOT NULL;
CREATE INDEX        {p}inbox_state ON {p}inbox (state, number) WHERE state <> 2;
CREATE INDEX        {p}inbox_done  ON {p}inbox (settled_at) WHERE state = 2;

-- state: 0 in progress · 1 completed · 2 failed
-- `token` is of one reservation: who has it may complete it. `epoch` counts reservations, for people.
CREATE TABLE {p}command_key (
    command     TEXT    NOT NULL,
    request_key TEXT    NOT NULL,
    fingerprint TEXT    NOT NULL,
    state       INTEGER NOT NULL,
    epoch       INTEGER NOT NULL,
    token       INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    lock_until  INTEGER NOT NULL,
    ended_at    INTEGER,
    expires_at  INTEGER NOT NULL,
    error       TEXT,
    result      BLOB,
    PRIMARY KEY (command, request_key)
) STRICT;
CREATE INDEX {p}command_key_expiry ON {p}command_key (expires_at);
