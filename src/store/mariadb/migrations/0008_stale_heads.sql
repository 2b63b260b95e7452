-- Keys that wait for another transaction.
--
-- Every step may be repeated.

-- Keys whose head has ended while another transaction held the head, or the message behind it. A worker moves the head
-- on before a later claim. A key may be here several times: nothing waits for a row of this table.
CREATE TABLE IF NOT EXISTS {p}stale_head (
    number       BIGINT         NOT NULL AUTO_INCREMENT PRIMARY KEY,
    ordering_key VARBINARY(255) NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = 'Posthorn';
