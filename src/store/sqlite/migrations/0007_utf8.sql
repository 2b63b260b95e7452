-- Text that is not UTF-8 is refused by the contract, as by the library. SQLite stores any bytes as
-- text and reads what is malformed leniently, so a character is sound if its number gives the same
-- bytes again. U+FFFE and U+FFFF are sound too, though unicode() takes them for a replacement.
--
-- Most text is ASCII, which GLOB tells at once. substr() counts from the start each time: parts of
-- 256 characters keep that short. LIMIT keeps a part from being computed once per character.
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
