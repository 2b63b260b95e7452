-- Leases. Each statement commits by itself, so that whoever stands still holds no lock. The clock is asked where the row
-- is judged, and anew if another transaction changed the row first: so a grant begins after the one before has ended.

-- name: acquire_lease
UPDATE {p}lease l
   SET fence       = CASE WHEN l.owner = :owner::text THEN l.fence ELSE greatest(l.fence + 1, pg_catalog.nextval('{p}lease_fence')) END,
       acquired_at = CASE WHEN l.owner = :owner::text THEN l.acquired_at ELSE {p}clock(:now::bigint) END,
       renewed_at  = {p}clock(:now::bigint),
       expires_at  = {p}clock(:now::bigint) + :length::bigint,
       length      = :length::bigint,
       owner       = :owner::text,
       holder      = :holder::text
 WHERE l.name = :name::text AND (l.owner = '' OR l.owner = :owner::text OR l.expires_at <= {p}clock(:now::bigint))
RETURNING l.fence

-- name: add_lease
-- Free, and granted afterwards like any other: nobody can have been granted it between drawing the fence and writing it.
INSERT INTO {p}lease (name, fence, acquired_at, renewed_at, expires_at, length, owner, holder)
SELECT :name::text, pg_catalog.nextval('{p}lease_fence'), 0, {p}clock(:now::bigint), 0, 0, '', ''
    ON CONFLICT (name) DO NOTHING

-- name: lease_taken
SELECT l.owner NOT IN ('', :owner::text), l.expires_at - {p}clock(:now::bigint) FROM {p}lease l WHERE l.name = :name::text

-- name: renew_lease
UPDATE {p}lease l
   SET renewed_at = {p}clock(:now::bigint), expires_at = {p}clock(:now::bigint) + :length::bigint, length = :length::bigint
 WHERE l.name = :name::text AND l.owner = :owner::text AND l.fence = :fence::bigint AND l.expires_at > {p}clock(:now::bigint)

-- name: release_lease
UPDATE {p}lease l
   SET owner = '', expires_at = least(l.expires_at, {p}clock(:now::bigint)), renewed_at = {p}clock(:now::bigint)
 WHERE l.name = :name::text AND l.owner = :owner::text AND l.fence = :fence::bigint
RETURNING pg_catalog.pg_notify('{p}lease', l.name) IS NULL

-- name: take_lease_away
UPDATE {p}lease l
   SET owner = '', expires_at = {p}clock(:now::bigint), renewed_at = {p}clock(:now::bigint)
 WHERE l.name = :name::text AND l.fence = coalesce(:fence::bigint, l.fence) AND l.owner <> '' AND l.expires_at > {p}clock(:now::bigint)
RETURNING l.fence, pg_catalog.pg_notify('{p}lease', l.name) IS NULL

-- fragment: lease_columns
l.name, l.fence, l.holder, CASE WHEN l.owner = '' THEN 0 ELSE greatest(l.expires_at - c.now, 0) END, l.length, l.acquired_at, l.renewed_at

-- name: find_lease
SELECT {{lease_columns}} FROM {p}lease l, (SELECT {p}clock(:now::bigint) AS now OFFSET 0) c WHERE l.name = :name::text

-- name: list_leases
SELECT {{lease_columns}} FROM {p}lease l, (SELECT {p}clock(:now::bigint) AS now OFFSET 0) c
 WHERE l.name > :after::text AND (NOT :held::boolean OR (l.owner <> '' AND l.expires_at > c.now)) ORDER BY l.name LIMIT :limit::bigint

-- name: hold_lease
SELECT l.owner <> '' AND l.expires_at > {p}clock(:now::bigint) FROM {p}lease l
 WHERE l.name = :name::text AND l.fence = :fence::bigint FOR KEY SHARE

-- name: pass_fence
INSERT INTO {p}fence_mark AS m (name, fence) VALUES (:name::text, :fence::bigint)
    ON CONFLICT (name) DO UPDATE SET fence = excluded.fence WHERE m.fence <= excluded.fence

-- name: remove_unused_leases
DELETE FROM {p}lease d
 WHERE d.name = ANY (ARRAY (SELECT l.name FROM {p}lease l
                             WHERE l.renewed_at + l.length + :age::bigint <= {p}clock(:now::bigint)
                               AND (l.owner = '' OR l.expires_at <= {p}clock(:now::bigint))
                             LIMIT :limit::bigint FOR UPDATE SKIP LOCKED))

-- name: listen_for_leases
LISTEN "{p}lease"
