-- Purpose: delete from the side table the rows that other programs have ended or deleted.
-- Parameters: none.
-- Columns out: none.
-- Concurrency: keeps leases that still hold, and skips rows that another transaction has locked.
select json_object('k', convert(s.key using utf8mb4))
from {{.Side}} s
where s.source = {{.Source}} and s.token is null
and (exists (select 1 from {{.Table}} t where {{.KeyOfSide "convert(s.key using utf8mb4)"}} and ({{.Unfinished}}))) is not true
limit 1000
-- then
select v.value
from {{.Batch}}
straight_join {{.Side}} s force index (primary) on s.source = {{.Source}} and s.key = {{.Member "k"}}
where s.token is null
and (exists (select 1 from {{.Table}} t where {{.KeyOfSide "convert(s.key using utf8mb4)"}} and ({{.Unfinished}}))) is not true
for update skip locked
-- then
delete s
from {{.Batch}}
straight_join {{.Side}} s force index (primary) on s.source = {{.Source}} and s.key = {{.Member "k"}}
