-- Beginning and ending transactions of our own.

-- name: begin_writing
-- Not READ WRITE: a server or session that is set to read only must say so in its own words.
BEGIN ISOLATION LEVEL READ COMMITTED

-- name: begin_reading
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY

-- name: wait_up_to
-- For this transaction only.
SELECT pg_catalog.set_config('lock_timeout', :lock_timeout::bigint::text, true)

-- name: commit
COMMIT

-- name: rollback
ROLLBACK

-- name: begin_many
SAVEPOINT posthorn_many

-- name: end_many
RELEASE SAVEPOINT posthorn_many

-- name: undo_many
ROLLBACK TO SAVEPOINT posthorn_many

-- name: callers_path
-- As the role, the database or the URL says.
SET search_path TO DEFAULT

-- name: callers_path_locally
SET LOCAL search_path TO DEFAULT

-- name: set_locally
-- Behind a pooler the session is not ours: what we want of it holds for this transaction only.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
       pg_catalog.set_config('lock_timeout', :lock_timeout::bigint::text, true), pg_catalog.set_config('statement_timeout', :statement_timeout::bigint::text, true),
       pg_catalog.set_config('enable_seqscan', 'off', true), pg_catalog.set_config('enable_hashjoin', 'off', true),
       pg_catalog.set_config('enable_mergejoin', 'off', true), pg_catalog.set_config('enable_bitmapscan', 'off', true), pg_catalog.set_config('jit', 'off', true)
