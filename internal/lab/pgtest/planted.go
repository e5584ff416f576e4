package pgtest

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Planted is a schema as an attacker would fill it. For every operator and function that
// statements call, it has one with exactly the argument types of the call; for every type
// that they name, a domain; for every system table, a view. Each counts its calls and fails.
type Planted struct {
	t       testing.TB
	conn    *pgx.Conn         // its search_path is pg_catalog
	planted map[string]bool   // names of the planted objects
	answers map[string]string // answers of the catalogue that are cached, by query
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
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) }) // the server ends the session in any case
	p := &Planted{t: t, conn: conn, planted: map[string]bool{}, answers: map[string]string{}}
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

// Hits counts the calls of planted objects, including those that were rolled back.
func (p *Planted) Hits() (n int) {
	p.t.Helper()
	if err := p.conn.QueryRow(p.t.Context(), "select case when is_called then last_value else 0 end from planted.hits").Scan(&n); err != nil {
		p.t.Fatalf("pgtest: %v", err)
	}
	return n
}

// textPlaces matches positions in the statement's text, and names as the text writes them.
var textPlaces = regexp.MustCompile(` :(location|stmt_location|stmt_len) -?\d+| :operName \([^)]*\)`)

// Parsed returns the tree into which the server parses a statement under a search_path,
// without the parts that textPlaces matches.
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
	function := fmt.Sprintf("create or replace function parsed.statement(%s) returns void language sql begin atomic %s\n; end", strings.Join(types, ", "), statement)
	err = p.try("begin; set local search_path = " + path + "; " + function + "; set local search_path = pg_catalog")
	defer p.try("rollback")
	if err != nil {
		return "", err
	}
	var tree string
	err = p.conn.QueryRow(ctx, "select prosqlbody::text from pg_proc where pronamespace = 'parsed'::regnamespace").Scan(&tree)
	return textPlaces.ReplaceAllString(tree, ""), err
}

// ask queries the catalogue for one text.
func (p *Planted) ask(question, about string) string {
	p.t.Helper()
	answer, ok := p.answers[question+about]
	if !ok {
		if err := p.conn.QueryRow(p.t.Context(), question, about).Scan(&answer); err != nil {
			p.t.Fatalf("pgtest: %s: %v", about, err)
		}
		p.answers[question+about] = answer
	}
	return answer
}

// typeName returns a type's name, qualified with its schema.
func (p *Planted) typeName(oid string) string {
	p.t.Helper()
	return p.ask("select quote_ident(nspname) || '.' || quote_ident(typname) from pg_type t join pg_namespace n on n.oid = typnamespace where t.oid = $1::bigint::oid", oid)
}

// For plants an object for each operator, function, type and system table in a statement.
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
			if n.word(":funcformat") == "0" || n.word(":funcformat") == "3" { // an explicit call, not a cast
				p.function(n.word(":funcid"), types, n.word(":funcresulttype"), n.word(":funcretset") == "true")
			}
		case "AGGREF":
			p.function(n.word(":aggfnoid"), n.oids(":aggargtypes"), n.word(":aggtype"), false)
		case "WINDOWFUNC":
			p.function(n.word(":winfnoid"), types, n.word(":wintype"), false)
		case "OPEXPR", "DISTINCTEXPR", "NULLIFEXPR":
			p.operator(n.word(":opno"), types)
		case "SCALARARRAYOPEXPR":
			p.operator(n.word(":opno"), []string{types[0], p.elementType(types[1])})
		case "ROWCOMPAREEXPR", "ROWCOMPARE":
			left, right := n.list(":largs"), n.list(":rargs")
			for i, op := range n.oids(":opnos") {
				p.operator(op, []string{typeOf(left[i]), typeOf(right[i])})
			}
		}
	})
	for _, found := range regexp.MustCompile(`(?:from|join) (?:pg_catalog\.)?(pg_[a-z_]+)(?:[^a-z_.(]|$)`).FindAllStringSubmatch(statement, -1) {
		columns := p.ask("select string_agg(quote_ident(attname), ', ') from pg_attribute where attrelid = $1::regclass and attnum > 0 and atttypid <> 'anyarray'::regtype", found[1])
		p.plantOnce("view "+found[1], "create view planted."+found[1]+" as select "+columns+" from pg_catalog."+found[1]+" where planted.hit()")
	}
	for _, found := range regexp.MustCompile(`::(?:pg_catalog\.)?([a-z_0-9]+)`).FindAllStringSubmatch(statement, -1) {
		p.domain(found[1])
	}
}

// elementType returns the type of an array's elements.
func (p *Planted) elementType(array string) string {
	p.t.Helper()
	if array == "" {
		return ""
	}
	return p.ask("select typelem::bigint::text from pg_type where oid = $1::bigint::oid", array)
}

// typeNames returns the names of types. If one is unknown, or functions cannot take it, ok is
// false.
func (p *Planted) typeNames(oids []string) (names []string, ok bool) {
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

// plantOnce runs the SQL that plants an object, unless it has been planted before.
func (p *Planted) plantOnce(key, sql string) {
	p.t.Helper()
	if !p.planted[key] {
		p.planted[key] = true
		p.exec(sql)
	}
}

const hitBody = ` language plpgsql as $$ begin perform pg_catalog.nextval('planted.hits'); raise exception using message = 'planted: %s'; end $$`

func (p *Planted) function(oid string, args []string, result string, set bool) {
	p.t.Helper()
	names, ok := p.typeNames(args)
	if !ok {
		return
	}
	name := p.ask("select proname from pg_proc where oid = $1::bigint::oid", oid)
	returns := p.typeName(result)
	if set {
		returns = "setof " + returns
	}
	signature := fmt.Sprintf("%s(%s)", name, strings.Join(names, ", "))
	p.plantOnce(signature, fmt.Sprintf("create function planted.%s returns %s"+hitBody, signature, returns, signature))
}

func (p *Planted) operator(oid string, args []string) {
	p.t.Helper()
	names, ok := p.typeNames(args)
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
	f := fmt.Sprintf("operator_%d", len(p.planted))
	p.plantOnce(key, fmt.Sprintf("create function planted.%s(%s) returns %s"+hitBody+"; create operator planted.%s (%s, function = planted.%[1]s)",
		f, strings.Join(names, ", "), result, key, name, sides))
}

// domain plants a domain under the name of a type in pg_catalog. Some names, such as int, are
// known only to the grammar: for these there is nothing to plant.
func (p *Planted) domain(name string) {
	p.t.Helper()
	if p.ask("select exists (select from pg_type where typname = $1 and typnamespace = 'pg_catalog'::regnamespace)::text", name) == "true" {
		p.plantOnce("type "+name, "create domain planted."+name+" as pg_catalog."+name+" check (planted.hit())")
	}
}

// Dependents lists the objects of other schemas that use a planted object.
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
	dependents, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		p.t.Fatalf("pgtest: %v", err)
	}
	return dependents
}
