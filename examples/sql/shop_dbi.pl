# An order and its job in one transaction, with Perl's DBI.
use strict;
use warnings;
use DBI;
use JSON::PP;

my $json = JSON::PP->new->canonical->utf8(0);
my $db = DBI->connect($ENV{DBI_DSN}, $ENV{DBI_USER}, $ENV{DBI_PASS}, { RaiseError => 1, PrintError => 0, AutoCommit => 1 });

# Adds an order, and the job that confirms it.
sub order {
    my ($item) = @_;
    my ($id) = $db->selectrow_array('insert into orders (item) values (?) returning id', undef, $item);
    $db->do(q{select dibs.enqueue('mail', ?, kind => 'confirm')}, undef, $json->encode({ order => $id + 0, item => $item }));
}

$db->begin_work;
order('a lamp');
$db->commit;

$db->begin_work;
order('a chair');
$db->rollback;    # neither the order nor the job exists

eval { $db->do(q{select dibs.enqueue('mail', priority => -1)}); 1 } and die "a wrong priority was taken\n";
print join(' | ', $db->state, $db->pg_error_field('column'), $db->pg_error_field('primary')), "\n";
