-- Purpose: list unfinished rows, in the order in which they are claimed.
-- Parameters: n rows at most; skip, how many rows to leave out first; states; kinds and groups, if the
-- mapping names columns for them: JSON arrays, or null for all.
-- Columns out: the row's key, its fence, times, kind, group and payload, its state, and the start of its claim.
-- Concurrency: reads only.
select
    {{.Out}},
    {{.State}},
    {{.Since}}
from {{.Table}} t
where {{.Open}}
and {{.Among .State (param "states")}}
{{- if .KindText}}
and {{.Among .KindText (param "kinds")}}
{{- end}}
{{- if .Group}}
and {{.Among .Group (param "groups")}}
{{- end}}
order by {{.Order}}
limit {{param "n"}} offset {{param "skip"}}
