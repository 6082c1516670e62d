# Threads that share a queue, a mutex and a condition variable of Ruby, and a fork; prints the sums.
queue = SizedQueue.new(16)
mutex = Mutex.new
turn = ConditionVariable.new
sum = 0
threads = 8.times.map do
  Thread.new do
    while (item = queue.pop)
      mutex.synchronize { sum += item; turn.signal }
    end
  end
end
watcher = Thread.new do
  mutex.synchronize { turn.wait(mutex) while sum < 1000 }
  :seen
end
(1..20_000).each { |item| queue << item }
8.times { queue << nil }
threads.each(&:join)
puts sum, watcher.value
Process.wait(fork { Thread.new { mutex.synchronize { sum += 1 } }.join; exit!(sum == 200_010_001 ? 0 : 1) })
puts $?.exitstatus
