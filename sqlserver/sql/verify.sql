-- Purpose: read what a caller's transaction is like.
-- Parameters: none.
-- Columns out: isolation of the session: 2 is READ COMMITTED; whether the database can be written; who it is.
-- Concurrency: plain reads. Each session may see its own row of dm_exec_sessions.
select
  (select convert(int, s.transaction_isolation_level) from sys.dm_exec_sessions s where s.session_id = @@spid),
  case when convert(varchar(16), databasepropertyex(db_name(), 'Updateability')) = 'READ_WRITE' then 1 else 0 end,
  (select concat(convert(varchar(36), i.id), ' ', @@servername, ' ', db_name()) from dibs_identity i);
