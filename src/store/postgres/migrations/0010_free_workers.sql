-- Workers wait for no transaction of an application.

-- Keys whose head has ended while another transaction held the head, or the message that is next. A chore before a later
-- claim moves them. No key is unique here: an insert would wait for the insert of another transaction.
CREATE TABLE {p}stale_head (
    ordering_key text NOT NULL
);

-- Half-full pages have room for one more version of each row. With several connections the second one often came before
-- the first could be pruned, and the row moved to another page with a full image in the log.
ALTER TABLE {p}message SET (fillfactor = 33);
