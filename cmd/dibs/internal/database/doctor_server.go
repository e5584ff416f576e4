package database

import (
	"fmt"
	"strings"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/jackc/pgx/v5"
)

// settingsThatHurt say what a setting of a server does to dibs.
var settingsThatHurt = map[string]struct{ severity, means string }{
	"fsync":                         {severityWrong, "a crash of the server's machine may damage the whole database"},
	"full_page_writes":              {severityWrong, "a crash of the server's machine may damage pages"},
	"autovacuum":                    {severityWrong, "dead rows stay, and claims become slow"},
	"track_counts":                  {severityWrong, "autovacuum does not know what to do"},
	"default_transaction_read_only": {severityWrong, "nothing can be enqueued, claimed or finished"},
	"synchronous_commit":            {severityNote, "a crash of the server may lose the last commits: jobs that were enqueued are gone, and completed ones run again"},
	"statement_timeout":             {severityNote, "it may cut off sweeps and checks of large queues"},
	"transaction_timeout":           {severityNote, "it may cut off sweeps and checks of large queues"},
	"shared_buffers":                {severityNote, "large queues are read from disk again and again"},
}

// ofServer words settings and states of a PostgreSQL server.
func (d *medic) ofServer(f admin.Fact, _ []admin.Fact) (severity, text, next string) {
	switch f.Name {
	case "setting":
		s := settingsThatHurt[f.About]
		value := f.Text
		switch f.About {
		case "statement_timeout", "transaction_timeout":
			value += " ms"
			s.severity = wrongIf(f.N < 2000)
		case "shared_buffers":
			value = size(f.N * 8192)
		}
		return s.severity, fmt.Sprintf("%s is %s: %s", f.About, value, s.means), "select name, setting, source, sourcefile from pg_settings where name = " + literal(f.About) + ";"
	case "role_setting":
		setting, value, _ := strings.Cut(f.Text, "=")
		s := settingsThatHurt[setting]
		return s.severity, fmt.Sprintf("the role %s has %s = %s: %s", name(f.About), setting, name(value), s.means), "alter role " + pgx.Identifier{f.About}.Sanitize() + " reset " + setting + ";"
	case "connections":
		return wrongIf(f.N*20 >= f.Of*19), fmt.Sprintf("%s of %s connections of the server are in use; from 95 %% on dibs gives up wake-ups, and beyond the last one workers wait their turn", words.Count(f.N), words.Count(f.Of)),
			"select application_name, state, count(*) from pg_stat_activity group by 1, 2 order by 3 desc;"
	case "wraparound":
		return wrongIf(f.N >= 1_000_000_000), fmt.Sprintf("the oldest rows of the database %s are %s transactions old: at 2 billion the server stops writing", name(f.About), words.Count(f.N)),
			"vacuumdb --freeze --dbname=" + words.ShellWord(f.About)
	case "recovery":
		return severityWrong, "this server is a standby, which only reads: name the primary server with --db or $DIBS_DB", "select conninfo from pg_stat_wal_receiver;"
	case "archiver":
		last := "never succeeded"
		if f.Age > 0 {
			last = "last succeeded " + words.Roughly(f.Age) + " ago"
		}
		return severityWrong, fmt.Sprintf("the server cannot archive its log (%s failures, it %s): the log fills the disk", words.Count(f.N), last), "select * from pg_stat_archiver;"
	case "pooler":
		return severityNote, "there is a pooler in transaction mode before the server: jobs of other processes are found by polling, up to 1.8 s late; if it is in session mode, add ?pooler=session to the URL", "dibs help work"
	}
	return "", "", ""
}

// ofFile words what is wrong with a SQLite file.
func (d *medic) ofFile(f admin.Fact, all []admin.Fact) (severity, text, next string) {
	path := words.ShellWord(f.About)
	if strings.HasPrefix(path, "-") { // no program is to take it for a flag
		path = "./" + path
	}
	switch f.Name {
	case "writer":
		return severityWrong, fmt.Sprintf("process %d%s holds the write lock of the file: all other writers wait", f.ID, inBrackets(f.About)), fmt.Sprintf("ps -fp %d", f.ID)
	case "wal":
		for _, r := range all {
			if r.Name == "reader" {
				return wrongIf(f.N > f.Of), fmt.Sprintf("process %d%s reads an old state of the file, so %s in the -wal cannot be moved into it, and the -wal grows", r.ID, inBrackets(r.About), size(f.N)), fmt.Sprintf("ps -fp %d", r.ID)
			}
		}
		return severityNote, fmt.Sprintf("%s in the -wal have not been moved into the file yet; the next commit does so unless somebody reads an old state", size(f.N)), "fuser -v " + path + "-wal"
	case "free_pages":
		return severityNote, fmt.Sprintf("%s of the file's %s are empty pages, which new jobs will use", size(f.N), size(f.Of)), "sqlite3 " + path + " vacuum  # all writers wait meanwhile"
	case "network_file":
		return severityWrong, "the file is on a network file system (" + f.Text + "): locks do not work there, and it may be damaged", "df " + path
	case "disk_full":
		return severityWrong, fmt.Sprintf("the disk has only %s left", size(f.N)), "df -h " + path
	case "damaged":
		return severityWrong, "the file is damaged: " + term.Clip(words.OneLine(f.Text), 160), "sqlite3 " + path + " .recover"
	case "clock_ahead":
		return wrongIf(f.Age.Minutes() >= 1), fmt.Sprintf("the file's time is %s ahead of this machine's, whose clock was put back: times go on at half speed until they meet", words.Roughly(f.Age)), "timedatectl"
	}
	return "", "", ""
}
