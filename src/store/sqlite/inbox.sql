-- The inbox.

-- fragment: inbound_columns
number, source, id, state, message, content_hash, seen_at, settled_at

-- name: find_inbound
SELECT {{inbound_columns}} FROM {p}inbox WHERE source = :source AND id = :id

-- name: add_inbound
INSERT INTO {p}inbox (source, id, state, content_hash, seen_at) VALUES (:source, :id, 0, :content_hash, :now)
RETURNING {{inbound_columns}}

-- name: finish_inbound
-- What a message carries is left to whoever handles that.
INSERT INTO {p}inbox (source, id, state, content_hash, seen_at, settled_at) VALUES (:source, :id, 2, :content_hash, :now, :now)
    ON CONFLICT (source, id) DO UPDATE SET state = 2, settled_at = excluded.settled_at WHERE state <> 2 AND seq IS NULL

-- name: mark_inbound
UPDATE {p}inbox SET state = :state, settled_at = CASE WHEN :state >= 2 THEN :now END WHERE number = :number

-- name: forget_carrier
-- An earlier message that was called off, or purged.
DELETE FROM {p}join_member WHERE number = 0 AND role = 3 AND seq = (SELECT seq FROM {p}inbox WHERE number = :number)

-- name: carry_inbound
UPDATE {p}inbox SET state = 0, settled_at = NULL, seq = :seq, message = :message WHERE number = :number

-- name: replace_payload
UPDATE {p}message SET payload = :payload, headers = :headers WHERE seq = :seq

-- name: follow_inbound
UPDATE {p}inbox SET state = :state, settled_at = CASE WHEN :state >= 2 THEN :now END
 WHERE seq IN (SELECT value FROM json_each(:list)) AND state <> 2

-- name: follow_no_more
DELETE FROM {p}join_member WHERE number = 0 AND role = 3 AND seq IN (SELECT value FROM json_each(:list))

-- fragment: page_of_inbound
(:source IS NULL OR source = :source) AND number > :after ORDER BY number LIMIT :limit

-- name: list_inbound
SELECT {{inbound_columns}} FROM {p}inbox WHERE (:state IS NULL OR state = :state) AND {{page_of_inbound}}

-- name: list_unfinished_inbound
-- As above, over the index of those that are not done.
SELECT {{inbound_columns}} FROM {p}inbox INDEXED BY {p}inbox_state WHERE state = :state AND state <> 2 AND {{page_of_inbound}}

-- name: remove_done_inbound
DELETE FROM {p}inbox WHERE number IN
    (SELECT number FROM {p}inbox INDEXED BY {p}inbox_done WHERE state = 2 AND settled_at <= :until ORDER BY settled_at LIMIT :limit)
