import java.util.concurrent.*;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.LongStream;

/** Threads of Java that park, contend for monitors, and are interrupted; prints the sums. */
public class Threads {
    static long guarded;

    public static void main(String[] args) throws Exception {
        var pool = Executors.newFixedThreadPool(16);
        var queue = new ArrayBlockingQueue<Integer>(8);
        var sum = new LongAdder();
        var monitor = new Object();
        var done = new CountDownLatch(16);
        for (int thread = 0; thread < 16; thread++) {
            pool.execute(() -> {
                try {
                    for (int item; (item = queue.take()) >= 0;) {
                        sum.add(item);
                        synchronized (monitor) {
                            guarded += item;
                            monitor.notify();
                        }
                    }
                } catch (InterruptedException impossible) {
                    throw new AssertionError(impossible);
                } finally {
                    done.countDown();
                }
            });
        }
        for (int item = 0; item < 50_000; item++) queue.put(item);
        for (int thread = 0; thread < 16; thread++) queue.put(-1);
        done.await();
        var sleeper = new Thread(() -> {
            try {
                Thread.sleep(3_600_000);
            } catch (InterruptedException expected) {
                System.out.println("interrupted");
            }
        });
        sleeper.start();
        sleeper.interrupt();
        sleeper.join();
        pool.shutdown();
        System.gc();
        System.out.println(sum + " " + guarded + " "
                + LongStream.range(0, 1_000_000).parallel().map(x -> x * x % 7).sum());
    }
}
