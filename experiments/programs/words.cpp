// Counts words with std::mutex and std::condition_variable: producers queue lines, workers count
// them into one shared map. Prints the counts, so that runs under different locks can be compared.
#include <condition_variable>
#include <deque>
#include <iostream>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int producers = 2, workers = 6, lines = 100000;
constexpr std::size_t queue_max = 64;

std::mutex queue_mutex, map_mutex;
std::condition_variable not_empty, not_full;
std::deque<std::string> queue;
std::map<std::string, long> counts;
int running = producers;

std::string line(int producer, int number) {
    unsigned seed = static_cast<unsigned>(producer * lines + number) * 2654435761u;
    std::string text;
    for (int i = 0; i < 8; ++i, seed = seed * 1103515245u + 12345u)
        text += "word" + std::to_string(seed >> 16 & 255) + ' ';
    return text;
}

void produce(int producer) {
    for (int number = 0; number < lines; ++number) {
        std::string text = line(producer, number);
        std::unique_lock lock(queue_mutex);
        not_full.wait(lock, [] { return queue.size() < queue_max; });
        queue.push_back(std::move(text));
        not_empty.notify_one();
    }
    std::lock_guard lock(queue_mutex);
    if (--running == 0)
        not_empty.notify_all();
}

void work() {
    for (;;) {
        std::string text;
        {
            std::unique_lock lock(queue_mutex);
            not_empty.wait(lock, [] { return !queue.empty() || running == 0; });
            if (queue.empty())
                return;
            text = std::move(queue.front());
            queue.pop_front();
            not_full.notify_one();
        }
        for (std::size_t at = 0, end; (end = text.find(' ', at)) != text.npos; at = end + 1) {
            std::lock_guard lock(map_mutex);
            ++counts[text.substr(at, end - at)];
        }
    }
}

} // namespace

int main() {
    std::vector<std::thread> threads;
    for (int i = 0; i < producers; ++i)
        threads.emplace_back(produce, i);
    for (int i = 0; i < workers; ++i)
        threads.emplace_back(work);
    for (auto &thread : threads)
        thread.join();
    for (const auto &[word, count] : counts)
        std::cout << word << ' ' << count << '\n';
}
