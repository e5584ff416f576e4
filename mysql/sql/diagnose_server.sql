-- Purpose: find settings and states of the server that hurt.
-- Parameters: none.
-- Columns out: name of the finding; setting or what it is about; 0; two counts; age in microseconds; value or detail. The
--   names:
--   mariadb: what the server is; detail its version
--   setting: a setting that breaks a promise, or makes jobs slow; its number; another one to which it is compared
--   connections: nearly all connections are in use: how many, of how many
--   refused_connections: how many the server has refused since it was started, as all were in use; of how many
--   history: versions of changed rows that the server keeps, as a transaction may read them: how many
--   engine: a table that is not InnoDB's, in which nothing is locked or rolled back; detail its engine
-- Concurrency: a plain read of the server's variables; locks nothing. It needs no privilege.
-- What dibs sets for its own connections hurts callers' transactions only: lock waits, sql_mode, isolation.
with setting (name, value, n, of, hurts) as (
  select 'innodb_flush_log_at_trx_commit', @@global.innodb_flush_log_at_trx_commit, @@global.innodb_flush_log_at_trx_commit, 1, @@global.innodb_flush_log_at_trx_commit in (0, 2)
  union all
  select 'innodb_doublewrite', @@global.innodb_doublewrite, 0, 0, not @@global.innodb_doublewrite
  union all
  select 'innodb_force_recovery', @@global.innodb_force_recovery, @@global.innodb_force_recovery, 0, @@global.innodb_force_recovery > 0
  union all
  select 'sync_binlog', @@global.sync_binlog, @@global.sync_binlog, 1, @@global.log_bin and @@global.sync_binlog <> 1
  union all
  select 'read_only', @@global.read_only, 0, 0, @@global.read_only
  union all
  select 'innodb_read_only', @@global.innodb_read_only, 0, 0, @@global.innodb_read_only
  union all
  select 'innodb_lock_wait_timeout', @@global.innodb_lock_wait_timeout, @@global.innodb_lock_wait_timeout, 0, @@global.innodb_lock_wait_timeout not between 1 and 100
  union all
  select 'max_statement_time', @@global.max_statement_time, ceiling(@@global.max_statement_time), 0, @@global.max_statement_time > 0
  union all
  select 'innodb_buffer_pool_size', @@global.innodb_buffer_pool_size, @@global.innodb_buffer_pool_size, 0, @@global.innodb_buffer_pool_size < 134217728
  union all
  select 'max_allowed_packet', @@global.max_allowed_packet, @@global.max_allowed_packet, q.most, @@global.max_allowed_packet < q.most
  from (select coalesce(max(payload_limit), 0) as most from dibs_queue) q
  union all
  select 'tx_isolation', @@global.tx_isolation, 0, 0, @@global.tx_isolation = 'SERIALIZABLE'
  union all
  select 'sql_mode', @@global.sql_mode, 0, 0, @@global.sql_mode regexp 'ORACLE|EMPTY_STRING_IS_NULL|HIGH_NOT_PRECEDENCE'
), status (name, n) as (
  select variable_name, convert(variable_value, signed)
  from information_schema.global_status
  where variable_name in ('THREADS_CONNECTED', 'CONNECTION_ERRORS_MAX_CONNECTIONS', 'INNODB_HISTORY_LIST_LENGTH')
)
select 'mariadb', '', 0, 0, 0, 0, @@version
union all
select 'setting', s.name, 0, convert(s.n, signed), convert(s.of, signed), 0, s.value
from setting s
where s.hurts
union all
select 'connections', '', 0, t.n, @@global.max_connections, 0, ''
from status t
where t.name = 'THREADS_CONNECTED' and t.n * 10 >= @@global.max_connections * 8
union all
select 'refused_connections', '', 0, t.n, @@global.max_connections, 0, ''
from status t
where t.name = 'CONNECTION_ERRORS_MAX_CONNECTIONS' and t.n > 0
union all
select 'history', '', 0, t.n, 0, 0, ''
from status t
where t.name = 'INNODB_HISTORY_LIST_LENGTH' and t.n >= 100000
union all
select 'engine', t.table_name, 0, 0, 0, 0, t.engine
from information_schema.tables t
where t.table_schema = database() and t.table_name regexp '^dibs_' and t.table_type = 'BASE TABLE' and t.engine <> 'InnoDB'
