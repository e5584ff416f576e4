package open

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

const secret = "S3CRET"

// secretURLs name databases in right and wrong ways, each with a password.
var secretURLs = []URL{
	"postgres://u:S3CRET@127.0.0.1:1/db",
	"postgresql://u:S3CRET@127.0.0.1:1/db?sslmode=disable",
	"postgres://u:S3CRET@127.0.0.1:1,127.0.0.1:2/db",
	"postgres://u:S%33CRETS3CRET@127.0.0.1:1/db",
	"postgres://127.0.0.1:1/db?user=u&password=S3CRET",
	"postgres://127.0.0.1:1/db?password=S3CRET&sslmode=disable",
	"postgres://127.0.0.1:1/db?Password=S3CRET",
	"postgres://127.0.0.1:1/db?PASSWORD=S3CRET",
	"postgres://127.0.0.1:1/db?p%61ssword=S3CRET",
	"postgres://127.0.0.1:1/db?p%2561ssword=S3CRET",
	"postgres://127.0.0.1:1/db?sslpassword=S3CRET",
	"postgres://127.0.0.1:1/db?passfile=S3CRET",
	"postgres://127.0.0.1:1/db?a=b;password=S3CRET",
	"postgres://127.0.0.1:1/db?%zz=S3CRET",
	"postgres://u:S3CRET@127.0.0.1:1/db?password=S3CRET&sslpassword=S3CRET",
	"postgres://u:a@S3CRET@127.0.0.1:1/db",
	"postgres://u:a/S3CRET@h/db",
	"postgres://u:12/S3CRET@h/db",
	"postgres://u:12?S3CRET@h/db",
	"postgres://u:12#S3CRET@h/db",
	"postgres://u:%S3CRET@h/db",
	"postgres://u:S3CRET",
	"postgres:u:S3CRET@h/db",
	"postgres:/u:S3CRET@h/db",
	"POSTGRES://u:S3CRET@h/db",
	"mysql://u:S3CRET@h/db",
	"mysql://u:S3CRET@h/db.sqlite",
	"sqlserver://u:S3CRET@127.0.0.1:1?database=db",
	"sqlserver://u:S3CRET@127.0.0.1:1",
	"sqlserver://127.0.0.1:1?database=db&user+id=u&password=S3CRET",
	"S3CRET://u@h/db",
	"u:S3CRET@h/db",
	"u:S3CRET@h/x.db",
	"u:a/S3CRET@h/x.db",
	`app:\S3CRET@h/x.db`,
	"//u:S3CRET@h/x.sqlite",
	"sqlite:u:S3CRET@h/x.db",
	"sqlite://u:S3CRET@h/x.db",
	"host=h password=S3CRET",
	"host=h password=S3CRET dbname=x.db",
	"host=h password='a S3CRET' dbname=x.sqlite3",
	"sqlite:host=h password=S3CRET",
	"password=S3CRET host=x.db",
	"HOST=h PASSWORD = S3CRET.db",
	"S3CRET",
	"S3CRET ",
}

func TestAPasswordIsNeverShown(t *testing.T) {
	t.Parallel()
	for _, u := range secretURLs {
		var log strings.Builder
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "url", u)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "url", u)
		encoded, err := json.Marshal(map[string]any{"url": u})
		if err != nil {
			t.Fatal(err)
		}
		shown := append([]string{log.String(), string(encoded), host(u)}, fmt.Sprintf("%v\n%s\n%q\n%#v\n%+v\n%x", u, u, u, u, struct{ U URL }{u}, u))
		shown = append(shown, fmt.Sprint([]any{u}))
		for _, call := range []func() error{
			func() error { _, err := Database(t.Context(), u, Options{}); return err },
			func() error { return Migrate(t.Context(), u, Options{}) },
			func() error { _, err := Migrations(u, Options{}); return err },
			func() error { _, _, err := Place(u); return err },
		} {
			if err := call(); err != nil {
				shown = append(shown, err.Error(), fmt.Sprintf("%+v", err))
			}
		}
		for _, text := range shown {
			if strings.Contains(text, secret) || strings.Contains(text, fmt.Sprintf("%x", secret)) {
				t.Errorf("%s is shown as %s", u.Reveal(), text)
			}
		}
	}
}

func TestWhatIsNoPasswordIsShown(t *testing.T) {
	t.Parallel()
	for u, want := range map[URL]string{
		"postgres://u:p@h:5432/db?options=-c%20work_mem%3D1MB&application_name=x": "postgres://u:xxxxx@h:5432/db?options=-c%20work_mem%3D1MB&application_name=x",
		"postgres://u@h/db":                "postgres://u@h/db",
		"postgres://u:@h/db?password=&x=y": "postgres://u:xxxxx@h/db?password=xxxxx&x=y",
		"postgres://":                      "postgres:///",
		"sqlite:/var/lib/a:b/c@d.db":       "sqlite:/var/lib/a:b/c@d.db",
		"me@home.db":                       "me@home.db",
		`C:\data\me@home.db`:               `C:\data\me@home.db`,
		"":                                 "",
	} {
		if got := u.String(); got != want {
			t.Errorf("%s is shown as %s", want, got)
		}
	}
}

func TestArgumentsThatLookLikeAPasswordAreNotQuoted(t *testing.T) {
	t.Parallel()
	for _, u := range secretURLs {
		if strings.HasPrefix(string(u), secret) || strings.Contains(string(u), "%zz") || strings.Contains(string(u), "%2561") || strings.Contains(string(u), "%61") {
			continue // the secret does not look like a password
		}
		text := fmt.Sprintf("unknown command %q for dibs: got %.40q; %s", string(u), string(u), u.Reveal())
		if got := Redacted(text); strings.Contains(got, secret) {
			t.Errorf("%s becomes %s", text, got)
		}
	}
	for _, text := range []string{
		"write postgres://USER:PASSWORD@HOST:5432/NAME", "jobs.csv:17: payload: is empty", "no server answers at h:5432",
	} {
		if got := Redacted(text); got != text {
			t.Errorf("%s becomes %s", text, got)
		}
	}
}
