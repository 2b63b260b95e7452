-- The inbox, and keys of commands.
--
-- Every step may be repeated.

-- What came from outside: (source, id) is known for as long as its row is kept.
-- state: 0 seen · 1 somebody outside the queue is at it · 2 done · 3 dead
-- `nonce` is of the statement that made the row, or made it done: by it that statement knows that it did.
-- The message that carries it has a row in join_member with role 3 and number 0, until it is done.
CREATE TABLE IF NOT EXISTS {p}inbox (
    number       BIGINT         NOT NULL AUTO_INCREMENT PRIMARY KEY,
    source       VARBINARY(255) NOT NULL,
    id           VARBINARY(255) NOT NULL,
    state        TINYINT        NOT NULL,
    nonce        BIGINT         NOT NULL,
    seq          BIGINT,
    message      BINARY(16),
    content_hash VARBINARY(255),
    seen_at      BIGINT         NOT NULL,
    settled_at   BIGINT,
    UNIQUE KEY {p}inbox_id (source, id),
    KEY {p}inbox_seq (seq),
    KEY {p}inbox_state (state, settled_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = 'Posthorn';

-- state: 0 in progress · 1 completed · 2 failed
-- `token` is of one reservation: who has it may complete it. `epoch` counts reservations, for people.
CREATE TABLE IF NOT EXISTS {p}command_key (
    command     VARBINARY(500) NOT NULL,
    request_key VARBINARY(200) NOT NULL,
    fingerprint VARBINARY(255) NOT NULL,
    state       TINYINT        NOT NULL,
    epoch       BIGINT         NOT NULL,
    token       BIGINT         NOT NULL,
    created_at  BIGINT         NOT NULL,
    lock_until  BIGINT         NOT NULL,
    ended_at    BIGINT,
    expires_at  BIGINT         NOT NULL,
    error       BLOB,
    result      LONGBLOB,
    PRIMARY KEY (command, request_key),
    KEY {p}command_key_expiry (expires_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = 'Posthorn';
