-- Purpose: read the texts of all live jobs that must be JSON, for a check of them.
-- Parameters: none.
-- Columns out: id, payload, metadata.
-- Concurrency: one snapshot; reads everything and locks nothing.
select
  id,
  payload,
  metadata
from dibs_job;
