-- Keys of commands.

-- fragment: key_columns
k.command, k.request_key, k.fingerprint, k.state, k.epoch, k.token, k.created_at, k.lock_until, k.ended_at, k.expires_at, k.error

-- fragment: free_key
-- One that has expired is as good as none, unless its holder still has time. One that failed, or whose holder is late, may
-- be taken over for the same request.
CASE WHEN (k.state <> 0 OR k.lock_until <= excluded.created_at)
      AND (k.expires_at <= excluded.created_at OR (k.state <> 1 AND k.fingerprint = excluded.fingerprint))

-- name: reserve_key
-- The row is written in any case: so whoever is adding the same is waited for, and the newest row is returned.
INSERT INTO {p}command_key AS k (created_at, lock_until, expires_at, epoch, token, state, command, request_key, fingerprint)
SELECT c.now, c.now + :lock::bigint, c.now + :keep::bigint, 1, :token::bigint, 0, :command::text, :request_key::text,
       :fingerprint::text
  FROM (SELECT {p}clock(:now::bigint) AS now) c
    ON CONFLICT (command, request_key) DO UPDATE
   SET created_at  = {{free_key}} THEN excluded.created_at ELSE k.created_at END,
       lock_until  = {{free_key}} THEN excluded.lock_until ELSE k.lock_until END,
       ended_at    = {{free_key}} THEN 0 ELSE k.ended_at END,
       expires_at  = {{free_key}} THEN excluded.expires_at ELSE k.expires_at END,
       epoch       = {{free_key}} THEN k.epoch + 1 ELSE k.epoch END,
       token       = {{free_key}} THEN excluded.token ELSE k.token END,
       state       = {{free_key}} THEN 0 ELSE k.state END,
       fingerprint = {{free_key}} THEN excluded.fingerprint ELSE k.fingerprint END,
       error       = {{free_key}} THEN '' ELSE k.error END,
       result      = {{free_key}} THEN '' ELSE k.result END
RETURNING {{key_columns}}, k.result

-- name: find_key
SELECT {{key_columns}}, k.result FROM {p}command_key k WHERE k.command = :command::text AND k.request_key = :request_key::text

-- name: complete_key
UPDATE {p}command_key SET state = 1, result = :result::bytea, ended_at = c.now, expires_at = c.now + :keep::bigint
  FROM (SELECT {p}clock(:now::bigint) AS now) c
 WHERE command = :command::text AND request_key = :request_key::text AND token = :token::bigint AND state = 0

-- name: fail_key
UPDATE {p}command_key SET state = 2, error = :error::text, ended_at = {p}clock(:now::bigint)
 WHERE command = :command::text AND request_key = :request_key::text AND token = :token::bigint AND state = 0

-- name: list_keys
SELECT {{key_columns}} FROM {p}command_key k
 WHERE (k.command, k.request_key) > (:after_command::text, :after_key::text)
   AND (:command::text IS NULL OR k.command = :command::text) AND (:state::bigint IS NULL OR k.state = :state::bigint)
 ORDER BY k.command, k.request_key LIMIT :limit::bigint

-- name: release_key
DELETE FROM {p}command_key WHERE command = :command::text AND request_key = :request_key::text

-- name: remove_expired_keys
DELETE FROM {p}command_key WHERE ctid = ANY (ARRAY (
    SELECT ctid FROM {p}command_key
     WHERE expires_at <= (SELECT {p}clock(:now::bigint)) AND (state <> 0 OR lock_until <= (SELECT {p}clock(:now::bigint)))
     ORDER BY expires_at LIMIT :limit::bigint FOR UPDATE SKIP LOCKED))
