package pgtest

import (
	"slices"
	"strings"
)

// node is one node of what PostgreSQL writes of a parsed statement ({NAME :field value …}):
// its fields hold nodes, lists and words.
type node struct {
	name   string
	fields map[string]any
}

// parseTree reads what PostgreSQL writes as pg_node_tree.
func parseTree(text string) any {
	p := &treeParser{text: text}
	return p.value()
}

type treeParser struct {
	text string
	at   int
}

// word is the next parenthesis, brace or run of other characters.
func (p *treeParser) word() string {
	for p.at < len(p.text) && strings.IndexByte(" \n", p.text[p.at]) >= 0 {
		p.at++
	}
	start := p.at
	for p.at < len(p.text) && strings.IndexByte(" \n", p.text[p.at]) < 0 {
		if strings.IndexByte("(){}", p.text[p.at]) >= 0 {
			if p.at == start {
				p.at++
			}
			break
		}
		if p.text[p.at] == '\\' {
			p.at++
		}
		p.at++
	}
	return p.text[start:min(p.at, len(p.text))]
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
	at := p.at
	w := p.word()
	p.at = at
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

// word is a field that is one word.
func (n node) word(field string) string {
	w, _ := n.fields[field].(string)
	return w
}

// list is a field that is a list of nodes.
func (n node) list(field string) (nodes []node) {
	all, _ := n.fields[field].([]any)
	for _, v := range all {
		if found, ok := v.(node); ok {
			nodes = append(nodes, found)
		}
	}
	return nodes
}

// oids is a field such as (o 25 20).
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

// typeFields are where a node of an expression says of what type it is.
var typeFields = []string{
	":vartype", ":consttype", ":paramtype", ":funcresulttype", ":opresulttype", ":resulttype", ":aggtype", ":wintype",
	":casetype", ":array_typeid", ":coalescetype", ":minmaxtype", ":row_typeid", ":type",
}

const implicit = "2" // how a cast that is not in the text is marked

// typeOf is the type of what stands in the text: without casts that the server has added.
// It is empty for what cannot be told.
func typeOf(n node) string {
	switch {
	case n.name == "TARGETENTRY":
		if expr, ok := n.fields[":expr"].(node); ok {
			return typeOf(expr)
		}
	case n.name == "FUNCEXPR" && n.word(":funcformat") == implicit && len(n.list(":args")) > 0:
		return typeOf(n.list(":args")[0])
	case n.word(":relabelformat") == implicit, n.word(":coerceformat") == implicit:
		if arg, ok := n.fields[":arg"].(node); ok {
			return typeOf(arg)
		}
	case n.name == "SUBLINK":
		query, _ := n.fields[":subselect"].(node)
		if targets := query.list(":targetList"); len(targets) > 0 && n.word(":subLinkType") == "4" { // one value
			return typeOf(targets[0])
		}
		return ""
	case slices.Contains([]string{"SCALARARRAYOPEXPR", "BOOLEXPR", "NULLTEST", "BOOLEANTEST"}, n.name):
		return "16" // boolean
	}
	for _, f := range typeFields {
		if t := n.word(f); t != "" {
			return t
		}
	}
	return ""
}
