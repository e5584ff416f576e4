package sqlserver

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
)

func TestServersThatCannotKeepThePromisesAreRefused(t *testing.T) {
	t.Parallel()
	good := facts{version: 16, edition: 3, database: "shop", level: 160, versions: true}
	for _, c := range []struct {
		change func(*facts)
		says   string
	}{
		{func(*facts) {}, ""},
		{func(f *facts) { f.version, f.level = 15, 140 }, ""},
		{func(f *facts) { f.version = 17 }, ""},
		{func(f *facts) { f.version, f.edition = 12, azureDatabase }, ""},
		{func(f *facts) { f.version, f.edition = 12, azureInstance }, ""},
		{func(f *facts) { f.version = 14 }, "needs SQL Server 2019"},
		{func(f *facts) { f.babelfish = true }, "Babelfish"},
		{func(f *facts) { f.edition = synapse }, "Synapse"},
		{func(f *facts) { f.edition = synapseServerless }, "Synapse"},
		{func(f *facts) { f.level = 130 }, "alter database [shop] set compatibility_level"},
		{func(f *facts) { f.versions = false }, "alter database [shop] set read_committed_snapshot on with rollback immediate"},
		{func(f *facts) { f.database, f.versions = "a]b", false }, "alter database [a]]b] set"},
	} {
		f := good
		c.change(&f)
		err := f.suitable()
		var invalid *dibs.InvalidError
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%+v is refused: %v", f, err)
		case c.says != "" && (!errors.As(err, &invalid) || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%+v: %v", f, err)
		}
	}
}

func TestURLsThatCannotBeRightAreRefused(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"sqlserver://sa:S3CRET@h:1433",
		"sqlserver://sa:S3CRET@h:port?database=shop",
		"sqlserver://sa:S3CRET@h:1433?database=shop&pool_max_conns=none",
		"sqlserver://sa:S3CRET@h:1433?database=shop&pool_max_conns=0",
		"sqlserver://sa:S3CRET@h:1433?database=shop&ApplicationIntent=ReadOnly",
	} {
		_, err := Open(context.Background(), url, Options{})
		if !errors.Is(err, dibs.ErrInvalid) || strings.Contains(err.Error(), "S3CRET") {
			t.Errorf("%s: %v", url, err)
		}
	}
	config, err := parseURL("sqlserver://sa:S3CRET@h:1433?database=shop&pool_max_conns=7")
	if err != nil {
		t.Fatal(err)
	}
	most := 3
	if err := poolSize(config, &most); err != nil || most != 7 || config.AppName != "dibs" {
		t.Errorf("pool_max_conns=7 is %d, %v; the program is called %q", most, err, config.AppName)
	}
	if _, err := Open(context.Background(), "sqlserver://h?database=shop", Options{MaxConns: -1}); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("MaxConns -1: %v", err)
	}
	if _, err := Open(context.Background(), "sqlserver://h?database=shop", Options{Prefix: "a-b"}); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("a prefix with a hyphen: %v", err)
	}
}
