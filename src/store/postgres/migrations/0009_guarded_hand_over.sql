-- Who may enqueue, and nothing else, must not be able to do more with what hands messages over.

-- A trigger function runs with the rights of its owner on whatever table it is put on; it is meant for one table only. The
-- trigger that exists goes on: rights are asked for when it is made.
REVOKE ALL ON FUNCTION {p}hand_over() FROM PUBLIC;

-- Only a message that exists and waits can be noted. Numbers that are still to come could be occupied otherwise, and
-- whoever drew one would wait.
CREATE OR REPLACE FUNCTION {p}hand_over_at_commit(seq bigint) RETURNS boolean LANGUAGE sql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS
$$ INSERT INTO {p}handing (seq)
   SELECT m.seq FROM {p}message m WHERE m.seq = hand_over_at_commit.seq AND m.state = 0 AND m.place = 0
       ON CONFLICT DO NOTHING;
   SELECT true $$;
