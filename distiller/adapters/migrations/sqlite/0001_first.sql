-- Tables as in CONTRACTS §6. Times are UTC text, JSON is text, *_zlib is zlib over UTF-8 JSON.

CREATE TABLE turns (
  key TEXT NOT NULL,
  revision INTEGER NOT NULL,
  newest INTEGER NOT NULL DEFAULT 1, -- the highest revision of its key: totals count these
  id TEXT NOT NULL,
  agent TEXT NOT NULL,
  session_id TEXT NOT NULL,
  project_key TEXT NOT NULL,
  file TEXT NOT NULL,
  start_byte INTEGER NOT NULL,
  end_byte INTEGER NOT NULL,
  prompt_at TEXT,
  ended_at TEXT NOT NULL,
  end_sign TEXT NOT NULL,
  digest TEXT NOT NULL,
  words_digest TEXT NOT NULL,
  prompt_digest TEXT,
  prompt TEXT NOT NULL DEFAULT '',
  state TEXT NOT NULL,
  reason TEXT,
  backend TEXT,
  attempts INTEGER NOT NULL DEFAULT 0,
  lease_owner TEXT,
  lease_generation INTEGER NOT NULL DEFAULT 0,
  lease_until TEXT,
  retry_at TEXT,
  reserved_tokens INTEGER NOT NULL DEFAULT 0,
  reserved_usd REAL NOT NULL DEFAULT 0,
  text BLOB, -- zlib; there as long as the turn waits, or is dead
  enrolled_at TEXT NOT NULL,
  settled_at TEXT,
  pass_id TEXT,
  PRIMARY KEY (key, revision)
) WITHOUT ROWID;
CREATE INDEX turns_id ON turns (id);
CREATE INDEX turns_ended ON turns (ended_at) WHERE newest = 1;
CREATE INDEX turns_session ON turns (session_id, agent, state) WHERE newest = 1;
CREATE INDEX turns_state ON turns (state, reason) WHERE newest = 1;
CREATE INDEX turns_settled ON turns (settled_at) WHERE settled_at IS NOT NULL;
CREATE INDEX turns_waiting ON turns (ended_at) WHERE state = 'waiting';
CREATE INDEX turns_behind ON turns (agent, session_id, ended_at) WHERE state = 'waiting';
CREATE INDEX turns_repeat ON turns (prompt_digest) WHERE prompt_digest IS NOT NULL;

CREATE TABLE turn_messages (
  agent TEXT NOT NULL,
  message_id TEXT NOT NULL,
  turn_key TEXT NOT NULL,
  PRIMARY KEY (agent, message_id)
) WITHOUT ROWID;

CREATE TABLE passes (
  id TEXT PRIMARY KEY,
  turn_key TEXT NOT NULL,
  revision INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  backend TEXT,
  model TEXT,
  prompt_version TEXT,
  started_at TEXT NOT NULL,
  wait_ms INTEGER NOT NULL DEFAULT 0,
  took_ms INTEGER NOT NULL DEFAULT 0,
  calls INTEGER NOT NULL DEFAULT 0,
  input_tokens INTEGER NOT NULL DEFAULT 0, -- an open pass holds its reservation here, a lost one keeps it
  output_tokens INTEGER NOT NULL DEFAULT 0,
  cache_read_tokens INTEGER NOT NULL DEFAULT 0,
  cache_write_tokens INTEGER NOT NULL DEFAULT 0,
  cost_usd REAL,
  outcome TEXT, -- null while open; a turn's state, or interrupted
  reason TEXT,
  operations TEXT NOT NULL DEFAULT '{}',
  refusals TEXT NOT NULL DEFAULT '[]',
  prompt BLOB, -- zlib
  answer BLOB -- zlib
);
CREATE INDEX passes_turn ON passes (turn_key, revision);
CREATE INDEX passes_started ON passes (started_at);

CREATE TABLE facts (
  number INTEGER PRIMARY KEY, -- what the full-text index points at
  id TEXT NOT NULL UNIQUE,
  scope TEXT NOT NULL,
  name TEXT NOT NULL,
  proposed_name TEXT,
  kind TEXT NOT NULL,
  status TEXT NOT NULL,
  strength TEXT NOT NULL,
  pinned INTEGER NOT NULL DEFAULT 0,
  summary TEXT NOT NULL,
  body TEXT NOT NULL,
  related TEXT NOT NULL DEFAULT '[]',
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  first_said_at TEXT NOT NULL,
  last_confirmed_at TEXT NOT NULL,
  valid_until TEXT,
  forgotten_at TEXT,
  source_pass_id TEXT,
  edited_by_person INTEGER NOT NULL DEFAULT 0,
  expires_at TEXT,
  rev INTEGER NOT NULL,
  UNIQUE (scope, name)
);
CREATE INDEX facts_listed ON facts (scope, status, updated_at);
CREATE INDEX facts_proposed ON facts (scope, proposed_name) WHERE proposed_name IS NOT NULL;

