-- The registry as sluiced 0.1.0 wrote it before there were books of usage.
PRAGMA application_id=1399616867;
PRAGMA user_version=1;
CREATE TABLE subjects(scope TEXT NOT NULL, id TEXT NOT NULL, plan TEXT NOT NULL, expires INTEGER, note TEXT NOT NULL, author TEXT NOT NULL, updated INTEGER NOT NULL, revision INTEGER NOT NULL, PRIMARY KEY(scope, id)) STRICT, WITHOUT ROWID;
CREATE TABLE roles(scope TEXT NOT NULL, id TEXT NOT NULL, role TEXT NOT NULL, PRIMARY KEY(scope, id, role)) STRICT, WITHOUT ROWID;
CREATE TABLE aliases(scope TEXT NOT NULL, alias TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY(scope, alias)) STRICT, WITHOUT ROWID;
CREATE INDEX aliases_of ON aliases(scope, id);
CREATE TABLE overrides(scope TEXT NOT NULL, id TEXT NOT NULL, limit_name TEXT NOT NULL, rate TEXT NOT NULL, until INTEGER, author TEXT NOT NULL, note TEXT NOT NULL, PRIMARY KEY(scope, id, limit_name)) STRICT, WITHOUT ROWID;
CREATE TABLE audit(seq INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, author TEXT NOT NULL, scope TEXT NOT NULL, id TEXT NOT NULL, what TEXT NOT NULL, before TEXT, after TEXT) STRICT;
CREATE INDEX audit_of ON audit(scope, id, seq);
CREATE TABLE switches(name TEXT PRIMARY KEY, is_on INTEGER NOT NULL, author TEXT NOT NULL, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO subjects VALUES('org','acme','pro',NULL,'since spring','ops',1000,3);
INSERT INTO roles VALUES('org','acme','admin');
INSERT INTO aliases VALUES('org','acme.example','acme');
INSERT INTO overrides VALUES('org','acme','minutes','500/month',NULL,'ops','trial');
INSERT INTO audit VALUES(3,1000,'ops','org','acme','put',NULL,'{}');
INSERT INTO switches VALUES('beta',0,'ops',1000);
