package words

import (
	"strings"
	"testing"
)

func TestIndented(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"a":[1,"x,[\"{"],"b":{}}`: "{\n>  \"a\": [\n>    1,\n>    \"x,[\\\"{\"\n>  ],\n>  \"b\": {}\n>}",
		`7`:                         `7`,
		`nonsense`:                  `nonsense`,
	} {
		if got := Indented([]byte(raw), ">"); got != want {
			t.Errorf("%s becomes %q, want %q", raw, got, want)
		}
	}
	// Indented, this would have 1 GB.
	deep := strings.Repeat("[", 990) + "0" + strings.Repeat(",0", 500_000) + strings.Repeat("]", 990)
	if got := Indented([]byte(deep), ""); got != deep {
		t.Errorf("a deep text of %d bytes becomes one of %d", len(deep), len(got))
	}
	for _, flat := range []string{"[" + strings.Repeat("{\"a\":\"b\"},", 50_000) + "1]", strings.Repeat("[", 100) + strings.Repeat("]", 100)} {
		got := Indented([]byte(flat), "")
		if !strings.Contains(got, "\n  ") || len(got) > 4*len(flat)+64<<10 {
			t.Errorf("a text of %d bytes becomes one of %d: %.40q", len(flat), len(got), got)
		}
	}
}
