-- The outbox. Times are microseconds since 1970, UTC; 0 in a time that a message gains later means "never".
--
-- A message is one row of `message`. One that is due at once, and has no ordering key, priority or expiry, is
-- *plain*: no index but the primary key knows it, so claiming and finishing it rewrite the row inside its page
-- (fillfactor 50 leaves the room) and touch no index. Whatever is not plain, or comes back, has a `place` other
-- than 0, which the partial indexes look at. No index looks at `state`.

CREATE TABLE {p}schema (
    version    integer PRIMARY KEY,
    name       text    NOT NULL,
    applied_at bigint  NOT NULL
);

CREATE SEQUENCE {p}message_seq;
CREATE SEQUENCE {p}fence_seq;

-- state: 0 ready · 2 claimed · 3 claimed and started · 4 dead, blocking its key · 5 dead · 6 done · 7 cancelled · 8 expired
-- place: 0 plain, or ended · 1 due · 2 due later · 3 arrived with a key · 4 parked behind its key's head · 5 claimed · 6 dead
-- What changes in a plain message stands close together, and before its text.
CREATE TABLE {p}message (
    seq            bigint   PRIMARY KEY,
    created_at     bigint   NOT NULL,
    due_at         bigint   NOT NULL,
    fence          bigint   NOT NULL DEFAULT 0,
    started_at     bigint   NOT NULL DEFAULT 0,
    finished_at    bigint   NOT NULL DEFAULT 0,
    attempts       integer  NOT NULL DEFAULT 0,
    state          smallint NOT NULL DEFAULT 0,
    place          smallint NOT NULL DEFAULT 0,
    worker         text     NOT NULL DEFAULT '',
    id             uuid     NOT NULL,
    own_id         boolean  NOT NULL DEFAULT false,
    priority       smallint NOT NULL DEFAULT 0,
    errors         integer  NOT NULL DEFAULT 0,
    redrives       integer  NOT NULL DEFAULT 0,
    failed_at      bigint,
    expires_at     bigint,
    topic          text     NOT NULL,
    ordering_key   text,
    correlation_id text,
    causation_id   text,
    headers        text,
    last_error     text,
    payload        bytea    NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1);

-- An id that Posthorn made carries its message's number in its last bytes; only others need an index.
CREATE UNIQUE INDEX message_id     ON {p}message (id) WHERE own_id;
CREATE INDEX        message_due    ON {p}message (priority DESC, due_at, seq) WHERE place = 1;
CREATE INDEX        message_later  ON {p}message (due_at) WHERE place = 2;
CREATE INDEX        message_key    ON {p}message (ordering_key, seq) WHERE ordering_key IS NOT NULL AND place BETWEEN 1 AND 5;
CREATE INDEX        message_new    ON {p}message (seq) WHERE place = 3;
CREATE INDEX        message_expiry ON {p}message (expires_at) WHERE expires_at IS NOT NULL AND place BETWEEN 1 AND 4;
CREATE INDEX        message_open   ON {p}message (seq) WHERE place BETWEEN 1 AND 5;
CREATE INDEX        message_dead   ON {p}message (seq) WHERE place = 6;
CREATE INDEX        message_died   ON {p}message (finished_at) WHERE place = 6;

-- No plain message up to `low` waits any more, nor ever will: where the search for the next ones begins.
CREATE TABLE {p}mark (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    low bigint  NOT NULL
) WITH (fillfactor = 50);
INSERT INTO {p}mark (low) VALUES (0);

