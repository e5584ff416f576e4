package main

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// terminal understands as much of a terminal's language as the command's screens use, and
// notes what it does not understand.
type terminal struct {
	cells    [rows][columns]cell
	row, col int
	style    style
	rest     []byte // the beginning of a character or sequence whose end has not come yet
	strange  string // the first sequence that was not understood
}

type cell struct {
	r     rune // 0: empty
	style style
}

type style struct {
	color       int // a key of colors, or 0
	bold, faint bool
}

// span is a run of characters of one style.
type span struct {
	col   int
	text  string
	style style
}

func newTerminal() *terminal { return &terminal{} }

func (t *terminal) write(output []byte) {
	t.rest = append(t.rest, output...)
	for len(t.rest) > 0 {
		n := t.next(t.rest)
		if n == 0 {
			return
		}
		t.rest = t.rest[n:]
	}
}

// next handles the first character or sequence, and returns how long it is: 0 if its end
// has not come yet.
func (t *terminal) next(b []byte) int {
	switch b[0] {
	case 0x1b:
		return t.escape(b)
	case '\r':
		t.col = 0
	case '\n':
		t.down()
	case '\b':
		t.col = max(t.col-1, 0)
	case '\t':
		t.col = min(t.col/8*8+8, columns-1)
	default:
		if !utf8.FullRune(b) {
			return 0
		}
		r, n := utf8.DecodeRune(b)
		t.put(r)
		return n
	}
	return 1
}

func (t *terminal) put(r rune) {
	if r < ' ' {
		return
	}
	if t.col == columns {
		t.col = 0
		t.down()
	}
	t.cells[t.row][t.col] = cell{r, t.style}
	t.col++
}

func (t *terminal) down() {
	if t.row < rows-1 {
		t.row++
		return
	}
	copy(t.cells[:], t.cells[1:])
	t.cells[rows-1] = [columns]cell{}
}

// escape handles ESC [ parameters letter. Other sequences have two bytes.
func (t *terminal) escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	if b[1] != '[' {
		return 2
	}
	for i, c := range b[2:] {
		if c >= '@' && c <= '~' {
			t.control(string(b[2:2+i]), c)
			return i + 3
		}
	}
	return 0
}

func (t *terminal) control(parameters string, letter byte) {
	if strings.ContainsAny(parameters, "<=>?$") {
		return // a mode of the terminal, or a question to it
	}
	n := 1
	if v, err := strconv.Atoi(parameters); err == nil {
		n = v
	}
	line := t.cells[t.row][:]
	switch letter {
	case 'A':
		t.row = max(t.row-n, 0)
	case 'C':
		t.col = min(t.col+n, columns-1)
	case 'D':
		t.col = max(t.col-n, 0)
	case 'Z':
		t.col = max(((t.col+7)/8-n)*8, 0)
	case 'P':
		copy(line[min(t.col, columns):], line[min(t.col+n, columns):])
		clear(line[max(columns-n, 0):])
	case 'K':
		clear(line[min(t.col, columns):])
	case 'J':
		clear(line[min(t.col, columns):])
		clear(t.cells[t.row+1:])
	case 'm':
		for p := range strings.SplitSeq(parameters, ";") {
			t.graphics(p)
		}
	default:
		t.note(parameters + string(letter))
	}
}

func (t *terminal) note(sequence string) {
	if t.strange == "" {
		t.strange = "ESC [ " + sequence
	}
}

// graphics changes the style in which characters are put.
func (t *terminal) graphics(parameter string) {
	switch n, err := strconv.Atoi(parameter); {
	case parameter == "" || n == 0 && err == nil:
		t.style = style{}
	case n == 1:
		t.style.bold = true
	case n == 2:
		t.style.faint = true
	case colors[n] != "":
		t.style.color = n
	case n == 39:
		t.style.color = 0
	default:
		t.note(parameter + "m")
	}
}

// shown are the spans of each row. Two blanks and more end a span, since viewers may
// draw them as one.
func (t *terminal) shown() [rows][]span {
	var all [rows][]span
	for i := range t.cells {
		begun := false
		for col, c := range t.cells[i] {
			if t.blank(i, col) && (!begun || t.blank(i, col+1)) {
				begun = false
				continue
			}
			last := len(all[i]) - 1
			if !begun || all[i][last].style != c.style {
				all[i] = append(all[i], span{col: col, style: c.style})
				last++
			}
			all[i][last].text += string(max(c.r, ' '))
			begun = true
		}
	}
	return all
}

func (t *terminal) blank(row, col int) bool {
	return col >= columns || t.cells[row][col].r == 0 || t.cells[row][col].r == ' '
}
