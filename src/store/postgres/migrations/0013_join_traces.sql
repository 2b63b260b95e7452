-- The W3C trace in which a join was opened, so that its continuation goes on with it: `traceparent`, and behind a blank
-- `tracestate`. Empty: none.
ALTER TABLE {p}joins ADD COLUMN trace text NOT NULL DEFAULT '';
