-- One index for all places. Every enqueue opens every index of its table and asks whether it is meant, also when the answer
-- is no: five that were only about places become one.

DROP INDEX {p}message_new;
DROP INDEX {p}message_open;
DROP INDEX {p}message_aside;
DROP INDEX {p}message_dead;
DROP INDEX {p}message_died;
CREATE INDEX message_place ON {p}message (place, seq) WHERE place <> 0;
