// Everything that one reading of the configuration started. A reload makes the next generation,
// starts it, and lets this one end what it has in hand.
#pragma once

#include "app/daemon/config.hpp"
#include "app/daemon/endpoints.hpp"
#include "app/daemon/journal.hpp"
#include "app/daemon/metrics.hpp"
#include "app/daemon/store_book.hpp"
#include <posthorn/stores.hpp>
#include <posthorn/worker.hpp>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace posthorn::daemon {

/// What all generations share.
struct surroundings {
    std::shared_ptr<journal> log;
    std::shared_ptr<metrics> numbers;

    /// Held by the one that puts jobs into stores: the next waits until it has ended.
    std::shared_ptr<std::mutex> putting_jobs = std::make_shared<std::mutex>();
};

class held_feed;

class generation {
public:
    /// Opens transports and feeds, which connect by themselves, and claims nothing. What the one
    /// before knows of its stores is known from the beginning.
    /// Throws: `bad_configuration` for what only shows when it is opened.
    generation(configuration what, surroundings around, const generation* before = nullptr);
    generation(const generation&) = delete;
    generation& operator=(const generation&) = delete;
    ~generation();

    /// Looks for its stores before it is started. Returns: whether that has been done; it takes as
    /// long as databases take, and is to be called now and then meanwhile.
    [[nodiscard]] bool look_for_stores();

    /// Entries of the configuration whose stores could not be looked for, and why.
    [[nodiscard]] std::vector<std::string> stores_not_found() const { return book_->failures(); }

    void start();

    /// Listens for webhooks; apart from `start`, because two generations cannot listen at the same
    /// address. Throws: `error`, and then nobody listens.
    void open_endpoints();

    /// Takes no more requests. What has begun is stored first, on a thread of its own: senders may
    /// be slow.
    void close_endpoints();
    [[nodiscard]] bool endpoints_closed() const { return !closing_; }

    /// Begins nothing new, and lets what runs end; `stop_now` does not wait for it either.
    void drain();
    void stop_now();
    [[nodiscard]] bool ended() const { return threads_running_ == 0; }

    /// Whether its worker has ended, and only chores may still run.
    [[nodiscard]] bool worked() const { return worked_; }

    /// What has become of its worker, if it failed.
    [[nodiscard]] std::string failure() const;
    [[nodiscard]] run_report report() const;

    [[nodiscard]] const configuration& what() const { return what_; }
    [[nodiscard]] worker_status status() const { return worker_->status(); }
    [[nodiscard]] std::vector<store_status> stores() const { return worker_->stores(); }

private:
    void open_transports();
    void open_feeds();
    void make_worker();
    void add_commands();
    void add_relays();
    [[nodiscard]] lifecycle hooks();
    void work();
    void begin(std::function<void()> what); ///< on a thread of its own

    // Chores, each on a thread of its own until it is told to stop.
    void put_jobs(const std::stop_token& stop);
    [[nodiscard]] std::unique_lock<std::mutex> wait_for_turn(const std::stop_token& stop);
    void put_jobs_into(const named_store& which, const std::stop_token& stop);
    void prune_jobs_of(const named_store& which, store& where, const std::stop_token& stop);
    void clean_stores(const std::stop_token& stop);
    void clean_store(const named_store& which, const std::stop_token& stop);
    void count_stores(const std::stop_token& stop);
    void feed_from(std::size_t index, const std::stop_token& stop);
    void feed_into_store(const std::string& name, held_feed& from, const feed_options& how,
                         const std::stop_token& stop);
    [[nodiscard]] store open(const named_store& which) const;

    /// False: it was told to stop.
    bool rest(const std::stop_token& stop, duration length);

    const configuration what_;
    const surroundings around_;
    environment world_;
    std::shared_ptr<store_book> book_; // shared with the provider's list
    store_provider provider_;
    router router_;
    std::map<std::string, std::shared_ptr<transport>, std::less<>> transports_;
    std::mutex feeds_mutex_;
    std::vector<std::unique_ptr<feed>> feeds_; ///< null: it has ended
    std::vector<std::unique_ptr<listening>> endpoints_;
    std::stop_source draining_;
    std::stop_source now_;
    std::unique_ptr<worker> worker_;
    run_report report_;
    std::string failure_;
    std::atomic<bool> worked_ = false; ///< the worker has ended
    std::atomic<int> threads_running_ = 0;
    std::mutex resting_;
    std::condition_variable_any wake_;
    std::atomic<bool> closing_ = false; ///< endpoints
    std::jthread closer_;
    std::vector<std::jthread> threads_; // last: they must be gone before what they use
};

} // namespace posthorn::daemon
