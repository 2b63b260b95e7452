-- Topics of up to 500 bytes, and none that begins with inbox: but from the inbox.
--
-- No table knows how long a topic may be: only this function does. The library checks by itself and writes into the
-- tables, so that its inbox is not concerned. The functions for text and JSON call this one. Who may call it may do so
-- afterwards.
CREATE OR REPLACE FUNCTION {p}enqueue(
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
    id               uuid    DEFAULT NULL,
    ring             boolean DEFAULT true
) RETURNS uuid LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$body$
#variable_conflict use_variable
DECLARE
    span_max CONSTANT bigint := 3155760000000;  -- a hundred years in milliseconds
    now_us   CONSTANT bigint := {p}clock(NULL::bigint);
    new_seq  bigint;
    new_id   uuid;
    known    uuid;
    is_plain boolean;
BEGIN
    IF topic IS NULL OR octet_length(topic) NOT BETWEEN 1 AND 500 THEN
        RAISE EXCEPTION 'posthorn: topic must be text of 1 to 500 bytes';
    ELSIF starts_with(topic, 'inbox:') THEN
        RAISE EXCEPTION 'posthorn: topic must not begin with inbox: because only the inbox stores messages from outside; choose another topic';
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
                new_id, id IS NOT NULL, coalesce(priority, 0), coalesce(now_us + expires_after_ms * 1000, 0), topic,
                coalesce(ordering_key, ''), coalesce(correlation_id, ''), coalesce(causation_id, ''),
                coalesce(nullif(headers::text, '{}'), ''), coalesce(payload, ''));
    EXCEPTION WHEN unique_violation THEN
        RAISE EXCEPTION 'posthorn: a message with this id exists already' USING ERRCODE = 'unique_violation';
    END;
    IF coalesce(ring, true) AND is_plain THEN
        PERFORM {p}ring_for(new_seq);
    ELSIF coalesce(ring, true) THEN
        PERFORM {p}ring();
    END IF;
    RETURN new_id;
END
$body$;
