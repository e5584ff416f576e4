package mysql

import (
	"errors"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
)

func TestServersThatCannotKeepThePromisesAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ version, comment, says string }{
		{"8.0.11-TiDB-v7.5.1", "TiDB Server (Apache License 2.0) Community Edition, MySQL 8.0 compatible", "TiDB"},
		{"5.7.25-TiDB-v6.1.0", "", "TiDB"},
		{"8.0.33", "Dolt", "Dolt"},
		{"10.11.2-MariaDB", "Dolt 1.50", "Dolt"},
		{"8.0.36", "MySQL Community Server - GPL", "8.0.36"},
		{"10.5.23-MariaDB-1:10.5.23", "mariadb.org binary distribution", "10.5.23"},
		{"5.5.68-MariaDB", "MariaDB Server", "5.5.68"},
		{"", "", "needs MariaDB"},
		{"10.6.0-MariaDB", "", ""},
		{"10.6.16-MariaDB-0ubuntu0.22.04.1", "Ubuntu 22.04", ""},
		{"10.11.6-MariaDB-0+deb12u1", "Debian 12", ""},
		{"11.4.2-MariaDB-ubu2404", "mariadb.org binary distribution", ""},
	} {
		err := suitable(c.version, c.comment)
		var invalid *dibs.InvalidError
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%q, %q is refused: %v", c.version, c.comment, err)
		case c.says != "" && (!errors.As(err, &invalid) || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%q, %q: %v", c.version, c.comment, err)
		}
	}
}
