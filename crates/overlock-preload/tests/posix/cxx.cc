/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How C++ programs reach the same calls: by std::mutex and its relatives, and by initialisation before main. */
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "posix.h"

using namespace std::chrono_literals;

/* Locked by a constructor, before main. */
static std::mutex early;
static pthread_mutex_t early_recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static const int before_main = [] {
	std::lock_guard<std::mutex> guard(early);
	pthread_mutex_lock(&early_recursive);
	pthread_mutex_lock(&early_recursive);
	pthread_mutex_unlock(&early_recursive);
	return pthread_mutex_unlock(&early_recursive);
}();

template <class Run> static void in_threads(int count, Run run)
{
	std::vector<std::thread> threads;

	for (int i = 0; i < count; i++)
		threads.emplace_back(run);
	for (auto &thread : threads)
		thread.join();
}

CASE(constructors_before_main_lock)
{
	EQ(before_main, 0);
	CHECK(early.try_lock());
	EQ(pthread_mutex_unlock(&early_recursive), EPERM);
}

CASE(constants_are_initialisers)
{
	static constexpr std::mutex *none = nullptr;
	static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER, errorcheck = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP,
			       adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
	static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

	CHECK(none == nullptr);
	for (pthread_mutex_t *mutex : { &normal, &errorcheck, &adaptive }) {
		EQ(pthread_mutex_lock(mutex), 0);
		EQ(pthread_mutex_trylock(mutex), EBUSY);
		EQ(pthread_cond_signal(&cond), 0);
		EQ(pthread_mutex_unlock(mutex), 0);
	}
}

template <class Mutex> static void count_with()
{
	Mutex mutex;
	long count = 0;

	in_threads(6, [&] {
		for (int i = 0; i < 5000; i++) {
			std::lock_guard<Mutex> guard(mutex);
			long seen = count;
			/* Sometimes the holder loses its CPU: on a busy machine the threads may never run at once. */
			if (i % 64 == 0)
				sched_yield();
			count = seen + 1;
		}
	});
	EQ(count, 30000);
}

CASE(every_kind_of_mutex_excludes)
{
	count_with<std::mutex>();
	count_with<std::recursive_mutex>();
	count_with<std::timed_mutex>();
	count_with<std::recursive_timed_mutex>();
	count_with<std::shared_mutex>();
}

CASE(timed_mutex_times_out)
{
	std::timed_mutex mutex;
	auto before = std::chrono::steady_clock::now();

	mutex.lock();
	std::thread([&] {
		CHECK(!mutex.try_lock());
		CHECK(!mutex.try_lock_for(30ms));
		CHECK(!mutex.try_lock_until(std::chrono::system_clock::now() + 30ms));
		CHECK(!mutex.try_lock_until(std::chrono::steady_clock::now() + 30ms));
	}).join();
	CHECK(std::chrono::steady_clock::now() - before >= 85ms);
	mutex.unlock();
	CHECK(mutex.try_lock_for(100s));
	mutex.unlock();
}

CASE(condition_variable_hands_over)
{
	std::mutex mutex;
	std::condition_variable not_empty, not_full;
	std::condition_variable_any any;
	int full = 0;
	long sum = 0;

	std::thread consumer([&] {
		for (int i = 0; i < 10000; i++) {
			std::unique_lock<std::mutex> lock(mutex);
			not_empty.wait(lock, [&] { return full != 0; });
			sum += full;
			full = 0;
			not_full.notify_one();
			any.notify_all();
		}
	});
	for (int i = 1; i <= 10000; i++) {
		std::unique_lock<std::mutex> lock(mutex);
		if (i % 2)
			CHECK(not_full.wait_for(lock, 100s, [&] { return full == 0; }));
		else
			any.wait(lock, [&] { return full == 0; });
		full = i;
		not_empty.notify_one();
	}
	consumer.join();
	EQ(sum, 10000L * 10001 / 2);
	std::unique_lock<std::mutex> lock(mutex);
	CHECK(not_empty.wait_for(lock, 20ms) == std::cv_status::timeout);
	CHECK(lock.owns_lock());
}

CASE(cancellation_runs_destructors)
{
	/* Forced unwinding passes through C++ frames above the wait, whose objects are destroyed. */
	static std::mutex mutex;
	static std::condition_variable cond;
	static std::atomic<int> waiting{ 0 }, destroyed{ 0 };
	struct Witness {
		~Witness()
		{
			destroyed++;
		}
	};
	pthread_t thread = start(
		[](void *) -> void * {
			Witness witness;
			pthread_mutex_lock(mutex.native_handle());
			waiting = 1;
			for (;;)
				pthread_cond_wait(cond.native_handle(), mutex.native_handle());
		},
		nullptr);

	while (!waiting)
		pause_ms(1);
	mutex.lock();
	mutex.unlock();
	EQ(pthread_cancel(thread), 0);
	CHECK(join(thread) == PTHREAD_CANCELED);
	EQ(destroyed.load(), 1);
	/* No thread unlocked it: the cancelled thread held it when its clean-up ran. */
	CHECK(!mutex.try_lock());
}

CASE(call_once_and_thread_local_destructors)
{
	static std::mutex mutex;
	static std::once_flag once;
	static int calls, destroyed;
	struct Late {
		~Late()
		{
			std::lock_guard<std::mutex> guard(mutex);
			destroyed++;
		}
		void touch()
		{
		}
	};

	in_threads(8, [] {
		static thread_local Late late;
		late.touch();
		std::call_once(once, [] { calls++; });
	});
	EQ(calls, 1);
	EQ(destroyed, 8);
}
