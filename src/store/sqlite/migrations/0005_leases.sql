-- Leases. Who holds what is judged by the clock since the machine was started, which all processes share and nobody can
-- set: granted_at and expires_at are microseconds on it, and count only as long as `boot` is the machine's own. All other
-- times are for people.

-- owner: empty while nobody has it
CREATE TABLE {p}lease (
    name        TEXT    PRIMARY KEY,
    fence       INTEGER NOT NULL,
    owner       TEXT    NOT NULL,
    holder      TEXT    NOT NULL,
    boot        TEXT    NOT NULL,
    granted_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    length      INTEGER NOT NULL,
    acquired_at INTEGER NOT NULL,
    renewed_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The last fence that was given to anybody: it grows also when a lease is deleted.
CREATE TABLE {p}lease_fence (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    last INTEGER NOT NULL
) STRICT;
INSERT INTO {p}lease_fence (one, last) VALUES (1, 0);

-- The largest fence that has come for a name, whoever grants it.
CREATE TABLE {p}fence_mark (
    name  TEXT    PRIMARY KEY,
    fence INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
