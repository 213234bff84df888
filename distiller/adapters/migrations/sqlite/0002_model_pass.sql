-- The model pass: what a pass spent and of whose budget, what failed in it, and which backend a turn is meant for.

ALTER TABLE passes ADD COLUMN purse TEXT NOT NULL DEFAULT 'daily';
ALTER TABLE passes ADD COLUMN error TEXT; -- what failed, in words, without a word of the turn
ALTER TABLE passes ADD COLUMN fault TEXT; -- how a model ended badly: refused, cut-off
ALTER TABLE turns ADD COLUMN wanted TEXT; -- the only backend that may settle it, if the person named one

-- A claim sums up a purse. The columns added here lie behind prompt and answer in a row: the index saves reading those.
CREATE INDEX passes_spent ON passes (
  purse, started_at, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd
);