-- Messages claimed together: one lease, one fence. Plain members lie between two numbers and carry the fence;
-- the others are listed.
CREATE TABLE {p}batch (
    fence       bigint   PRIMARY KEY,
    owner       text     NOT NULL,
    worker      text     NOT NULL,
    claimed_at  bigint   NOT NULL,
    lease_until bigint   NOT NULL,
    open        integer  NOT NULL,
    plain_from  bigint   NOT NULL,
    plain_to    bigint   NOT NULL,
    others      bigint[] NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX batch_lease ON {p}batch (lease_until);

-- The one message of an ordering key that may run. Only workers touch it, in short transactions.
CREATE TABLE {p}key_head (
    ordering_key text   PRIMARY KEY,
    seq          bigint NOT NULL,
    parked       bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
CREATE INDEX key_head_seq ON {p}key_head (seq);

CREATE TABLE {p}dedup (
    topic      text   NOT NULL,
    dedup_key  text   NOT NULL,
    id         uuid   NOT NULL,
    seq        bigint NOT NULL,
    expires_at bigint NOT NULL,
    PRIMARY KEY (topic, dedup_key)
);
CREATE INDEX dedup_expiry ON {p}dedup (expires_at);

-- The time in microseconds; a test hands in its own.
CREATE FUNCTION {p}clock(instead bigint) RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT coalesce(instead, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) $$;

-- A new number. The transaction's own id comes first: whoever sees a snapshot in which every earlier transaction
-- has ended then knows that no lower number can still appear.
CREATE FUNCTION {p}next_number() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT CASE WHEN pg_current_xact_id() IS NOT NULL THEN nextval('{p}message_seq') END $$;

-- The id of a message: eleven bytes of time and chance, five of its number.
CREATE FUNCTION {p}numbered_id(prefix text, seq bigint) RETURNS uuid LANGUAGE sql IMMUTABLE STRICT AS
$$ SELECT (prefix || lpad(to_hex(seq), 10, '0'))::uuid $$;

-- The contract for every other language. See docs/sql-contract.md.
CREATE FUNCTION {p}enqueue(
    topic            text,
    payload          bytea   DEFAULT '',
    ordering_key     text    DEFAULT NULL,
    priority         integer DEFAULT 0,
    delay_ms         bigint  DEFAULT 0,
    expires_after_ms bigint  DEFAULT NULL,
    dedup_key        text    DEFAULT NULL,
    dedup_window_ms  bigint  DEFAULT 86400000,
    correlation_id   text    DEFAULT NULL,
    causation_id     text    DEFAULT NULL,
    headers          jsonb   DEFAULT NULL,
    id               uuid    DEFAULT NULL
) RETURNS uuid LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$body$
#variable_conflict use_variable
DECLARE
    span_max CONSTANT bigint := 3155760000000;  -- a hundred years in milliseconds
    now_us   CONSTANT bigint := {p}clock(NULL);
    new_seq  bigint;
    new_id   uuid;
    known    uuid;
    is_plain boolean;
BEGIN
    IF topic IS NULL OR octet_length(topic) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION 'posthorn: topic must be text of 1 to 255 bytes';
    ELSIF octet_length(payload) > 1048576 THEN
        RAISE EXCEPTION 'posthorn: payload must be at most 1048576 bytes';
    ELSIF octet_length(ordering_key) > 255 THEN
        RAISE EXCEPTION 'posthorn: ordering_key must be text of at most 255 bytes';
    ELSIF octet_length(dedup_key) > 255 THEN
        RAISE EXCEPTION 'posthorn: dedup_key must be text of at most 255 bytes';
    ELSIF octet_length(correlation_id) > 255 THEN
        RAISE EXCEPTION 'posthorn: correlation_id must be text of at most 255 bytes';
    ELSIF octet_length(causation_id) > 255 THEN
        RAISE EXCEPTION 'posthorn: causation_id must be text of at most 255 bytes';
    ELSIF priority NOT BETWEEN -100 AND 100 THEN
        RAISE EXCEPTION 'posthorn: priority must be a whole number from -100 to 100';
    ELSIF delay_ms > span_max THEN
        RAISE EXCEPTION 'posthorn: delay_ms must be a whole number and at most a hundred years';
    ELSIF expires_after_ms > span_max OR expires_after_ms <= greatest(coalesce(delay_ms, 0), 0) THEN
        RAISE EXCEPTION 'posthorn: expires_after_ms must be positive, longer than delay_ms and at most a hundred years';
    ELSIF dedup_window_ms NOT BETWEEN 1 AND span_max THEN
        RAISE EXCEPTION 'posthorn: dedup_window_ms must be positive and at most a hundred years';
    ELSIF jsonb_typeof(headers) <> 'object' THEN
        RAISE EXCEPTION 'posthorn: headers must be a JSON object';
    ELSIF 1 + (SELECT coalesce(sum(octet_length(to_json(h.name)::text) + octet_length(h.value::text) + 2), 1)
                 FROM jsonb_each(headers) AS h (name, value)) > 65536 THEN
        RAISE EXCEPTION 'posthorn: headers must be at most 65536 bytes';
    ELSIF EXISTS (SELECT FROM jsonb_each(headers) AS h(name, value)
                   WHERE jsonb_typeof(h.value) <> 'string' OR h.name = '' OR h.name ILIKE 'posthorn-%'
                      OR h.name ~ '[\x01-\x1f\x7f]' OR (h.value #>> '{}') ~ '[\x01-\x1f\x7f]') THEN
        RAISE EXCEPTION 'posthorn: headers must be strings without control characters, their names not empty and not starting with posthorn-';
    ELSIF id = '00000000-0000-0000-0000-000000000000' THEN
        RAISE EXCEPTION 'posthorn: id must be a UUID, and not all zero';
    END IF;

    new_seq := {p}next_number();
    new_id := coalesce(id, {p}numbered_id(
        lpad(to_hex(now_us / 1000), 12, '0')
        || '7' || substr(md5(random()::text || clock_timestamp()::text || pg_backend_pid()::text), 1, 3)
        || substr('89ab', 1 + floor(random() * 4)::integer, 1) || substr(replace(gen_random_uuid()::text, '-', ''), 1, 5),
        new_seq));

    IF nullif(dedup_key, '') IS NOT NULL THEN
        INSERT INTO {p}dedup AS d (topic, dedup_key, id, seq, expires_at)
        VALUES (topic, dedup_key, new_id, new_seq, now_us + coalesce(dedup_window_ms, 86400000) * 1000)
            ON CONFLICT ON CONSTRAINT dedup_pkey
            DO UPDATE SET id = excluded.id, seq = excluded.seq, expires_at = excluded.expires_at
             WHERE d.expires_at <= now_us;
        IF NOT FOUND THEN
            SELECT d.id INTO known FROM {p}dedup d WHERE d.topic = enqueue.topic AND d.dedup_key = enqueue.dedup_key;
            RETURN known;
        END IF;
    END IF;

    IF id IS NOT NULL AND EXISTS (SELECT FROM {p}message m
                                   WHERE m.seq = ('x' || right(replace(id::text, '-', ''), 10))::bit(40)::bigint AND m.id = enqueue.id) THEN
        RAISE EXCEPTION 'posthorn: a message with this id exists already' USING ERRCODE = 'unique_violation';
    END IF;

    is_plain := coalesce(ordering_key, '') = '' AND coalesce(priority, 0) = 0 AND coalesce(delay_ms, 0) <= 0
                AND expires_after_ms IS NULL;
    BEGIN
        INSERT INTO {p}message (seq, created_at, due_at, place, id, own_id, priority, expires_at, topic, ordering_key,
                                correlation_id, causation_id, headers, payload)
        VALUES (new_seq, now_us, now_us + greatest(coalesce(delay_ms, 0), 0) * 1000,
                CASE WHEN is_plain THEN 0 WHEN coalesce(ordering_key, '') <> '' THEN 3 WHEN delay_ms > 0 THEN 2 ELSE 1 END,
                new_id, id IS NOT NULL, coalesce(priority, 0), now_us + expires_after_ms * 1000, topic,
                nullif(ordering_key, ''), nullif(correlation_id, ''), nullif(causation_id, ''),
                nullif(headers::text, '{}'), coalesce(payload, ''));
    EXCEPTION WHEN unique_violation THEN
        RAISE EXCEPTION 'posthorn: a message with this id exists already' USING ERRCODE = 'unique_violation';
    END;
    RETURN new_id;
END
$body$;

-- The same for those who have text.
CREATE FUNCTION {p}enqueue(
    topic            text,
    payload          text,
    ordering_key     text    DEFAULT NULL,
    priority         integer DEFAULT 0,
    delay_ms         bigint  DEFAULT 0,
    expires_after_ms bigint  DEFAULT NULL,
    dedup_key        text    DEFAULT NULL,
    dedup_window_ms  bigint  DEFAULT 86400000,
    correlation_id   text    DEFAULT NULL,
    causation_id     text    DEFAULT NULL,
    headers          jsonb   DEFAULT NULL,
    id               uuid    DEFAULT NULL
) RETURNS uuid LANGUAGE sql VOLATILE AS
$body$
    SELECT {p}enqueue(topic, convert_to(payload, 'UTF8'), ordering_key, priority, delay_ms, expires_after_ms, dedup_key,
                      dedup_window_ms, correlation_id, causation_id, headers, id)
$body$;

-- The schema's owner decides who may enqueue.
REVOKE ALL ON FUNCTION {p}enqueue(text, bytea, text, integer, bigint, bigint, text, bigint, text, text, jsonb, uuid) FROM PUBLIC;
REVOKE ALL ON FUNCTION {p}enqueue(text, text, text, integer, bigint, bigint, text, bigint, text, text, jsonb, uuid) FROM PUBLIC;
