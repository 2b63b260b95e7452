-- The W3C trace in which a join was opened, so that its continuation goes on with it: `traceparent`, and behind a blank
-- `tracestate`. NULL: none.
ALTER TABLE {p}joins ADD COLUMN IF NOT EXISTS trace VARBINARY(1024);