-- unicode61 splits a slug at its dashes; a word of the name weighs more than one of the body.
CREATE VIRTUAL TABLE facts_fts USING fts5 (
  name, summary, body, tokenize = 'porter unicode61', content = 'facts', content_rowid = 'number'
);
INSERT INTO facts_fts (facts_fts, rank) VALUES ('rank', 'bm25(4.0, 2.0, 1.0)');
CREATE TRIGGER facts_ai AFTER INSERT ON facts BEGIN
  INSERT INTO facts_fts (rowid, name, summary, body) VALUES (new.number, new.name, new.summary, new.body);
END;
CREATE TRIGGER facts_ad AFTER DELETE ON facts BEGIN
  INSERT INTO facts_fts (facts_fts, rowid, name, summary, body)
  VALUES ('delete', old.number, old.name, old.summary, old.body);
END;
CREATE TRIGGER facts_au AFTER UPDATE OF name, summary, body ON facts BEGIN
  INSERT INTO facts_fts (facts_fts, rowid, name, summary, body)
  VALUES ('delete', old.number, old.name, old.summary, old.body);
  INSERT INTO facts_fts (rowid, name, summary, body) VALUES (new.number, new.name, new.summary, new.body);
END;

CREATE TABLE fact_history (
  fact_id TEXT NOT NULL REFERENCES facts (id) ON DELETE CASCADE,
  rev INTEGER NOT NULL,
  number INTEGER NOT NULL, -- order over all facts
  op TEXT NOT NULL,
  actor TEXT NOT NULL,
  at TEXT NOT NULL,
  group_id TEXT NOT NULL,
  reason TEXT NOT NULL DEFAULT '',
  pass_id TEXT,
  before TEXT,
  after TEXT,
  PRIMARY KEY (fact_id, rev)
);
CREATE UNIQUE INDEX fact_history_number ON fact_history (number);
CREATE INDEX fact_history_group ON fact_history (group_id);
CREATE INDEX fact_history_pass ON fact_history (pass_id) WHERE pass_id IS NOT NULL;

CREATE TABLE redirects (
  scope TEXT NOT NULL,
  name TEXT NOT NULL,
  fact_id TEXT NOT NULL REFERENCES facts (id) ON DELETE CASCADE,
  why TEXT NOT NULL,
  at TEXT NOT NULL,
  PRIMARY KEY (scope, name)
);
CREATE INDEX redirects_fact ON redirects (fact_id);

CREATE TABLE evidence (
  id TEXT PRIMARY KEY,
  agent TEXT NOT NULL,
  session_id TEXT NOT NULL,
  root_session_id TEXT NOT NULL DEFAULT '',
  turn_key TEXT NOT NULL,
  message_id TEXT NOT NULL,
  role TEXT NOT NULL,
  quote TEXT NOT NULL,
  said_at TEXT NOT NULL,
  local_date TEXT NOT NULL,
  project_key TEXT NOT NULL,
  file TEXT NOT NULL,
  UNIQUE (agent, message_id, quote)
);
CREATE INDEX evidence_turn ON evidence (turn_key);
CREATE INDEX evidence_session ON evidence (session_id);

CREATE TABLE evidence_links (
  owner TEXT NOT NULL, -- fact, candidate, proposal
  owner_id TEXT NOT NULL,
  evidence_id TEXT NOT NULL REFERENCES evidence (id) ON DELETE CASCADE,
  part TEXT NOT NULL DEFAULT 'claims',
  PRIMARY KEY (owner_id, evidence_id)
);
CREATE INDEX evidence_links_evidence ON evidence_links (evidence_id);

CREATE TABLE candidates (
  id TEXT PRIMARY KEY,
  scope TEXT NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  summary TEXT NOT NULL,
  body TEXT NOT NULL,
  sessions TEXT NOT NULL,
  first_at TEXT NOT NULL,
  last_at TEXT NOT NULL,
  status TEXT NOT NULL,
  fact_id TEXT
);
CREATE INDEX candidates_status ON candidates (status, scope);

