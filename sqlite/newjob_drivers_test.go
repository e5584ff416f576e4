package sqlite_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
)

// drivers are programs with drivers of other languages, some of which send all values as text. Each
// writes an order and its job in a transaction that it commits, in one that it rolls back, and in
// one whose job is refused. It prints the id of its job, whether that existed, and the refusal.
var drivers = map[string]struct {
	has    []string // a command that fails where the driver is missing
	run    []string // the command that runs the script, which is its last argument
	script string
}{
	"Perl DBI": {[]string{"perl", "-MDBD::SQLite", "-e", "1"}, []string{"perl", "-e"}, `
use strict; use warnings; use DBI;
my $db = DBI->connect("dbi:SQLite:dbname=$ARGV[0]", "", "", {RaiseError => 1, PrintError => 0, sqlite_use_immediate_transaction => 1});
$db->sqlite_busy_timeout(600000);
sub order {
	my ($name, $priority) = @_;
	$db->begin_work;
	$db->do("insert into orders (name) values (?)", undef, $name);
	$db->do("insert into dibs_new_job (queue, payload, priority, delay, unique_key) values (?, ?, ?, ?, ?)", undef, "orders", qq({"order":"$name"}), $priority, "1.5", $name);
	return $db->selectrow_array("select id, existing from dibs_enqueued");
}
my ($id, $existing) = order("kept", "5");
$db->commit;
order("gone", "5");
$db->rollback;
eval { order("refused", "-1") };
my $refusal = $@ =~ /(priority: must be \d+ to \d+)/ ? $1 : "nothing: $@";
$db->rollback;
print "$id $existing $refusal\n";
`},
	"PHP PDO": {[]string{"php", "-r", `exit(extension_loaded("pdo_sqlite") ? 0 : 1);`}, []string{"php", "-r"}, `
$db = new PDO("sqlite:$argv[1]", null, null, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION, PDO::ATTR_TIMEOUT => 600]);
function order($db, $name, $priority) {
	$db->exec("begin immediate");
	$db->prepare("insert into orders (name) values (?)")->execute([$name]);
	$db->prepare("insert into dibs_new_job (queue, payload, priority, delay, unique_key) values (?, ?, ?, ?, ?)")
		->execute(["orders", json_encode(["order" => $name]), $priority, 1.5, $name]);
	return $db->query("select id, existing from dibs_enqueued")->fetch();
}
$row = order($db, "kept", 5);
$db->exec("commit");
order($db, "gone", 5);
$db->exec("rollback");
try {
	order($db, "refused", -1);
	$refusal = "nothing";
} catch (PDOException $e) {
	$refusal = preg_replace("/.*(priority: .*)/", "$1", $e->getMessage());
}
$db->exec("rollback");
echo "$row[id] $row[existing] $refusal\n";
`},
	"Django": {[]string{"/usr/bin/python3", "-c", "import django"}, []string{"/usr/bin/python3", "-c"}, `
import sys, django
from django.conf import settings
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1], "OPTIONS": {"timeout": 600}}})
django.setup()
from django.db import connection, models, transaction, IntegrityError

class Order(models.Model):
    name = models.TextField(primary_key=True)
    class Meta:
        app_label = "shop"
        db_table = "orders"
        managed = False

def order(name, priority):
    Order.objects.create(name=name)
    with connection.cursor() as c:
        c.execute("insert into dibs_new_job (queue, payload, priority, delay, unique_key) values ('orders', %s, %s, %s, %s)", ['{"order":"%s"}' % name, priority, 1.5, name])
        c.execute("select id, existing from dibs_enqueued")
        return c.fetchone()

with transaction.atomic():
    row = order("kept", 5)
try:
    with transaction.atomic():
        order("gone", 5)
        raise KeyError
except KeyError:
    pass
try:
    with transaction.atomic():
        order("refused", -1)
    refusal = "nothing"
except IntegrityError as e:
    refusal = str(e)
print(row[0], row[1], refusal)
`},
}

func TestNewJobsOfDrivers(t *testing.T) {
	t.Parallel()
	for name, d := range drivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, err := exec.CommandContext(t.Context(), d.has[0], d.has[1:]...).CombinedOutput(); err != nil {
				needs.Missing(t, "%s is not here (scripts/languages.sh installs it, on Debian): %v %s", name, err, out)
			}
			path := filepath.Join(t.TempDir(), "shop.db")
			s := openAt(t, path, sqlite.Options{})
			if _, err := s.DB().ExecContext(t.Context(), "create table orders (name text primary key)"); err != nil {
				t.Fatal(err)
			}
			command := append(append([]string(nil), d.run...), d.script)
			if d.run[0] == "php" {
				command = append(command, "--")
			}
			out, err := exec.CommandContext(t.Context(), command[0], append(command[1:], path)...).CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != "1 0 priority: must be 0 to 32767" {
				t.Errorf("it says %s, %v", got, err)
			}
			var row string
			if err := s.DB().QueryRowContext(t.Context(), `select group_concat(name) || ' ' || (
				select group_concat(queue || ' ' || payload || ' ' || priority || ' ' || (run_at - created_at) || ' ' || unique_key) from dibs_job
			) from orders`).Scan(&row); err != nil || strings.ReplaceAll(row, `": "`, `":"`) != fmt.Sprintf(`kept orders {"order":"kept"} 5 %d kept`, 1_500_000) {
				t.Errorf("there is %s, %v", row, err)
			}
		})
	}
}
