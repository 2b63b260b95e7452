-- Topics of up to 500 bytes, and none that begins with inbox: but from the inbox.
--
-- The server cannot make a column of bytes longer than 255 without writing its table anew. The messages are the largest
-- table by far, so a long topic is written in two parts there: the second one is a column that is added at once, and
-- NULL for all others. A process that has opened the tables before still writes short topics as they are, and reads the
-- first part of long ones only.
--
-- Every step may be repeated: a column that is long enough is left alone.
ALTER TABLE {p}message ADD COLUMN IF NOT EXISTS topic_rest VARBINARY(245);

-- The other tables are rewritten. They are far smaller: a message is in them for a while, or not at all.
ALTER TABLE {p}dedup  MODIFY topic VARBINARY(500) NOT NULL;
ALTER TABLE {p}parked MODIFY topic VARBINARY(500) NOT NULL;
ALTER TABLE {p}paused MODIFY topic VARBINARY(500) NOT NULL;
ALTER TABLE {p}job    MODIFY topic VARBINARY(500) NOT NULL;
ALTER TABLE {p}joins  MODIFY on_complete_topic VARBINARY(500), MODIFY on_fail_topic VARBINARY(500);

-- The contract for every other language again, as in 0009 but for the topic. Its callers keep their rights.
DELIMITER //
CREATE OR REPLACE PROCEDURE {p}enqueue(IN topic LONGTEXT CHARACTER SET utf8mb4, IN payload LONGBLOB,
                                       IN options LONGTEXT CHARACTER SET utf8mb4, OUT id CHAR(36) CHARACTER SET ascii)
    MODIFIES SQL DATA
    SQL SECURITY DEFINER