CREATE TABLE proposals (
  id TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  fact_id TEXT,
  change TEXT NOT NULL,
  status TEXT NOT NULL,
  created_at TEXT NOT NULL,
  decided_at TEXT,
  decided_by TEXT,
  pass_id TEXT
);
CREATE INDEX proposals_status ON proposals (status);
CREATE INDEX proposals_fact ON proposals (fact_id);

CREATE TABLE tombstones (
  key_id TEXT NOT NULL,
  hash TEXT NOT NULL,
  what TEXT NOT NULL, -- slug, quote
  at TEXT NOT NULL,
  PRIMARY KEY (key_id, hash)
) WITHOUT ROWID;

CREATE TABLE pauses (
  id TEXT PRIMARY KEY,
  level TEXT NOT NULL,
  target TEXT NOT NULL,
  from_at TEXT NOT NULL,
  until_at TEXT
);

CREATE TABLE sessions (
  agent TEXT NOT NULL,
  id TEXT NOT NULL,
  root_session_id TEXT NOT NULL,
  parent_session_id TEXT,
  role TEXT NOT NULL,
  title TEXT,
  cwd TEXT,
  project_key TEXT,
  file TEXT,
  model TEXT,
  started_at TEXT,
  last_at TEXT,
  off_record_at TEXT,
  note TEXT,
  note_turn_key TEXT,
  PRIMARY KEY (agent, id)
);
CREATE INDEX sessions_id ON sessions (id);
CREATE INDEX sessions_last ON sessions (last_at);

CREATE TABLE cursors (
  path TEXT PRIMARY KEY,
  agent TEXT NOT NULL,
  session_id TEXT NOT NULL,
  device TEXT NOT NULL, -- as text: the kernel numbers up to 2^64
  inode TEXT NOT NULL,
  head_hash TEXT NOT NULL,
  head_bytes INTEGER NOT NULL,
  tail_hash TEXT NOT NULL,
  offset_byte INTEGER NOT NULL,
  size_bytes INTEGER NOT NULL,
  backfilled_to_byte INTEGER NOT NULL DEFAULT 0,
  backlog_to_byte INTEGER NOT NULL DEFAULT 0,
  seen_at TEXT NOT NULL,
  lines_malformed INTEGER NOT NULL DEFAULT 0,
  lines_too_long INTEGER NOT NULL DEFAULT 0,
  lines_unknown TEXT NOT NULL DEFAULT '{}'
);

CREATE TABLE runs (
  run_id TEXT PRIMARY KEY, -- agent:session
  agent TEXT NOT NULL,
  session_id TEXT NOT NULL,
  project_key TEXT,
  started_at TEXT,
  outcome TEXT,
  turns INTEGER NOT NULL DEFAULT 0,
  cost_usd REAL,
  tool_calls TEXT NOT NULL DEFAULT '{}', -- name: [calls, failed]
  final_summary TEXT
);

CREATE TABLE recalls (
  id TEXT PRIMARY KEY,
  at TEXT NOT NULL,
  channel TEXT NOT NULL,
  agent TEXT,
  session_id TEXT,
  turn_key TEXT,
  project_key TEXT,
  query TEXT,
  names TEXT NOT NULL,
  scope TEXT NOT NULL,
  k INTEGER NOT NULL,
  fact_ids TEXT NOT NULL,
  matched INTEGER NOT NULL,
  took_ms INTEGER NOT NULL
);
CREATE INDEX recalls_at ON recalls (at);
CREATE TABLE recalled_facts ( -- fact_ids once more, so that counting needs no scan
  recall_id TEXT NOT NULL REFERENCES recalls (id) ON DELETE CASCADE,
  fact_id TEXT NOT NULL,
  at TEXT NOT NULL,
  PRIMARY KEY (fact_id, recall_id)
) WITHOUT ROWID;
CREATE INDEX recalled_facts_recall ON recalled_facts (recall_id);

CREATE TABLE projects (
  key TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  remote TEXT,
  alias_of TEXT,
  reading TEXT,
  first_at TEXT,
  last_at TEXT
);
CREATE INDEX projects_alias ON projects (alias_of) WHERE alias_of IS NOT NULL;
CREATE TABLE folders (
  path TEXT PRIMARY KEY,
  project_key TEXT NOT NULL,
  machine_id TEXT,
  resolved_at TEXT NOT NULL
);
CREATE INDEX folders_project ON folders (project_key);

CREATE TABLE imports (
  path TEXT NOT NULL,
  name TEXT NOT NULL,
  digest TEXT NOT NULL,
  fact_id TEXT,
  at TEXT NOT NULL,
  PRIMARY KEY (path, name)
);

CREATE TABLE settings (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL,
  at TEXT NOT NULL
);
