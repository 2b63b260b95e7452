-- Leases. :at is the time since the machine was started, :now what people call it.

-- name: grant_lease
INSERT INTO {p}lease (name, fence, owner, holder, boot, granted_at, expires_at, length, acquired_at, renewed_at)
SELECT :name, f.last + 1, :owner, :holder, :boot, :at, :at + :length, :length, :now, :now FROM {p}lease_fence f WHERE f.one = 1
    ON CONFLICT (name) DO UPDATE
   SET fence       = CASE WHEN owner = excluded.owner THEN fence ELSE max(fence + 1, excluded.fence) END,
       granted_at  = CASE WHEN owner = excluded.owner THEN granted_at ELSE excluded.granted_at END,
       acquired_at = CASE WHEN owner = excluded.owner THEN acquired_at ELSE excluded.acquired_at END,
       owner = excluded.owner, holder = excluded.holder, boot = excluded.boot, expires_at = excluded.expires_at,
       length = excluded.length, renewed_at = excluded.renewed_at
 WHERE owner IN ('', excluded.owner) OR expires_at <= excluded.granted_at OR boot <> excluded.boot
RETURNING fence

-- name: lease_taken
SELECT expires_at - :at FROM {p}lease
 WHERE name = :name AND owner NOT IN ('', :owner) AND expires_at > :at AND boot = :boot

-- name: note_fence
UPDATE {p}lease_fence SET last = max(last, :fence) WHERE one = 1

-- name: renew_lease
UPDATE {p}lease SET expires_at = :at + :length, length = :length, renewed_at = :now
 WHERE name = :name AND owner = :owner AND fence = :fence AND expires_at > :at AND boot = :boot

-- name: release_lease
UPDATE {p}lease SET owner = '', expires_at = CASE WHEN boot = :boot THEN min(expires_at, :at) ELSE expires_at END, renewed_at = :now
 WHERE name = :name AND owner = :owner AND fence = :fence

-- name: take_lease_away
UPDATE {p}lease SET owner = '', expires_at = :at, renewed_at = :now
 WHERE name = :name AND (:fence IS NULL OR fence = :fence) AND owner <> '' AND expires_at > :at AND boot = :boot
RETURNING fence

-- fragment: lease_columns
name, fence, holder, CASE WHEN owner <> '' AND boot = :boot THEN max(expires_at - :at, 0) ELSE 0 END, length, acquired_at, renewed_at

-- name: find_lease
SELECT {{lease_columns}} FROM {p}lease WHERE name = :name

-- name: list_leases
SELECT {{lease_columns}} FROM {p}lease
 WHERE name > :after AND (:held = 0 OR (owner <> '' AND boot = :boot AND expires_at > :at)) ORDER BY name LIMIT :limit

-- name: hold_lease
-- Changes nothing, but from here on this transaction is the one that writes.
UPDATE {p}lease SET fence = fence WHERE name = :name AND fence = :fence AND owner <> '' AND expires_at > :at AND boot = :boot

-- name: pass_fence
INSERT INTO {p}fence_mark (name, fence) VALUES (:name, :fence)
    ON CONFLICT (name) DO UPDATE SET fence = excluded.fence WHERE fence <= excluded.fence

-- name: remove_unused_leases
DELETE FROM {p}lease
 WHERE name IN (SELECT name FROM {p}lease
                 WHERE renewed_at + length <= :until AND (owner = '' OR expires_at <= :at OR boot <> :boot) LIMIT :limit)
