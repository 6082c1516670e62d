# Threads that share a counter, a queue and a condition variable of Perl; prints the sums.
use strict;
use warnings;
use threads;
use threads::shared;
use Thread::Queue;

my $sum : shared = 0;
my $queue = Thread::Queue->new;
my @threads = map {
    threads->create(sub {
        while (defined(my $item = $queue->dequeue)) {
            lock $sum;
            $sum += $item;
        }
    })
} 1 .. 8;
$queue->enqueue($_) for 1 .. 20000;
$queue->end;
$_->join for @threads;
print "$sum\n";
