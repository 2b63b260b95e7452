-- Topics of up to 500 bytes, and none that begins with inbox: but from the inbox.
--
-- No table knows how long a topic may be: only this trigger does. The library checks by itself and writes into the
-- tables, so that its inbox is not concerned.
DROP TRIGGER {p}enqueue_insert;
DROP TRIGGER {p}enqueue_utf8;

CREATE TRIGGER {p}enqueue_insert INSTEAD OF INSERT ON {p}enqueue
BEGIN
    SELECT CASE
        WHEN NEW.topic IS NULL OR typeof(NEW.topic) <> 'text'
             OR length(CAST(NEW.topic AS BLOB)) NOT BETWEEN 1 AND 500
            THEN RAISE(ABORT, 'posthorn: topic must be text of 1 to 500 bytes')
        WHEN substr(CAST(NEW.topic AS BLOB), 1, 6) = CAST('inbox:' AS BLOB)
            THEN RAISE(ABORT, 'posthorn: topic must not begin with inbox: because only the inbox stores messages from outside; choose another topic')
        WHEN length(CAST(coalesce(NEW.payload, '') AS BLOB)) > 1048576
            THEN RAISE(ABORT, 'posthorn: payload must be at most 1048576 bytes')
        WHEN typeof(NEW.ordering_key) = 'blob' OR length(CAST(coalesce(NEW.ordering_key, '') AS BLOB)) > 255
            THEN RAISE(ABORT, 'posthorn: ordering_key must be text of at most 255 bytes')
        WHEN typeof(NEW.dedup_key) = 'blob' OR length(CAST(coalesce(NEW.dedup_key, '') AS BLOB)) > 255
            THEN RAISE(ABORT, 'posthorn: dedup_key must be text of at most 255 bytes')
        WHEN typeof(NEW.correlation_id) = 'blob' OR length(CAST(coalesce(NEW.correlation_id, '') AS BLOB)) > 255
            THEN RAISE(ABORT, 'posthorn: correlation_id must be text of at most 255 bytes')
        WHEN typeof(NEW.causation_id) = 'blob' OR length(CAST(coalesce(NEW.causation_id, '') AS BLOB)) > 255
            THEN RAISE(ABORT, 'posthorn: causation_id must be text of at most 255 bytes')
        WHEN instr(NEW.topic || coalesce(NEW.ordering_key, '') || coalesce(NEW.dedup_key, '')
                   || coalesce(NEW.correlation_id, '') || coalesce(NEW.causation_id, ''), char(0)) > 0
            THEN RAISE(ABORT, 'posthorn: topic, keys and ids must not contain a NUL character')
        WHEN coalesce(NEW.priority, 0) NOT BETWEEN -100 AND 100
             OR typeof(coalesce(NEW.priority, 0)) <> 'integer'
            THEN RAISE(ABORT, 'posthorn: priority must be a whole number from -100 to 100')
        -- Three times 10^12 milliseconds are about a hundred years.
        WHEN typeof(coalesce(NEW.delay_ms, 0)) <> 'integer' OR coalesce(NEW.delay_ms, 0) > 3155760000000
            THEN RAISE(ABORT, 'posthorn: delay_ms must be a whole number and at most a hundred years')
        WHEN NEW.expires_after_ms IS NOT NULL
             AND (typeof(NEW.expires_after_ms) <> 'integer' OR NEW.expires_after_ms > 3155760000000
                  OR NEW.expires_after_ms <= max(coalesce(NEW.delay_ms, 0), 0))
            THEN RAISE(ABORT, 'posthorn: expires_after_ms must be positive, longer than delay_ms and at most a hundred years')
        WHEN typeof(coalesce(NEW.dedup_window_ms, 1)) <> 'integer'
             OR coalesce(NEW.dedup_window_ms, 1) NOT BETWEEN 1 AND 3155760000000
            THEN RAISE(ABORT, 'posthorn: dedup_window_ms must be positive and at most a hundred years')
        WHEN NEW.headers IS NOT NULL
             AND (typeof(NEW.headers) <> 'text' OR NOT json_valid(NEW.headers) OR json_type(NEW.headers) <> 'object')
            THEN RAISE(ABORT, 'posthorn: headers must be a JSON object')
        WHEN length(CAST(coalesce(NEW.headers, '') AS BLOB)) > 65536
            THEN RAISE(ABORT, 'posthorn: headers must be at most 65536 bytes')
        WHEN NEW.headers IS NOT NULL
             AND (instr(NEW.headers, '\u0000') > 0 OR EXISTS (SELECT 1 FROM json_each(NEW.headers)
                         WHERE key = '' OR key LIKE 'posthorn-%' OR type <> 'text'
                            OR key GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'
                            OR value GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'))
            THEN RAISE(ABORT, 'posthorn: headers must be strings without control characters, their names not empty and not starting with posthorn-')
        WHEN NEW.id IS NOT NULL AND (typeof(NEW.id) <> 'blob' OR length(NEW.id) <> 16 OR NEW.id = zeroblob(16))
            THEN RAISE(ABORT, 'posthorn: id must be a blob of 16 bytes, and not all zero')
    END;

    -- A known dedup key inside its window: nothing to add.
    SELECT RAISE(IGNORE)
     WHERE EXISTS (SELECT 1 FROM {p}dedup
                    WHERE topic = NEW.topic AND dedup_key = nullif(NEW.dedup_key, '')
                      AND expires_at > CAST(strftime('%s', 'now') AS INTEGER) * 1000000
                                     + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000);

    -- Bytes 12 to 16 of an id that Posthorn made are its message's number.
    SELECT RAISE(ABORT, 'posthorn: a message with this id exists already')
     WHERE EXISTS (SELECT 1 FROM {p}message WHERE id = NEW.id AND own_id = 1)
        OR EXISTS (SELECT 1 FROM {p}message
                    WHERE id = NEW.id
                      AND seq = (SELECT (instr(b, substr(NEW.id, 12, 1)) - 1 << 32)
                                      + (instr(b, substr(NEW.id, 13, 1)) - 1 << 24)
                                      + (instr(b, substr(NEW.id, 14, 1)) - 1 << 16)
                                      + (instr(b, substr(NEW.id, 15, 1)) - 1 << 8)
                                      + (instr(b, substr(NEW.id, 16, 1)) - 1)
                                   FROM (SELECT X'000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F202122232425262728292A2B2C2D2E2F303132333435363738393A3B3C3D3E3F404142434445464748494A4B4C4D4E4F505152535455565758595A5B5C5D5E5F606162636465666768696A6B6C6D6E6F707172737475767778797A7B7C7D7E7F808182838485868788898A8B8C8D8E8F909192939495969798999A9B9C9D9E9FA0A1A2A3A4A5A6A7A8A9AAABACADAEAFB0B1B2B3B4B5B6B7B8B9BABBBCBDBEBFC0C1C2C3C4C5C6C7C8C9CACBCCCDCECFD0D1D2D3D4D5D6D7D8D9DADBDCDDDEDFE0E1E2E3E4E5E6E7E8E9EAEBECEDEEEFF0F1F2F3F4F5F6F7F8F9FAFBFCFDFEFF' AS b)));

    UPDATE {p}log SET last_seq = last_seq + 1 WHERE one = 1;

    -- The id is a UUIDv7; the long literal is the list of all bytes, to turn numbers into bytes.
    INSERT INTO {p}message (seq, plain, own_id, id, created_at, topic, ordering_key, correlation_id,
                            causation_id, headers, payload)
    SELECT last_seq,
           coalesce(NEW.ordering_key, '') = '' AND coalesce(NEW.priority, 0) = 0
               AND coalesce(NEW.delay_ms, 0) <= 0 AND NEW.expires_after_ms IS NULL,
           NEW.id IS NOT NULL,
           coalesce(NEW.id, CAST(
               substr(b, (ms >> 40 & 255) + 1, 1) || substr(b, (ms >> 32 & 255) + 1, 1)
               || substr(b, (ms >> 24 & 255) + 1, 1) || substr(b, (ms >> 16 & 255) + 1, 1)
               || substr(b, (ms >> 8 & 255) + 1, 1) || substr(b, (ms & 255) + 1, 1)
               || substr(b, (112 | (random() & 15)) + 1, 1) || randomblob(1)
               || substr(b, (128 | (random() & 63)) + 1, 1) || randomblob(2)
               || substr(b, (last_seq >> 32 & 255) + 1, 1) || substr(b, (last_seq >> 24 & 255) + 1, 1)
               || substr(b, (last_seq >> 16 & 255) + 1, 1) || substr(b, (last_seq >> 8 & 255) + 1, 1)
               || substr(b, (last_seq & 255) + 1, 1) AS BLOB)),
           ms * 1000, NEW.topic, nullif(NEW.ordering_key, ''), nullif(NEW.correlation_id, ''),
           nullif(NEW.causation_id, ''), nullif(NEW.headers, '{}'), CAST(coalesce(NEW.payload, '') AS BLOB)
      FROM (SELECT last_seq,
                   CAST(strftime('%s', 'now') AS INTEGER) * 1000
                 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) AS ms,
                   X'000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F202122232425262728292A2B2C2D2E2F303132333435363738393A3B3C3D3E3F404142434445464748494A4B4C4D4E4F505152535455565758595A5B5C5D5E5F606162636465666768696A6B6C6D6E6F707172737475767778797A7B7C7D7E7F808182838485868788898A8B8C8D8E8F909192939495969798999A9B9C9D9E9FA0A1A2A3A4A5A6A7A8A9AAABACADAEAFB0B1B2B3B4B5B6B7B8B9BABBBCBDBEBFC0C1C2C3C4C5C6C7C8C9CACBCCCDCECFD0D1D2D3D4D5D6D7D8D9DADBDCDDDEDFE0E1E2E3E4E5E6E7E8E9EAEBECEDEEEFF0F1F2F3F4F5F6F7F8F9FAFBFCFDFEFF' AS b
              FROM {p}log WHERE one = 1);

    INSERT INTO {p}dedup (topic, dedup_key, id, seq, expires_at)
    SELECT topic, NEW.dedup_key, id, seq, created_at + coalesce(NEW.dedup_window_ms, 86400000) * 1000
      FROM {p}message WHERE seq = (SELECT last_seq FROM {p}log WHERE one = 1) AND coalesce(NEW.dedup_key, '') <> ''
        ON CONFLICT (topic, dedup_key)
        DO UPDATE SET id = excluded.id, seq = excluded.seq, expires_at = excluded.expires_at;

    INSERT INTO {p}queue (seq, state, priority, due_at, expires_at, ordering_key)
    SELECT m.seq,
           EXISTS (SELECT 1 FROM {p}queue q WHERE q.ordering_key = m.ordering_key AND q.state <= 3),
           coalesce(NEW.priority, 0), m.created_at + max(coalesce(NEW.delay_ms, 0), 0) * 1000,
           m.created_at + NEW.expires_after_ms * 1000, m.ordering_key
      FROM {p}message m WHERE m.seq = (SELECT last_seq FROM {p}log WHERE one = 1) AND NOT m.plain;
END;

-- As in 0007. It is made anew because the trigger that was made last looks first.
CREATE TRIGGER {p}enqueue_utf8 INSTEAD OF INSERT ON {p}enqueue
BEGIN
    SELECT RAISE(ABORT, 'posthorn: topic, keys and ids must be valid UTF-8')
      FROM (SELECT NEW.topic AS words UNION ALL SELECT NEW.ordering_key
            UNION ALL SELECT NEW.dedup_key UNION ALL SELECT NEW.correlation_id
            UNION ALL SELECT NEW.causation_id) t
     WHERE words GLOB '*[^' || char(1) || '-' || char(127) || ']*'
       AND EXISTS (SELECT 1
                     FROM json_each('[0' || replace(hex(zeroblob(min(length(words), 512))), '00', ',0') || ']') at
                    WHERE at.key < length(words)
                      AND CAST(substr(words, 1 + at.key, 1) AS BLOB)
                          <> CAST(char(unicode(substr(words, 1 + at.key, 1))) AS BLOB)
                      AND CAST(substr(words, 1 + at.key, 1) AS BLOB) NOT IN (X'EFBFBE', X'EFBFBF'));

    SELECT RAISE(ABORT, 'posthorn: headers must be valid UTF-8')
      FROM (SELECT key AS words
              FROM json_each(CASE WHEN json_valid(NEW.headers) THEN NEW.headers END)
            UNION ALL
            SELECT value FROM json_each(CASE WHEN json_valid(NEW.headers) THEN NEW.headers END)) t
     WHERE words GLOB '*[^' || char(1) || '-' || char(127) || ']*'
       AND EXISTS (SELECT 1
                     FROM (SELECT substr(words, 1 + 256 * piece.key, 256) AS part
                             FROM json_each('[0' || replace(hex(zeroblob(length(words) / 256)), '00', ',0') || ']') piece
                            LIMIT 1000) p,
                          json_each('[0' || replace(hex(zeroblob(length(part))), '00', ',0') || ']') at
                    WHERE at.key < length(part)
                      AND CAST(substr(part, 1 + at.key, 1) AS BLOB)
                          <> CAST(char(unicode(substr(part, 1 + at.key, 1))) AS BLOB)
                      AND CAST(substr(part, 1 + at.key, 1) AS BLOB) NOT IN (X'EFBFBE', X'EFBFBF'));
END;
