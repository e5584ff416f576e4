-- Purpose: find sessions of this database with long transactions, or that wait for a standby.
-- Parameters: none.
-- Columns out: name of the finding; application; process id; a count; how many transactions
--   began since its oldest snapshot; age in microseconds; user, client and last statement.
--   idle_transaction and long_transaction: the count is how many seconds it has been idle
--   standby_wait: commits that wait for a synchronous standby, how many
--   hidden_sessions: sessions of other roles that this one may not see, how many
-- Concurrency: a plain read of the statistics; locks nothing. A VACUUM holds nothing back, and is
--   left out.
with session as materialized (
    select
        a.pid,
        coalesce(a.application_name, '') as application,
        a.state,
        a.wait_event,
        a.xact_start,
        a.state_change,
        coalesce(greatest(age(a.backend_xmin), age(a.backend_xid)), 0) as transactions,
        format('user %s%s: %s', a.usename, coalesce((' at ' || host(a.client_addr)), ''), left(a.query, 200)) as detail,
        a.query
    from pg_stat_activity a
    where a.datname = current_database() and a.pid <> pg_backend_pid()
)
select
    case when starts_with(state, 'idle') then 'idle_transaction' else 'long_transaction' end,
    application,
    pid::bigint,
    case when starts_with(state, 'idle') then date_part('epoch', clock_timestamp() - state_change)::bigint else 0 end,
    transactions::bigint,
    date_part('epoch', clock_timestamp() - xact_start) * 1000000,
    detail
from session s
where (
    (starts_with(state, 'idle') and state_change < (clock_timestamp() - interval '1 minute') and xact_start is not null)
    or (not (starts_with(state, 'idle')) and xact_start < (clock_timestamp() - interval '5 minutes'))
) and not exists (select from pg_stat_progress_vacuum v where v.pid = s.pid)
union all
select 'standby_wait', min(application), min(pid), count(*), 0, date_part('epoch', clock_timestamp() - min(state_change)) * 1000000, min(detail)
from session
where wait_event = 'SyncRep' and state_change < (clock_timestamp() - interval '5 seconds')
having count(*) > 0
union all
select 'hidden_sessions', '', 0, count(*), 0, 0, ''
from session
where query = '<insufficient privilege>'
having count(*) > 0
