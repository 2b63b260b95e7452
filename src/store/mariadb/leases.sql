-- Leases. Each statement commits by itself, so that whoever stands still holds no lock. The clock is asked where the row
-- is judged, when its lock is ours: so a grant begins after the one before has ended. (The clock of other statements is
-- that of their start.)

-- fragment: clock_here
COALESCE(:now, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)))

-- name: acquire_lease
-- Assignments see those before them, so the owner comes last.
UPDATE {p}lease
   SET fence       = IF(owner = :owner, fence, GREATEST(fence + 1, NEXT VALUE FOR {p}lease_fence)),
       acquired_at = IF(owner = :owner, acquired_at, {{clock_here}}),
       renewed_at  = {{clock_here}},
       expires_at  = {{clock_here}} + :length,
       length      = :length,
       holder      = :holder,
       owner       = :owner
 WHERE name = :name AND (owner = '' OR owner = :owner OR expires_at <= {{clock_here}})

-- name: add_lease
-- Free, and granted afterwards like any other: nobody can have been granted it between drawing the fence and writing it.
INSERT IGNORE INTO {p}lease (name, fence, acquired_at, renewed_at, expires_at, length, owner, holder)
VALUES (:name, NEXT VALUE FOR {p}lease_fence, 0, {{clock_here}}, 0, 0, '', '')

-- name: look_at_lease
SELECT owner, fence, expires_at - {{clock_here}} FROM {p}lease WHERE name = :name

-- name: renew_lease
UPDATE {p}lease SET renewed_at = {{clock_here}}, expires_at = {{clock_here}} + :length, length = :length
 WHERE name = :name AND owner = :owner AND fence = :fence AND expires_at > {{clock_here}}

-- name: release_lease
UPDATE {p}lease SET owner = '', expires_at = LEAST(expires_at, {{clock_here}}), renewed_at = {{clock_here}}
 WHERE name = :name AND owner = :owner AND fence = :fence

-- name: take_lease_away
UPDATE {p}lease SET owner = '', expires_at = {{clock_here}}, renewed_at = {{clock_here}}
 WHERE name = :name AND fence = :fence AND owner <> '' AND expires_at > {{clock_here}}

-- fragment: lease_columns
name, fence, holder, IF(owner = '', 0, GREATEST(expires_at - {{clock_here}}, 0)), length, acquired_at, renewed_at

-- name: find_lease
SELECT {{lease_columns}} FROM {p}lease WHERE name = :name

-- name: list_leases
SELECT {{lease_columns}} FROM {p}lease
 WHERE name > :after AND (:held = 0 OR (owner <> '' AND expires_at > {{clock_here}})) ORDER BY name LIMIT :limit

-- name: hold_lease
-- The caller's session may count its time in another zone.
SELECT owner <> '' AND expires_at > COALESCE(:now, {{clock}}) FROM {p}lease WHERE name = :name AND fence = :fence LOCK IN SHARE MODE

-- name: pass_fence
INSERT INTO {p}fence_mark (name, fence) VALUES (:name, :fence)
    ON DUPLICATE KEY UPDATE fence = GREATEST(fence, VALUES(fence))
RETURNING fence

-- name: unused_leases
-- Whoever holds one in a long transaction is passed over.
SELECT name FROM {p}lease
 WHERE renewed_at + length + :age <= {{clock_here}} AND (owner = '' OR expires_at <= {{clock_here}}) LIMIT :limit
   FOR UPDATE SKIP LOCKED

-- name: remove_lease
DELETE FROM {p}lease WHERE name = :name
