// SPDX-License-Identifier: MIT OR Apache-2.0
// Four threads compute under one monitor. The virtual machine itself says for how long each was blocked.
import java.lang.management.*;

class Monitor {
    static final Object lock = new Object();
    static volatile long sum;

    static void computes(long end) {
        while (System.nanoTime() < end)
            synchronized (lock) {
                for (int i = 0; i < 2_000_000; i++) sum += i;
            }
    }

    public static void main(String[] unused) throws Exception {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        threads.setThreadContentionMonitoringEnabled(true);
        long[] waited = new long[4];
        Thread[] all = new Thread[4];
        for (int i = 0; i < 4; i++) {
            int at = i;
            all[i] = new Thread(() -> {
                computes(System.nanoTime() + 1_500_000_000L);
                waited[at] = threads.getThreadInfo(Thread.currentThread().getId()).getBlockedTime();
            });
            all[i].start();
        }
        long sum = 0;
        for (int i = 0; i < 4; i++) { all[i].join(); sum += waited[i]; }
        System.out.println("{\"kind\":\"truth\",\"waited\":" + sum * 1_000_000 + ",\"delayed\":0,\"total\":6000000000}");
    }
}
