-- Purpose: read how large the file is, and how it is kept.
-- Parameters: none.
-- Columns out: bytes; bytes of free pages, and of one page; the version of SQLite.
-- Concurrency: a plain read of the file's header; locks nothing.
select
  (select page_count from pragma_page_count) * (select page_size from pragma_page_size),
  (select freelist_count from pragma_freelist_count) * (select page_size from pragma_page_size),
  (select page_size from pragma_page_size),
  sqlite_version()
