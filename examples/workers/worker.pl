#!/usr/bin/env perl
# A worker that stays: dibs work demo --lines --concurrency 8 -- perl worker.pl
use strict; use warnings; use utf8;
use JSON::PP; # a part of Perl; JSON::XS is faster
my $json = JSON::PP->new->utf8->allow_nonref;
$| = 1; # each line is written at once

sub say_of { my ($job, %what) = @_; print $json->encode({ id => $job->{id}, token => $job->{token}, %what }), "\n" }

sub work {
    my ($job) = @_;
    if ($job->{kind} eq 'echo') {
        say_of($job, progress => { done => 1, total => 2 });
        return (ending => 'completed', result => $job->{payload});
    }
    return (ending => 'snooze', delay => 60) if $job->{kind} eq 'busy';
    die "the mail server is down, größtenteils\n" if $job->{kind} eq 'flaky';
    if ($job->{kind} eq 'crash') { print STDERR "it crashed\n"; exit 1 }
    return (ending => 'dead', error => 'there is no such kind');
}

while (my $line = <STDIN>) {
    my $job = $json->decode($line);
    my %answer = eval { work($job) };
    %answer = (ending => 'retry', error => $@ =~ s/\n\z//r) if $@;
    say_of($job, %answer);
}
