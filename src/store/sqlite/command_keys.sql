-- Keys of commands.

-- fragment: key_columns
command, request_key, fingerprint, state, epoch, token, created_at, lock_until, ended_at, expires_at, error

-- name: reserve_key
-- One that has expired is as good as none, unless its holder still has time. One that failed, or whose holder is late, may
-- be taken over for the same request.
INSERT INTO {p}command_key (command, request_key, fingerprint, state, epoch, token, created_at, lock_until, expires_at)
VALUES (:command, :request_key, :fingerprint, 0, 1, :token, :now, :lock_until, :expires_at)
    ON CONFLICT (command, request_key) DO UPDATE
   SET fingerprint = excluded.fingerprint, state = 0, epoch = epoch + 1, token = excluded.token, created_at = excluded.created_at,
       lock_until = excluded.lock_until, ended_at = NULL, expires_at = excluded.expires_at, error = NULL, result = NULL
 WHERE (state <> 0 OR lock_until <= :now)
   AND (expires_at <= :now OR (state <> 1 AND fingerprint = excluded.fingerprint))

-- name: find_key
SELECT {{key_columns}}, result FROM {p}command_key WHERE command = :command AND request_key = :request_key

-- name: complete_key
UPDATE {p}command_key SET state = 1, result = :result, ended_at = :now, expires_at = :expires_at
 WHERE command = :command AND request_key = :request_key AND token = :token AND state = 0

-- name: fail_key
UPDATE {p}command_key SET state = 2, error = :error, ended_at = :now
 WHERE command = :command AND request_key = :request_key AND token = :token AND state = 0

-- name: list_keys
SELECT {{key_columns}} FROM {p}command_key
 WHERE (command, request_key) > (:after_command, :after_key) AND (:command IS NULL OR command = :command)
   AND (:state IS NULL OR state = :state)
 ORDER BY command, request_key LIMIT :limit

-- name: release_key
DELETE FROM {p}command_key WHERE command = :command AND request_key = :request_key

-- name: remove_expired_keys
DELETE FROM {p}command_key WHERE (command, request_key) IN
    (SELECT command, request_key FROM {p}command_key WHERE expires_at <= :now AND (state <> 0 OR lock_until <= :now)
      ORDER BY expires_at LIMIT :limit)
