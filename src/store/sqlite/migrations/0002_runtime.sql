-- What workers need: messages that are put aside, and topics that are paused.

-- A parked message has a negative state: -1 no handler · -2 paused · -3 at its limit. So it is below `waiting`
-- wherever that matters: it can expire, and it holds its ordering key. The topic stands in its row
-- for as long as it is parked, so that taking a topic back and listing the parked topics are look-ups.
ALTER TABLE {p}queue ADD COLUMN parked_topic TEXT;
CREATE INDEX {p}queue_parked ON {p}queue (parked_topic) WHERE parked_topic IS NOT NULL;

-- What workers must not start: a topic, with a closing * every topic that starts so, or all when it is empty.
CREATE TABLE {p}paused (
    topic TEXT    NOT NULL PRIMARY KEY,
    since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
