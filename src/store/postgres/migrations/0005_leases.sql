-- Leases. Times are microseconds since 1970, UTC.

-- Where fences come from: it grows also when a lease is deleted.
CREATE SEQUENCE {p}lease_fence;

-- owner: empty while nobody has it
-- A grant changes the fence, which a unique index knows: so it waits for whoever has locked the row FOR KEY SHARE, which
-- is how a fenced write keeps the lease from passing on. A renewal changes nothing of that kind, and need not wait.
CREATE TABLE {p}lease (
    name        text   COLLATE "C" PRIMARY KEY,
    fence       bigint NOT NULL,
    acquired_at bigint NOT NULL,
    renewed_at  bigint NOT NULL,
    expires_at  bigint NOT NULL,
    length      bigint NOT NULL,
    owner       text   NOT NULL,
    holder      text   NOT NULL
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX lease_grant ON {p}lease (name, fence);

-- The largest fence that has come for a name, whoever grants it.
CREATE TABLE {p}fence_mark (
    name  text   COLLATE "C" PRIMARY KEY,
    fence bigint NOT NULL
) WITH (fillfactor = 50);
