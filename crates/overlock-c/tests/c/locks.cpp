/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The C++ classes with the standard library's guards and algorithms. */
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "check.h"

using namespace std::chrono_literals;

namespace {

constexpr unsigned threads = 4;
constexpr unsigned rounds = 20000;

/* Constant-initialised, with nothing to destroy: usable at any time of a program's life. */
overlock::mutex global;

template <class Lock>
void has_the_shape_of_a_lock()
{
    static_assert(sizeof(Lock) == 4, "nothing but the C lock");
    static_assert(std::is_standard_layout<Lock>::value, "it can lie in shared memory");
    static_assert(std::is_trivially_destructible<Lock>::value, "nothing to destroy");
    static_assert(std::is_nothrow_default_constructible<Lock>::value, "it can't fail");
    static_assert(!std::is_copy_constructible<Lock>::value, "a lock stays where it is");
    static_assert(!std::is_move_constructible<Lock>::value, "a lock stays where it is");
}

template <class Lock>
void excludes()
{
    has_the_shape_of_a_lock<Lock>();
    Lock lock;
    unsigned long sum = 0;
    std::vector<std::thread> crowd;
    for (unsigned i = 0; i < threads; i++) {
        crowd.emplace_back([&] {
            for (unsigned round = 0; round < rounds; round++) {
                std::lock_guard<Lock> guard(lock);
                unsigned long old = sum;
                if (round % 64 == 0)
                    std::this_thread::yield();
                sum = old + 1;
            }
        });
    }
    for (auto &thread : crowd)
        thread.join();
    CHECK(sum == static_cast<unsigned long>(threads) * rounds);
}

template <class Lock>
void refuses()
{
    Lock lock;
    std::unique_lock<Lock> guard(lock);
    CHECK(guard.owns_lock());
    std::thread([&] {
        std::unique_lock<Lock> other(lock, std::try_to_lock);
        CHECK(!other.owns_lock());
    }).join();
    guard.unlock();
    std::thread([&] {
        std::unique_lock<Lock> other(lock, std::try_to_lock);
        CHECK(other.owns_lock());
    }).join();
}

template <class Lock>
void gives_up()
{
    Lock lock;
    lock.lock();
    std::thread([&] {
        const auto steady = std::chrono::steady_clock::now() + 20ms;
        CHECK(!lock.try_lock_until(steady));
        CHECK(std::chrono::steady_clock::now() >= steady);
        const auto wall = std::chrono::system_clock::now() + 5ms;
        CHECK(!lock.try_lock_until(wall));
        CHECK(std::chrono::system_clock::now() >= wall);
        CHECK(!lock.try_lock_until(std::chrono::steady_clock::time_point::min()));
        CHECK(!lock.try_lock_for(5ms));
        CHECK(!lock.try_lock_for(-5s));
        CHECK(!lock.try_lock_for(std::chrono::duration<double>(0.001)));
        CHECK(!lock.try_lock_for(std::chrono::duration<float, std::pico>(5e8F)));
        CHECK(!lock.try_lock_for(std::chrono::duration<double>(NAN)));
        CHECK(!lock.try_lock_for(std::chrono::duration<double>(-INFINITY)));
        /* A float's step at the uptime of this machine can be longer than this. */
        const auto before = std::chrono::steady_clock::now();
        CHECK(!lock.try_lock_for(std::chrono::duration<float, std::nano>(3e6F)));
        CHECK(std::chrono::steady_clock::now() - before >= 3ms);
    }).join();
    lock.unlock();
    CHECK(lock.try_lock_for(0s));
    lock.unlock();
    CHECK(lock.try_lock_until(std::chrono::steady_clock::time_point::max()));
    lock.unlock();
    std::unique_lock<Lock> guard(lock, 10min);
    CHECK(guard.owns_lock());
}

/* Takes two locks at once, in both orders: std::scoped_lock backs off with try_lock. */
void takes_two()
{
    overlock::hybrid a;
    overlock::ticket b;
    unsigned long sum = 0;
    std::thread other([&] {
        for (unsigned round = 0; round < rounds; round++) {
            std::scoped_lock both(b, a);
            sum++;
        }
    });
    for (unsigned round = 0; round < rounds; round++) {
        std::scoped_lock both(a, b);
        sum++;
    }
    other.join();
    CHECK(sum == 2ul * rounds);
}

/* Takes the same lock from C code and from C++ code. */
void shares_with_c()
{
    std::lock_guard<overlock::mutex> guard(global);
    std::thread([] { CHECK(ol_mutex_trylock(global.native_handle()) == EBUSY); }).join();
}

} // namespace

void readers_share_and_wait()
{
    overlock::shared_mutex lock;
    std::condition_variable_any changed;
    int value = 0;
    std::thread writer;
    {
        std::shared_lock<overlock::shared_mutex> one(lock), other(lock, std::try_to_lock);
        CHECK(other.owns_lock());
        CHECK(!lock.try_lock_for(1ms));
        writer = std::thread([&] {
            std::lock_guard<overlock::shared_mutex> guard(lock);
            value = 1;
            changed.notify_all();
        });
        other.unlock();
        changed.wait(one, [&] { return value == 1; });
    }
    writer.join();
    std::unique_lock<overlock::shared_mutex> guard(lock);
    CHECK(!lock.try_lock_shared());
}

int main()
{
    readers_share_and_wait();
    excludes<overlock::mutex>();
    excludes<overlock::queued>();
    excludes<overlock::ticket>();
    excludes<overlock::test_and_set>();
    excludes<overlock::shared>();
    refuses<overlock::mutex>();
    refuses<overlock::queued>();
    refuses<overlock::ticket>();
    refuses<overlock::test_and_set>();
    refuses<overlock::shared>();
    gives_up<overlock::mutex>();
    gives_up<overlock::queued>();
    gives_up<overlock::test_and_set>();
    gives_up<overlock::shared>();
    takes_two();
    shares_with_c();
}
