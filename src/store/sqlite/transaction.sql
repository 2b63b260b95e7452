-- Beginning and ending transactions of our own; prepared like everything else that happens often.

-- name: begin_writing
BEGIN IMMEDIATE

-- name: begin_reading
BEGIN

-- name: commit
COMMIT
