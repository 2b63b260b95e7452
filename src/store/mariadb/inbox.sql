-- The inbox. The order of locks is: batch, message, row of the inbox.

-- fragment: inbound_columns
number, source, id, state, message, content_hash, seen_at, settled_at

-- name: find_inbound
SELECT {{inbound_columns}} FROM {p}inbox WHERE source = :source AND id = :id

-- name: see_inbound
-- Adds the row, or locks the one that is there; it is ours if it has our nonce.
INSERT INTO {p}inbox (source, id, state, nonce, content_hash, seen_at)
VALUES (:source, :id, 0, :nonce, :content_hash, COALESCE(:now, {{clock}}))
    ON DUPLICATE KEY UPDATE number = number

-- name: lock_inbound
SELECT {{inbound_columns}}, nonce FROM {p}inbox WHERE source = :source AND id = :id FOR UPDATE

-- name: newest_carrier
-- A locking read, because at REPEATABLE READ another one would not see what was committed meanwhile.
SELECT m.seq FROM {p}inbox i STRAIGHT_JOIN {p}message m FORCE INDEX (PRIMARY) ON m.seq = i.seq
 WHERE i.source = :source AND i.id = :id LOCK IN SHARE MODE

-- name: finish_inbound
-- What a message carries is left to whoever handles that. Assignments are made one after the other, each with what the ones
-- before it have left.
INSERT INTO {p}inbox (source, id, state, nonce, content_hash, seen_at, settled_at)
VALUES (:source, :id, 2, :nonce, :content_hash, COALESCE(:now, {{clock}}), COALESCE(:now, {{clock}}))
    ON DUPLICATE KEY UPDATE
       nonce = IF(state <> 2 AND seq IS NULL, VALUES(nonce), nonce),
       settled_at = IF(nonce = VALUES(nonce), VALUES(settled_at), settled_at),
       state = IF(nonce = VALUES(nonce), 2, state)
RETURNING nonce

-- name: mark_inbound
UPDATE {p}inbox SET state = :state, settled_at = IF(:state >= 2, COALESCE(:now, {{clock}}), NULL) WHERE number = :number

-- name: forget_carrier
-- An earlier message that was called off, or purged.
DELETE FROM {p}join_member WHERE number = 0 AND role = 3 AND seq = (SELECT seq FROM {p}inbox WHERE number = :number)

-- name: carry_inbound
UPDATE {p}inbox SET state = 0, settled_at = NULL, seq = :seq, message = :message WHERE number = :number

-- name: replace_payload
UPDATE {p}message SET payload = :payload, headers = :headers WHERE seq = :seq

-- name: follow_inbound
UPDATE {{list}} STRAIGHT_JOIN {p}inbox i FORCE INDEX ({p}inbox_seq) ON i.seq = l.seq
   SET i.settled_at = IF(:state >= 2, COALESCE(:now, {{clock}}), NULL), i.state = :state
 WHERE i.state <> 2

-- name: follow_no_more
DELETE m FROM {{list}} STRAIGHT_JOIN {p}join_member m FORCE INDEX (PRIMARY) ON m.number = 0 AND m.role = 3 AND m.seq = l.seq

-- fragment: page_of_inbound
(:source IS NULL OR source = :source) AND number > :after ORDER BY number LIMIT :limit

-- name: list_inbound
SELECT {{inbound_columns}} FROM {p}inbox WHERE (:state IS NULL OR state = :state) AND {{page_of_inbound}}

-- name: list_unfinished_inbound
-- As above, over the index of states.
SELECT {{inbound_columns}} FROM {p}inbox FORCE INDEX ({p}inbox_state) WHERE state = :state AND {{page_of_inbound}}

-- name: remove_done_inbound
DELETE FROM {p}inbox WHERE state = 2 AND settled_at <= COALESCE(:now, {{clock}}) - :age ORDER BY settled_at LIMIT :limit
