-- Leases. Times are microseconds since 1970, UTC.
--
-- Every step may be repeated.

-- Where fences come from: it grows also when a lease is deleted.
CREATE SEQUENCE IF NOT EXISTS {p}lease_fence NOCACHE ENGINE = InnoDB COMMENT = 'Posthorn';

-- owner: empty while nobody has it
CREATE TABLE IF NOT EXISTS {p}lease (
    name        VARBINARY(255) NOT NULL PRIMARY KEY,
    fence       BIGINT         NOT NULL,
    acquired_at BIGINT         NOT NULL,
    renewed_at  BIGINT         NOT NULL,
    expires_at  BIGINT         NOT NULL,
    length      BIGINT         NOT NULL,
    owner       VARBINARY(64)  NOT NULL,
    holder      VARBINARY(255) NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = 'Posthorn';

-- The largest fence that has come for a name, whoever grants it.
CREATE TABLE IF NOT EXISTS {p}fence_mark (
    name  VARBINARY(255) NOT NULL PRIMARY KEY,
    fence BIGINT         NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = 'Posthorn';
