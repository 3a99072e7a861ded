-- A journal as written by regretless 0.1 (schema version 1). Never edit: old journals stay readable.
BEGIN TRANSACTION;
CREATE TABLE regretless_events (
	study TEXT NOT NULL, 
	seq INTEGER NOT NULL, 
	time TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	version INTEGER NOT NULL, 
	body TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	PRIMARY KEY (study, seq), 
	CONSTRAINT regretless_events_key UNIQUE (study, "key")
);
INSERT INTO "regretless_events" VALUES('',0,'2025-01-02T03:04:05.678901+00:00','journal',1,'{}','journal');
INSERT INTO "regretless_events" VALUES('clinic',1,'2025-01-02T03:04:05.678901+00:00','created',1,'{"space":{"dose":{"type":"float","low":0.1,"high":10.0,"log":true},"visits":{"type":"int","low":1,"high":12},"drug":{"type":"categorical","choices":["A","B","C"]}},"budget":10,"seed":7}','1e2feb89414c443c9027c4d1c386bbc4');
INSERT INTO "regretless_events" VALUES('clinic',2,'2025-01-02T03:04:06.678901+00:00','asked',1,'{"number":0,"params":{"dose":0.30000000000000004,"visits":4,"drug":"A"},"decision":{"reason":"design"}}','78e51061731148a382ce6f447ed4d57b');
INSERT INTO "regretless_events" VALUES('clinic',3,'2025-01-02T03:09:05.678901+00:00','told',1,'{"number":0,"value":0.83}','told 0');
INSERT INTO "regretless_events" VALUES('clinic',4,'2025-01-03T03:04:05.678901+00:00','abandoned',1,'{"number":1}','told 1');
INSERT INTO "regretless_events" VALUES('Übung',1,'2025-01-04T03:04:05.678901+00:00','created',1,'{"note":"\u00e4\u0000"}','35bf992dc9e94616a12e7696a6cecc1b');
COMMIT;
