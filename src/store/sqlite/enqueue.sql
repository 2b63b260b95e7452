-- Adding and cancelling messages.

-- name: reserve_numbers
-- Hands out :count numbers; the last of them is returned.
UPDATE {p}log SET last_seq = last_seq + :count WHERE one = 1 RETURNING last_seq

-- name: insert_message
INSERT INTO {p}message (seq, plain, own_id, id, created_at, topic, ordering_key, correlation_id, causation_id, headers, payload)
VALUES (:seq, :plain, :own_id, :id, :created_at, :topic, :ordering_key, :correlation_id, :causation_id, :headers, :payload)

-- name: queue_new
-- A message whose key is held by an earlier one (also a dead one that blocks it) waits; 1 is `waiting`.
INSERT INTO {p}queue (seq, state, priority, due_at, expires_at, ordering_key)
VALUES (:seq,
        EXISTS (SELECT 1 FROM {p}queue WHERE ordering_key = :ordering_key AND state <= 3),
        :priority, :due_at, :expires_at, :ordering_key)

-- name: find_dedup
SELECT id, seq FROM {p}dedup WHERE topic = :topic AND dedup_key = :dedup_key AND expires_at > :now

-- name: remember_dedup
INSERT INTO {p}dedup (topic, dedup_key, id, seq, expires_at) VALUES (:topic, :dedup_key, :id, :seq, :expires_at)
    ON CONFLICT (topic, dedup_key)
    DO UPDATE SET id = excluded.id, seq = excluded.seq, expires_at = excluded.expires_at

-- name: begin_many
SAVEPOINT posthorn_many

-- name: end_many
RELEASE posthorn_many

-- name: find_seq
-- :hint is the number that the id's last bytes would be, had Posthorn made it.
SELECT seq FROM {p}message WHERE seq = :hint AND id = :id
 UNION ALL
SELECT seq FROM {p}message WHERE id = :id AND own_id = 1
 LIMIT 1

-- name: queue_row
SELECT state, fence FROM {p}queue WHERE seq = :seq

-- name: is_finished
SELECT 1 FROM {p}finished WHERE seq = :seq

-- name: take_out_of_log
-- A cancelled message that nobody has claimed is passed over when the log's position reaches it.
UPDATE {p}message SET plain = 0 WHERE seq = :seq
