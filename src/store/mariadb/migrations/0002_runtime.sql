-- What workers need besides: messages that are put aside, and topics that are paused.
--
-- A message that is parked has a row in `queue` with place 9, and one here by which its topic finds it. Every other
-- message is spared an index for that. Whoever adds or deletes a row here has locked the message's row in `queue`.
--
-- reason: 0 no handler · 1 paused · 2 at the limit
CREATE TABLE IF NOT EXISTS {p}parked (
    topic  VARBINARY(255) NOT NULL,
    seq    BIGINT         NOT NULL,
    reason TINYINT        NOT NULL,
    PRIMARY KEY (topic, seq)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = 'Posthorn';

-- topic: exact, or with a closing * everything that starts so; empty: everything
CREATE TABLE IF NOT EXISTS {p}paused (
    topic VARBINARY(255) NOT NULL PRIMARY KEY,
    since BIGINT         NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = 'Posthorn';
