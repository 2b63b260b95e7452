-- The inbox, and keys of commands. Times are microseconds since 1970, UTC; 0 means "never", and an empty text "none".

-- What came from outside: (source, id) is known for as long as its row is kept.
-- state: 0 seen · 1 somebody outside the queue is at it · 2 done · 3 dead
-- The message that carries it has a row in join_member with role 3 and number 0, until it is done.
CREATE TABLE {p}inbox (
    number       bigint   PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    seen_at      bigint   NOT NULL,
    settled_at   bigint   NOT NULL DEFAULT 0,
    seq          bigint   NOT NULL DEFAULT 0,
    state        smallint NOT NULL,
    message      uuid,
    source       text     COLLATE "C" NOT NULL,
    id           text     COLLATE "C" NOT NULL,
    content_hash text     NOT NULL DEFAULT ''
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX inbox_id    ON {p}inbox (source, id);
CREATE INDEX        inbox_seq   ON {p}inbox (seq) WHERE seq <> 0;
CREATE INDEX        inbox_state ON {p}inbox (state, number) WHERE state <> 2;
CREATE INDEX        inbox_done  ON {p}inbox (settled_at) WHERE state = 2;

-- state: 0 in progress · 1 completed · 2 failed
-- `token` is of one reservation: who has it may complete it. `epoch` counts reservations, for people.
CREATE TABLE {p}command_key (
    created_at  bigint   NOT NULL,
    lock_until  bigint   NOT NULL,
    ended_at    bigint   NOT NULL DEFAULT 0,
    expires_at  bigint   NOT NULL,
    epoch       bigint   NOT NULL,
    token       bigint   NOT NULL,
    state       smallint NOT NULL,
    command     text     COLLATE "C" NOT NULL,
    request_key text     COLLATE "C" NOT NULL,
    fingerprint text     NOT NULL,
    error       text     NOT NULL DEFAULT '',
    result      bytea    NOT NULL DEFAULT '',
    PRIMARY KEY (command, request_key)
) WITH (fillfactor = 80);
CREATE INDEX command_key_expiry ON {p}command_key (expires_at);
