# SPDX-License-Identifier: MIT OR Apache-2.0
# Two threads compute, and one at a time has the interpreter's lock: both say for how long they did not run.
def ns(clock) = Process.clock_gettime(clock, :nanosecond)
def delay = File.read("/proc/thread-self/schedstat").split[1].to_i
sums = [0, 0, 0]
threads = 2.times.map do
  Thread.new do
    start, ran, without = ns(Process::CLOCK_MONOTONIC), ns(Process::CLOCK_THREAD_CPUTIME_ID), delay
    (1..1000).sum { |i| i * i } while ns(Process::CLOCK_MONOTONIC) - start < 1_000_000_000
    length = ns(Process::CLOCK_MONOTONIC) - start
    mine = [length - (ns(Process::CLOCK_THREAD_CPUTIME_ID) - ran), delay - without, length]
    sums = sums.zip(mine).map(&:sum)
  end
end
threads.each(&:join)
puts %({"kind":"truth","waited":#{sums[0]},"delayed":#{sums[1]},"total":#{sums[2]}})