BEGIN
    DECLARE refusal      TEXT CHARACTER SET utf8mb4;
    DECLARE fields       LONGTEXT CHARACTER SET utf8mb4;
    DECLARE texts        LONGTEXT CHARACTER SET utf8mb4;
    DECLARE name         LONGTEXT CHARACTER SET utf8mb4;
    DECLARE ordering_key LONGTEXT CHARACTER SET utf8mb4;
    DECLARE dedup_key    LONGTEXT CHARACTER SET utf8mb4;
    DECLARE correlation  LONGTEXT CHARACTER SET utf8mb4;
    DECLARE causation    LONGTEXT CHARACTER SET utf8mb4;
    DECLARE headers      LONGTEXT CHARACTER SET utf8mb4;
    DECLARE given_id     LONGTEXT CHARACTER SET utf8mb4;
    DECLARE priority     DOUBLE DEFAULT 0;
    DECLARE delay_ms     DOUBLE DEFAULT 0;
    DECLARE expires_ms   DOUBLE;
    DECLARE window_ms    DOUBLE DEFAULT 86400000;
    DECLARE position     INT DEFAULT 0;
    DECLARE now_us       BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    DECLARE id_bytes     VARBINARY(16);
    DECLARE number       BIGINT;
    DECLARE known_until  BIGINT;
    DECLARE is_known     BOOL;
    DECLARE alone        BOOL DEFAULT @@autocommit = 1 AND @@in_transaction = 0;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        -- After a deadlock there is no transaction any more, and nothing to undo.
        IF alone THEN
            ROLLBACK;
        ELSEIF @@in_transaction AND number IS NOT NULL THEN
            ROLLBACK TO SAVEPOINT posthorn_call;
        END IF;
        RESIGNAL;
    END;

    -- A temporary table hides the table of its name, also from a procedure that runs with the rights of another user. A
    -- caller could so make us write here what we have read there. This drops nothing else and commits nothing; mostly
    -- there is none, which is error 1051.
    BEGIN
        DECLARE CONTINUE HANDLER FOR 1051 BEGIN END;
        DROP TEMPORARY TABLE {p}message, {p}own_id, {p}ready, {p}queue, {p}dedup;
    END;

    SET id = NULL;
    IF options IS NOT NULL AND (NOT JSON_VALID(options) OR JSON_TYPE(options) <> 'OBJECT') THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'posthorn: options must be NULL or a JSON object';
    END IF;

    -- One pass over the options by name: what is JSON null counts as left out.
    SET fields = COALESCE(JSON_KEYS(options), '[]');
    WHILE refusal IS NULL AND position < JSON_LENGTH(fields) DO
        BEGIN
            DECLARE found LONGTEXT CHARACTER SET utf8mb4;
            DECLARE kind  VARCHAR(20);
            DECLARE text_value LONGTEXT CHARACTER SET utf8mb4;
            SET name = JSON_VALUE(fields, CONCAT('$[', position, ']'));
            SET found = JSON_EXTRACT(options, CONCAT('$."', REPLACE(name, '"', '\\"'), '"'));
            SET kind = JSON_TYPE(found);
            SET text_value = IF(kind = 'STRING', JSON_UNQUOTE(found), NULL);
            CASE
            WHEN name IN ('ordering_key', 'dedup_key', 'correlation_id', 'causation_id') THEN
                IF kind NOT IN ('STRING', 'NULL') OR OCTET_LENGTH(text_value) > 255 THEN
                    SET refusal = CONCAT(name, ' must be text of at most 255 bytes');
                ELSEIF INSTR(text_value, CHAR(0)) > 0 OR INSTR(found, '\\u0000') > 0 THEN
                    SET refusal = 'topic, keys and ids must not contain a NUL character';
                ELSEIF HEX(text_value) REGEXP '^(?:..)*ED[AB]' THEN
                    SET refusal = 'topic, keys and ids must be valid UTF-8';
                END IF;
                SET text_value = NULLIF(text_value, '');
                CASE name
                WHEN 'ordering_key' THEN SET ordering_key = text_value;
                WHEN 'dedup_key' THEN SET dedup_key = text_value;
                WHEN 'correlation_id' THEN SET correlation = text_value;
                ELSE SET causation = text_value;
                END CASE;
            WHEN name IN ('priority', 'delay_ms', 'expires_after_ms', 'dedup_window_ms') THEN
                IF kind NOT IN ('INTEGER', 'NULL') THEN
                    SET refusal = CONCAT(name, ' must be a whole number');
                ELSEIF kind = 'INTEGER' THEN
                    CASE name
                    WHEN 'priority' THEN SET priority = found + 0e0;
                    WHEN 'delay_ms' THEN SET delay_ms = found + 0e0;
                    WHEN 'expires_after_ms' THEN SET expires_ms = found + 0e0;
                    ELSE SET window_ms = found + 0e0;
                    END CASE;
                END IF;
            WHEN name = 'headers' THEN
                IF kind NOT IN ('OBJECT', 'NULL') THEN
                    SET refusal = 'headers must be a JSON object';
                ELSEIF kind = 'OBJECT' AND JSON_LENGTH(found) > 0 THEN
                    SET headers = found;
                END IF;
            WHEN name = 'id' THEN
                SET given_id = REPLACE(text_value, '-', '');
                IF kind <> 'NULL' AND (text_value IS NULL OR given_id NOT REGEXP '^[0-9A-Fa-f]{32}$'
                                       OR given_id = REPEAT('0', 32)
                                       OR (text_value <> given_id AND text_value NOT REGEXP
                                           '^[0-9A-Fa-f]{8}-([0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}$')) THEN
                    SET refusal = 'id must be a UUID as text, and not all zero';
                END IF;
            ELSE
                SET refusal = CONCAT('options must not contain ', LEFT(name, 40), ': it is not known');
            END CASE;
        END;
        SET position = position + 1;
    END WHILE;

    -- Three times 10^12 milliseconds are about a hundred years.
    SET refusal = CASE
        WHEN topic IS NULL OR OCTET_LENGTH(topic) NOT BETWEEN 1 AND 500 THEN 'topic must be text of 1 to 500 bytes'
        WHEN LEFT(CAST(topic AS BINARY), 6) = 'inbox:'
            THEN 'topic must not begin with inbox: because only the inbox stores messages from outside; choose another topic'
        WHEN INSTR(topic, CHAR(0)) > 0 THEN 'topic, keys and ids must not contain a NUL character'
        -- The server takes half a surrogate pair for a character: U+D800 to U+DFFF begin with ED A0 to ED BF.
        WHEN HEX(topic) REGEXP '^(?:..)*ED[AB]' THEN 'topic, keys and ids must be valid UTF-8'
        WHEN OCTET_LENGTH(payload) > 1048576 THEN 'payload must be at most 1048576 bytes'
        WHEN refusal IS NOT NULL THEN refusal
        WHEN priority NOT BETWEEN -100 AND 100 THEN 'priority must be a whole number from -100 to 100'
        WHEN delay_ms > 3155760000000 THEN 'delay_ms must be a whole number and at most a hundred years'
        WHEN expires_ms > 3155760000000 OR expires_ms <= GREATEST(delay_ms, 0)
            THEN 'expires_after_ms must be positive, longer than delay_ms and at most a hundred years'
        WHEN window_ms NOT BETWEEN 1 AND 3155760000000
            THEN 'dedup_window_ms must be positive and at most a hundred years'
        WHEN OCTET_LENGTH(headers) > 65536 THEN 'headers must be at most 65536 bytes'
        WHEN INSTR(CAST(headers AS BINARY), X'ED') > 0 AND HEX(headers) REGEXP '^(?:..)*ED[AB]'
            THEN 'headers must be valid UTF-8'
    END;
    IF headers IS NOT NULL AND refusal IS NULL THEN
        SET fields = JSON_KEYS(headers), texts = JSON_EXTRACT(headers, '$.*'), position = 0;
        IF JSON_LENGTH(texts) <> JSON_LENGTH(fields) THEN
            SET refusal = 'headers must not repeat a name';
        END IF;
        WHILE position < JSON_LENGTH(fields) DO
            SET name = JSON_VALUE(fields, CONCAT('$[', position, ']'));
            SET position = position + 1;
            IF COALESCE(name, '') = '' OR LOWER(LEFT(name, 9)) = 'posthorn-' OR name REGEXP '[\\x00-\\x1F\\x7F]'
               OR JSON_TYPE(JSON_EXTRACT(texts, CONCAT('$[', position - 1, ']'))) <> 'STRING'
               OR JSON_UNQUOTE(JSON_EXTRACT(texts, CONCAT('$[', position - 1, ']'))) REGEXP '[\\x00-\\x1F\\x7F]' THEN
                SET refusal = 'headers must be strings without control characters, their names not empty and not starting with posthorn-';
            END IF;
        END WHILE;
    END IF;
    IF refusal IS NOT NULL THEN
        SET refusal = CONCAT('posthorn: ', refusal);
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refusal;
    END IF;

    -- All or nothing, in the caller's transaction or in one of its own. `number` says that the savepoint is there.
    IF alone THEN
        START TRANSACTION;
    ELSE
        SAVEPOINT posthorn_call;
    END IF;
    SET number = 0;

    -- Inserted first: whoever comes second with an equal key waits here, and then finds the first message. INSERT IGNORE
    -- would lock a row that exists for sharing only, and two that find an expired one would then wait for each other.
    IF dedup_key IS NOT NULL THEN
        INSERT INTO {p}dedup (topic, dedup_key, id, seq, expires_at) VALUES (topic, dedup_key, '', 0, 0)
            ON DUPLICATE KEY UPDATE seq = {p}dedup.seq;
        SELECT d.id, d.expires_at INTO id_bytes, known_until FROM {p}dedup d
         WHERE d.topic = CAST(topic AS BINARY) AND d.dedup_key = CAST(dedup_key AS BINARY) LOCK IN SHARE MODE;
    END IF;

    IF COALESCE(known_until, 0) <= now_us THEN
        IF given_id IS NOT NULL THEN
            SET id_bytes = UNHEX(given_id);
            -- SELECT … INTO reads without a lock. A subquery in IF would lock the gap in which the id would be, which at
            -- REPEATABLE READ is mostly the one where everybody's next message goes.
            SELECT EXISTS (SELECT 1 FROM {p}own_id o WHERE o.id = id_bytes)
                OR EXISTS (SELECT 1 FROM {p}message m
                            WHERE m.seq = CONV(HEX(RIGHT(id_bytes, 5)), 16, 10) AND m.id = id_bytes) INTO is_known;
            IF is_known THEN
                SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'posthorn: a message with this id exists already';
            END IF;
        ELSE
            SET id_bytes = UNHEX(CONCAT(LPAD(HEX(now_us DIV 1000), 12, '0'), '7', LPAD(HEX(FLOOR(RAND() * 4096)), 3, '0'),
                                        HEX(128 + FLOOR(RAND() * 64)), LPAD(HEX(FLOOR(RAND() * 65536)), 4, '0')));
        END IF;
        INSERT INTO {p}message (id_start, created_at, topic, topic_rest, ordering_key, correlation_id, causation_id, headers,
                                payload)
        VALUES (id_bytes, now_us, LEFT(CAST(topic AS BINARY), 255), NULLIF(SUBSTR(CAST(topic AS BINARY), 256), ''),
                ordering_key, correlation, causation, headers, COALESCE(payload, ''));
        SET number = LAST_INSERT_ID();
        IF given_id IS NOT NULL THEN
            INSERT INTO {p}own_id (id, seq) VALUES (id_bytes, number);
        ELSE
            SET id_bytes = CONCAT(id_bytes, UNHEX(LPAD(HEX(number), 10, '0')));
        END IF;
        IF ordering_key IS NULL AND priority = 0 AND delay_ms <= 0 AND expires_ms IS NULL THEN
            INSERT INTO {p}ready (seq) VALUES (number);
        ELSE
            INSERT INTO {p}queue (seq, place, urgency, due_at, expires_at, ordering_key)
            VALUES (number, IF(ordering_key IS NULL, 1, 0), -priority,
                    now_us + CAST(GREATEST(delay_ms, 0) * 1000 AS SIGNED), now_us + CAST(expires_ms * 1000 AS SIGNED),
                    ordering_key);
        END IF;
        IF dedup_key IS NOT NULL THEN
            UPDATE {p}dedup d
               SET d.id = id_bytes, d.seq = number, d.expires_at = now_us + CAST(window_ms * 1000 AS SIGNED)
             WHERE d.topic = CAST(topic AS BINARY) AND d.dedup_key = CAST(dedup_key AS BINARY);
        END IF;
    END IF;

    IF alone THEN
        COMMIT;
    ELSE
        RELEASE SAVEPOINT posthorn_call;
    END IF;
    SET id = LOWER(CONCAT_WS('-', HEX(LEFT(id_bytes, 4)), HEX(SUBSTR(id_bytes, 5, 2)), HEX(SUBSTR(id_bytes, 7, 2)),
                             HEX(SUBSTR(id_bytes, 9, 2)), HEX(RIGHT(id_bytes, 6))));
END //
DELIMITER ;
