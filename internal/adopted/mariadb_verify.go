package adopted

import (
	"context"
	"database/sql"
	"slices"
	"strings"
)

// mariaHarmless are functions of the server's that only read, and words that may stand before a parenthesis.
const mariaHarmless = ` and or not xor in is between like rlike regexp any all some case when then else exists interval div mod binary cast convert using
	coalesce ifnull nullif if greatest least isnull
	abs ceil ceiling floor round truncate sign pow power sqrt mod
	ascii char char_length character_length concat concat_ws field find_in_set hex unhex instr lcase left length octet_length locate lower lpad ltrim mid position
	replace reverse right rpad rtrim space strcmp substr substring substring_index trim ucase upper elt format regexp_instr regexp_replace regexp_substr
	md5 sha1 sha sha2 crc32
	now sysdate curdate current_date curtime current_time current_timestamp localtime localtimestamp utc_date utc_time utc_timestamp unix_timestamp from_unixtime
	adddate addtime convert_tz date date_add date_format date_sub datediff day dayname dayofmonth dayofweek dayofyear extract from_days hour last_day makedate
	maketime microsecond minute month monthname period_add period_diff quarter sec_to_time second str_to_date subdate subtime time time_format time_to_sec timediff
	timestamp timestampadd timestampdiff to_days to_seconds week weekday weekofyear year yearweek
	json_array json_contains json_contains_path json_exists json_extract json_keys json_length json_object json_overlaps json_query json_quote json_search json_type
	json_unquote json_valid json_value
	count sum min max avg bit_count values select from where join on as by having row over
	database schema current_user user version inet_aton inet_ntoa `

// mariaRoutines finds functions of the database's that may write: they are not declared to only read.
const mariaRoutines = `
select 1
from information_schema.routines
where routine_type = 'FUNCTION' and routine_schema = database() and lower(routine_name) = lower(?) and (is_deterministic = 'YES' or sql_data_access in ('NO SQL', 'READS SQL DATA'))`

// verify lets MariaDB prepare each condition, and checks the functions that it calls.
func (mariaDatabase) verify(ctx context.Context, db *sql.DB, p *Plan) error {
	for _, c := range p.Conds {
		text := "select 1 as one from " + p.Table + " t where (" + p.Dialect.theirs(c.text) + ")"
		if err := prepared(ctx, db, p.Dialect.Qualified(text)); err != nil {
			return c.refusedBy(p.Dialect, err)
		}
		if c.locks() {
			return Invalid(c.Field, "locks rows, or writes; a condition must only read: %.200q", c.text)
		}
		for _, name := range c.calls() {
			if slices.Contains(strings.Fields(mariaHarmless), strings.ToLower(name)) {
				continue
			}
			known, err := QueryAll(ctx, db, mariaRoutines, name)
			if err != nil {
				return err
			}
			if len(known) == 0 {
				return Invalid(c.Field, "calls %s(), which may write or changes from call to call; if it is a function of yours that only reads, declare it so: alter function %[1]s reads sql data", name)
			}
		}
	}
	return nil
}

// calls lists the words and names before a parenthesis.
func (c *Condition) calls() (names []string) {
	for i, t := range c.tokens[:len(c.tokens)-1] {
		if next := c.tokens[i+1]; (t.kind == word || t.kind == quotedName) && next.kind == sign && next.text == "(" && !slices.Contains(names, t.text) {
			names = append(names, t.text)
		}
	}
	return names
}

// locks reports whether a query within the condition locks rows, writes a file or takes a number of a sequence.
func (c *Condition) locks() bool {
	words := " "
	for _, t := range c.tokens {
		if t.kind != word {
			words += "; "
			continue
		}
		words += strings.ToLower(t.text) + " "
	}
	has := func(some string) bool { return strings.Contains(words, " "+some+" ") }
	return has("next value for") || has("select") && (has("for update") || has("lock in share mode") || has("into") || has("procedure"))
}
