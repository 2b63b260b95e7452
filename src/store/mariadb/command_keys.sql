-- Keys of commands.

-- fragment: key_columns
command, request_key, fingerprint, state, epoch, token, created_at, lock_until, ended_at, expires_at, error

-- name: reserve_key
-- One that has expired is as good as none, unless its holder still has time. One that failed, or whose holder is late, may
-- be taken over for the same request. Assignments are made one after the other: the first one decides, and the others see by
-- the token how.
INSERT INTO {p}command_key (command, request_key, fingerprint, state, epoch, token, created_at, lock_until, expires_at)
VALUES (:command, :request_key, :fingerprint, 0, 1, :token, COALESCE(:now, {{clock}}), COALESCE(:now, {{clock}}) + :lock,
        COALESCE(:now, {{clock}}) + :keep)
    ON DUPLICATE KEY UPDATE
       token = IF((state <> 0 OR lock_until <= VALUES(created_at))
                  AND (expires_at <= VALUES(created_at) OR (state <> 1 AND fingerprint = VALUES(fingerprint))), VALUES(token), token),
       fingerprint = IF(token = VALUES(token), VALUES(fingerprint), fingerprint),
       state = IF(token = VALUES(token), 0, state),
       epoch = IF(token = VALUES(token), epoch + 1, epoch),
       created_at = IF(token = VALUES(token), VALUES(created_at), created_at),
       lock_until = IF(token = VALUES(token), VALUES(lock_until), lock_until),
       ended_at = IF(token = VALUES(token), NULL, ended_at),
       expires_at = IF(token = VALUES(token), VALUES(expires_at), expires_at),
       error = IF(token = VALUES(token), NULL, error),
       result = IF(token = VALUES(token), NULL, result)
RETURNING {{key_columns}}, result

-- name: find_key
SELECT {{key_columns}}, result FROM {p}command_key WHERE command = :command AND request_key = :request_key

-- name: complete_key
UPDATE {p}command_key
   SET state = 1, result = :result, ended_at = COALESCE(:now, {{clock}}), expires_at = COALESCE(:now, {{clock}}) + :keep
 WHERE command = :command AND request_key = :request_key AND token = :token AND state = 0

-- name: fail_key
UPDATE {p}command_key SET state = 2, error = :error, ended_at = COALESCE(:now, {{clock}})
 WHERE command = :command AND request_key = :request_key AND token = :token AND state = 0

-- name: list_keys
SELECT {{key_columns}} FROM {p}command_key
 WHERE (command > :after_command OR (command = :after_command AND request_key > :after_key))
   AND (:command IS NULL OR command = :command) AND (:state IS NULL OR state = :state)
 ORDER BY command, request_key LIMIT :limit

-- name: release_key
DELETE FROM {p}command_key WHERE command = :command AND request_key = :request_key

-- name: expired_keys
-- One that somebody uses again, in a transaction that is still open, is passed over.
SELECT command, request_key FROM {p}command_key FORCE INDEX ({p}command_key_expiry)
 WHERE expires_at <= COALESCE(:now, {{clock}}) AND (state <> 0 OR lock_until <= COALESCE(:now, {{clock}}))
 ORDER BY expires_at LIMIT :limit FOR UPDATE SKIP LOCKED
