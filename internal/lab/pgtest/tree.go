package pgtest

import (
	"slices"
	"strings"
)

// node is one node of PostgreSQL's text form of a parsed statement ({NAME :field value …}).
// Its fields hold nodes, lists and words.
type node struct {
	name   string
	fields map[string]any
}

// parseTree reads a pg_node_tree of PostgreSQL.
func parseTree(text string) any {
	p := &treeParser{text: text}
	return p.value()
}

type treeParser struct {
	text   string
	offset int
}

// word reads the next parenthesis, brace or run of other characters.
func (p *treeParser) word() string {
	for p.offset < len(p.text) && strings.IndexByte(" \n", p.text[p.offset]) >= 0 {
		p.offset++
	}
	start := p.offset
	for p.offset < len(p.text) && strings.IndexByte(" \n", p.text[p.offset]) < 0 {
		if strings.IndexByte("(){}", p.text[p.offset]) >= 0 {
			if p.offset == start {
				p.offset++
			}
			break
		}
		if p.text[p.offset] == '\\' {
			p.offset++
		}
		p.offset++
	}
	return p.text[start:min(p.offset, len(p.text))]
}

func (p *treeParser) value() any {
	switch w := p.word(); w {
	case "{":
		return p.node()
	case "(":
		var list []any
		for {
			if p.peek() == ")" || p.peek() == "" {
				p.word()
				return list
			}
			list = append(list, p.value())
		}
	default:
		return w
	}
}

func (p *treeParser) peek() string {
	offset := p.offset
	w := p.word()
	p.offset = offset
	return w
}

func (p *treeParser) node() node {
	n := node{name: p.word(), fields: map[string]any{}}
	for {
		field := p.word()
		if field == "}" || field == "" {
			return n
		}
		var values []any
		for next := p.peek(); next != "}" && next != "" && !strings.HasPrefix(next, ":"); next = p.peek() {
			values = append(values, p.value())
		}
		if len(values) == 1 {
			n.fields[field] = values[0]
		} else {
			n.fields[field] = values
		}
	}
}

// word returns a field that is one word.
func (n node) word(field string) string {
	w, _ := n.fields[field].(string)
	return w
}

// list returns a field that is a list of nodes.
func (n node) list(field string) (nodes []node) {
	all, _ := n.fields[field].([]any)
	for _, v := range all {
		if found, ok := v.(node); ok {
			nodes = append(nodes, found)
		}
	}
	return nodes
}

// oids returns the numbers of a field such as (o 25 20).
func (n node) oids(field string) (oids []string) {
	all, _ := n.fields[field].([]any)
	for _, v := range all {
		if w, ok := v.(string); ok && w != "o" {
			oids = append(oids, w)
		}
	}
	return oids
}

// walk visits all nodes.
func walk(v any, visit func(node)) {
	switch v := v.(type) {
	case node:
		visit(v)
		for _, f := range v.fields {
			walk(f, visit)
		}
	case []any:
		for _, f := range v {
			walk(f, visit)
		}
	}
}

// typeFields are the fields that hold the type of an expression's node.
var typeFields = []string{
	":vartype", ":consttype", ":paramtype", ":funcresulttype", ":opresulttype", ":resulttype", ":aggtype", ":wintype",
	":casetype", ":array_typeid", ":coalescetype", ":minmaxtype", ":row_typeid", ":type",
}

const implicitCast = "2" // the format field of a cast that the server has added

// typeOf returns the type of an expression before the casts that the server has added, or ""
// if it is unknown.
func typeOf(n node) string {
	switch {
	case n.name == "TARGETENTRY":
		if expr, ok := n.fields[":expr"].(node); ok {
			return typeOf(expr)
		}
	case n.name == "FUNCEXPR" && n.word(":funcformat") == implicitCast && len(n.list(":args")) > 0:
		return typeOf(n.list(":args")[0])
	case n.word(":relabelformat") == implicitCast, n.word(":coerceformat") == implicitCast:
		if arg, ok := n.fields[":arg"].(node); ok {
			return typeOf(arg)
		}
	case n.name == "SUBLINK":
		query, _ := n.fields[":subselect"].(node)
		if targets := query.list(":targetList"); len(targets) > 0 && n.word(":subLinkType") == "4" { // a subquery with one value
			return typeOf(targets[0])
		}
		return ""
	case slices.Contains([]string{"SCALARARRAYOPEXPR", "BOOLEXPR", "NULLTEST", "BOOLEANTEST"}, n.name):
		return "16" // the oid of type boolean
	}
	for _, f := range typeFields {
		if t := n.word(f); t != "" {
			return t
		}
	}
	return ""
}
