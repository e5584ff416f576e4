package pgtest

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Planted is a schema full of what an attacker would plant: an operator or a function for
// every one that statements call, for exactly the types that they call it with, a domain
// for every type that they name, and a view for every table of the server's. Each notes that it was called, and fails.
type Planted struct {
	t    testing.TB
	conn *pgx.Conn // whose path is pg_catalog
	made map[string]bool
	said map[string]string // what the catalogue says, by question
}

// Plant makes the schema "planted" in the database at url.
func Plant(t testing.TB, url string) *Planted {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	config.RuntimeParams["search_path"] = "pg_catalog"
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) }) // the server notices
	p := &Planted{t: t, conn: conn, made: map[string]bool{}, said: map[string]string{}}
	p.exec("create schema planted; create schema parsed; create sequence planted.hits; grant usage on schema planted to public; grant usage on sequence planted.hits to public")
	p.exec(`create function planted.hit() returns boolean language plpgsql as $$ begin perform nextval('planted.hits'); raise exception 'planted: a type'; end $$`)
	return p
}

func (p *Planted) exec(sql string) {
	p.t.Helper()
	if err := p.try(sql); err != nil {
		p.t.Fatalf("pgtest: %v: %s", err, sql)
	}
}

func (p *Planted) try(sql string) error {
	_, err := p.conn.PgConn().Exec(p.t.Context(), sql).ReadAll()
	return err
}

// Hits is how often something planted was called; what a rollback undid counts, too.
func (p *Planted) Hits() (n int) {
	p.t.Helper()
	if err := p.conn.QueryRow(p.t.Context(), "select case when is_called then last_value else 0 end from planted.hits").Scan(&n); err != nil {
		p.t.Fatalf("pgtest: %v", err)
	}
	return n
}

// asWritten is what a tree holds of the statement's text alone.
var asWritten = regexp.MustCompile(` :(location|stmt_location|stmt_len) -?\d+| :operName \([^)]*\)`)

// Parsed is what the server makes of a statement under a path, without the places where
// things stand in its text. The server's error is one, too.
func (p *Planted) Parsed(statement, path string) (string, error) {
	p.t.Helper()
	ctx := p.t.Context()
	sd, err := p.conn.Prepare(ctx, "", statement)
	if err != nil {
		return "", err
	}
	types := make([]string, len(sd.ParamOIDs))
	for i, oid := range sd.ParamOIDs {
		types[i] = p.typeName(fmt.Sprint(oid))
	}
	made := fmt.Sprintf("create or replace function parsed.statement(%s) returns void language sql begin atomic %s\n; end", strings.Join(types, ", "), statement)
	err = p.try("begin; set local search_path = " + path + "; " + made + "; set local search_path = pg_catalog")
	defer p.try("rollback")
	if err != nil {
		return "", err
	}
	var tree string
	err = p.conn.QueryRow(ctx, "select prosqlbody::text from pg_proc where pronamespace = 'parsed'::regnamespace").Scan(&tree)
	return asWritten.ReplaceAllString(tree, ""), err
}

// ask asks the catalogue for one text.
func (p *Planted) ask(question, about string) string {
	p.t.Helper()
	answer, ok := p.said[question+about]
	if !ok {
		if err := p.conn.QueryRow(p.t.Context(), question, about).Scan(&answer); err != nil {
			p.t.Fatalf("pgtest: %s: %v", about, err)
		}
		p.said[question+about] = answer
	}
	return answer
}

// typeName is a type's name with its schema's.
func (p *Planted) typeName(oid string) string {
	p.t.Helper()
	return p.ask("select quote_ident(nspname) || '.' || quote_ident(typname) from pg_type t join pg_namespace n on n.oid = typnamespace where t.oid = $1::bigint::oid", oid)
}

// For plants what a statement calls.
func (p *Planted) For(statement string) {
	p.t.Helper()
	tree, err := p.Parsed(statement, "pg_catalog")
	if err != nil {
		p.t.Errorf("pgtest: %v: %s", err, statement)
		return
	}
	walk(parseTree(tree), func(n node) {
		args := n.list(":args")
		types := make([]string, len(args))
		for i, a := range args {
			types[i] = typeOf(a)
		}
		switch n.name {
		case "FUNCEXPR":
			if n.word(":funcformat") == "0" || n.word(":funcformat") == "3" { // it is in the text: no cast
				p.function(n.word(":funcid"), types, n.word(":funcresulttype"), n.word(":funcretset") == "true")
			}
		case "AGGREF":
			p.function(n.word(":aggfnoid"), n.oids(":aggargtypes"), n.word(":aggtype"), false)
		case "WINDOWFUNC":
			p.function(n.word(":winfnoid"), types, n.word(":wintype"), false)
		case "OPEXPR", "DISTINCTEXPR", "NULLIFEXPR":
			p.operator(n.word(":opno"), types)
		case "SCALARARRAYOPEXPR":
			p.operator(n.word(":opno"), []string{types[0], p.element(types[1])})
		case "ROWCOMPAREEXPR", "ROWCOMPARE":
			left, right := n.list(":largs"), n.list(":rargs")
			for i, op := range n.oids(":opnos") {
				p.operator(op, []string{typeOf(left[i]), typeOf(right[i])})
			}
		}
	})
	for _, found := range regexp.MustCompile(`(?:from|join) (?:pg_catalog\.)?(pg_[a-z_]+)(?:[^a-z_.(]|$)`).FindAllStringSubmatch(statement, -1) {
		columns := p.ask("select string_agg(quote_ident(attname), ', ') from pg_attribute where attrelid = $1::regclass and attnum > 0 and atttypid <> 'anyarray'::regtype", found[1])
		p.once("view "+found[1], "create view planted."+found[1]+" as select "+columns+" from pg_catalog."+found[1]+" where planted.hit()")
	}
	for _, found := range regexp.MustCompile(`::(?:pg_catalog\.)?([a-z_0-9]+)`).FindAllStringSubmatch(statement, -1) {
		p.domain(found[1])
	}
}

