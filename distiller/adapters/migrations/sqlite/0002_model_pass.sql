-- The model pass: what a pass spent and of whose budget, what failed in it, and which turns the service leaves alone.

ALTER TABLE passes ADD COLUMN purse TEXT NOT NULL DEFAULT 'daily';
ALTER TABLE passes ADD COLUMN error TEXT; -- what failed, in words, without a word of the turn
ALTER TABLE passes ADD COLUMN fault TEXT; -- how a model ended badly: refused, cut-off
ALTER TABLE turns ADD COLUMN by_hand INTEGER NOT NULL DEFAULT 0; -- read for a command of the person, at its cost

-- A claim sums up a purse. The columns added here lie behind prompt and answer in a row: the index saves reading those.
CREATE INDEX passes_spent ON passes (
  purse, started_at, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd
);

-- Who looks for due turns reads all that wait: their order and all that decides, without their texts.
DROP INDEX turns_waiting;
CREATE INDEX turns_waiting ON turns (
  ended_at, start_byte, key, state, by_hand, reason, retry_at, lease_until, agent, session_id, project_key, enrolled_at
) WHERE state = 'waiting';
DROP INDEX turns_behind;
CREATE INDEX turns_behind ON turns (
  agent, session_id, ended_at, start_byte, key, state, by_hand, reason, retry_at, project_key
) WHERE state = 'waiting';
