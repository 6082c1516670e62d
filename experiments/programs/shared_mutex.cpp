// SPDX-License-Identifier: MIT OR Apache-2.0
// Threads that read and write a table under a std::shared_mutex, for `overlock compare`.
//
//   shared_mutex mostly-read    4 threads, 1 of 100 operations writes, short sections
//   shared_mutex starved        8 readers whose sections of 1 ms overlap, 1 writer
//
// Prints the operations in 2 s, and the longest wait of a writer: the wait that was under way at the end counts.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

using Clock = std::chrono::steady_clock;

static std::shared_mutex table;
static long values[64];
static std::atomic<bool> stop;
static std::atomic<long> operations;
static std::atomic<long> longest_us;

static void read(bool sleeps)
{
	std::shared_lock lock(table);
	long sum = 0;
	for (long value : values)
		sum += value;
	if (sleeps)
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
	asm volatile("" : : "r"(sum));
}

static void write()
{
	auto begun = Clock::now();
	std::unique_lock lock(table);
	long us = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begun).count();
	long seen = longest_us;
	while (us > seen && !longest_us.compare_exchange_weak(seen, us)) {
	}
	for (long &value : values)
		value++;
}

static void mostly_read()
{
	long count = 0;
	for (; !stop; count++)
		count % 100 == 0 ? write() : read(false);
	operations += count;
}

static void read_on()
{
	long count = 0;
	for (; !stop; count++)
		read(true);
	operations += count;
}

static void write_on()
{
	while (!stop) {
		write();
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
	}
}

int main(int count, char **arguments)
{
	if (count != 2)
		return 2;
	bool starved = std::strcmp(arguments[1], "starved") == 0;
	std::vector<std::thread> threads;
	for (int i = 0; i < (starved ? 8 : 4); i++)
		threads.emplace_back(starved ? read_on : mostly_read);
	if (starved)
		threads.emplace_back(write_on);
	std::this_thread::sleep_for(std::chrono::seconds(2));
	stop = true;
	for (auto &thread : threads)
		thread.join();
	std::printf("%ld operations\n%ld us is the longest wait to write\n", operations.load(), longest_us.load());
}
