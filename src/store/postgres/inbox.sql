-- The inbox. The order of locks is: batch, message, row of the inbox.

-- fragment: inbound_columns
i.number, i.source, i.id, i.state, i.message, i.content_hash, i.seen_at, i.settled_at

-- name: find_inbound
SELECT {{inbound_columns}} FROM {p}inbox i WHERE i.source = :source::text AND i.id = :id::text

-- name: see_inbound
-- The row is written even if nothing in it changes: so it is locked, and the newest one is returned. Only a new row has never
-- been locked.
INSERT INTO {p}inbox AS i (seen_at, state, source, id, content_hash)
SELECT {p}clock(:now::bigint), 0, :source::text, :id::text, :content_hash::text
    ON CONFLICT (source, id) DO UPDATE SET content_hash = i.content_hash
RETURNING {{inbound_columns}}, i.xmax = 0

-- name: finish_inbound
-- What a message carries is left to whoever handles that.
INSERT INTO {p}inbox AS i (seen_at, settled_at, state, source, id, content_hash)
SELECT c.now, c.now, 2, :source::text, :id::text, :content_hash::text FROM (SELECT {p}clock(:now::bigint) AS now) c
    ON CONFLICT (source, id) DO UPDATE SET state = 2, settled_at = excluded.settled_at WHERE i.state <> 2 AND i.seq = 0

-- name: mark_inbound
UPDATE {p}inbox SET state = :state::bigint, settled_at = CASE WHEN :state::bigint >= 2 THEN {p}clock(:now::bigint) ELSE 0 END
 WHERE number = :number::bigint

-- name: forget_carrier
-- An earlier message that was called off, or purged.
DELETE FROM {p}join_member WHERE number = 0 AND role = 3 AND seq = (SELECT seq FROM {p}inbox WHERE number = :number::bigint)

-- name: carry_inbound
UPDATE {p}inbox SET state = 0, settled_at = 0, seq = :seq::bigint, message = :message::uuid WHERE number = :number::bigint

-- name: follow_carrier
INSERT INTO {p}join_member (number, seq, attached_at, role, state, id)
SELECT 0, :seq::bigint, {p}clock(:now::bigint), 3, 0, :message::uuid

-- name: replace_payload
UPDATE {p}message SET payload = :payload::bytea, headers = :headers::text WHERE seq = :seq::bigint

-- name: follow_inbound
UPDATE {p}inbox SET state = :state::bigint,
       settled_at = CASE WHEN :state::bigint >= 2 THEN (SELECT {p}clock(:now::bigint)) ELSE 0 END
 WHERE number = ANY (ARRAY (SELECT number FROM {p}inbox WHERE seq = ANY (:seqs::bigint[]) AND seq <> 0 AND state <> 2
                             ORDER BY number FOR UPDATE))

-- name: follow_no_more
DELETE FROM {p}join_member WHERE number = 0 AND role = 3 AND seq = ANY (:seqs::bigint[])

-- fragment: page_of_inbound
(:source::text IS NULL OR i.source = :source::text) AND i.number > :after::bigint ORDER BY i.number LIMIT :limit::bigint

-- name: list_inbound
SELECT {{inbound_columns}} FROM {p}inbox i WHERE (:state::bigint IS NULL OR i.state = :state::bigint) AND {{page_of_inbound}}

-- name: list_unfinished_inbound
-- As above, over the index of those that are not done.
SELECT {{inbound_columns}} FROM {p}inbox i WHERE i.state = :state::bigint AND i.state <> 2 AND {{page_of_inbound}}

-- name: remove_done_inbound
DELETE FROM {p}inbox WHERE number = ANY (ARRAY (
    SELECT number FROM {p}inbox WHERE state = 2 AND settled_at <= (SELECT {p}clock(:now::bigint)) - :age::bigint
     ORDER BY settled_at LIMIT :limit::bigint FOR UPDATE SKIP LOCKED))