// element is the type of an array's elements.
func (p *Planted) element(array string) string {
	p.t.Helper()
	if array == "" {
		return ""
	}
	return p.ask("select typelem::bigint::text from pg_type where oid = $1::bigint::oid", array)
}

// names are those of types; ok is false where one cannot be told, or no function can have it.
func (p *Planted) names(oids []string) (names []string, ok bool) {
	p.t.Helper()
	for _, oid := range oids {
		if oid == "" || oid == "0" {
			return nil, false
		}
		name := p.typeName(oid)
		if slices.Contains([]string{"pg_catalog.record", "pg_catalog.unknown"}, name) {
			return nil, false
		}
		names = append(names, name)
	}
	return names, true
}

// once makes what has not been made before.
func (p *Planted) once(key, sql string) {
	p.t.Helper()
	if !p.made[key] {
		p.made[key] = true
		p.exec(sql)
	}
}

const noted = ` language plpgsql as $$ begin perform pg_catalog.nextval('planted.hits'); raise exception 'planted: %s'; end $$`

func (p *Planted) function(oid string, args []string, result string, set bool) {
	p.t.Helper()
	names, ok := p.names(args)
	if !ok {
		return
	}
	name := p.ask("select proname from pg_proc where oid = $1::bigint::oid", oid)
	returns := p.typeName(result)
	if set {
		returns = "setof " + returns
	}
	signature := fmt.Sprintf("%s(%s)", name, strings.Join(names, ", "))
	p.once(signature, fmt.Sprintf("create function planted.%s returns %s"+noted, signature, returns, signature))
}

func (p *Planted) operator(oid string, args []string) {
	p.t.Helper()
	names, ok := p.names(args)
	if !ok {
		return
	}
	name := p.ask("select oprname from pg_operator where oid = $1::bigint::oid", oid)
	result := p.typeName(p.ask("select oprresult::bigint::text from pg_operator where oid = $1::bigint::oid", oid))
	sides := "rightarg = " + names[len(names)-1]
	if len(names) == 2 {
		sides += ", leftarg = " + names[0]
	}
	key := strings.Join(names, " "+name+" ")
	f := fmt.Sprintf("operator_%d", len(p.made))
	p.once(key, fmt.Sprintf("create function planted.%s(%s) returns %s"+noted+"; create operator planted.%s (%s, function = planted.%[1]s)",
		f, strings.Join(names, ", "), result, key, name, sides))
}

// domain plants a type that stands for another of its name, unless the grammar knows it.
func (p *Planted) domain(name string) {
	p.t.Helper()
	if p.ask("select exists (select from pg_type where typname = $1 and typnamespace = 'pg_catalog'::regnamespace)::text", name) == "true" {
		p.once("type "+name, "create domain planted."+name+" as pg_catalog."+name+" check (planted.hit())")
	}
}

// Names are what was planted.
func (p *Planted) Names() []string { return slices.Sorted(maps.Keys(p.made)) }

// Dependents are what in other schemas was made with something planted.
func (p *Planted) Dependents() []string {
	p.t.Helper()
	rows, err := p.conn.Query(p.t.Context(), `
		select distinct pg_describe_object(d.classid, d.objid, d.objsubid)
		from pg_depend d
		join (
			select 'pg_proc'::regclass as class, oid from pg_proc where pronamespace = 'planted'::regnamespace
			union all
			select 'pg_operator'::regclass, oid from pg_operator where oprnamespace = 'planted'::regnamespace
			union all
			select 'pg_type'::regclass, oid from pg_type where typnamespace = 'planted'::regnamespace
		) o on o.class = d.refclassid and o.oid = d.refobjid
		where pg_describe_object(d.classid, d.objid, d.objsubid) !~ 'planted'
			and not exists (select from pg_constraint c where d.classid = 'pg_constraint'::regclass and c.oid = d.objid and c.connamespace = 'planted'::regnamespace)`)
	if err != nil {
		p.t.Fatalf("pgtest: %v", err)
	}
	made, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		p.t.Fatalf("pgtest: %v", err)
	}
	return made
}
