-- Purpose: read who the database is.
-- Parameters: none.
-- Columns out: a text that no other database has.
-- Concurrency: a plain read. A copy of the database has the same row, but another name or server.
select concat(convert(varchar(36), i.id), ' ', @@servername, ' ', db_name())
from dibs_identity i;
