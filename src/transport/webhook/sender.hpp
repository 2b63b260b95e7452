// The thread that sends: it alone speaks to curl, knows how each endpoint is doing, and lets the
// messages of a key go one after the other.
#pragma once

#include "transport/webhook/batch.hpp"
#include "transport/webhook/endpoint_health.hpp"
#include "transport/webhook/transfer.hpp"
#include <posthorn/environment.hpp>

#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace posthorn::transports {

class sender {
public:
    sender(transfer_setting with, environment world);
    sender(const sender&) = delete;
    sender& operator=(const sender&) = delete;
    ~sender();

    /// Waits until each message has its answer.
    void send(webhook_batch& what, std::stop_token stop);

    [[nodiscard]] const transfer_setting& setting() const noexcept { return setting_; }

private:
    struct place_in_batch {
        webhook_batch* batch;
        std::size_t index;
    };
    struct endpoint {
        endpoint_health health = {};
        std::deque<place_in_batch> waiting = {};
        std::size_t running = 0;
        std::string shown = {};
    };
    struct multi_closer {
        void operator()(CURLM* which) const { curl_multi_cleanup(which); }
    };
    using endpoints = std::map<std::string, endpoint, std::less<>>;

    void run();
    [[nodiscard]] bool take_work();
    void admit(webhook_batch& what);
    void admit_question(webhook_batch& what);
    void admit_next(webhook_batch& of, std::string_view key);
    void cut(webhook_batch& what, std::string_view reason);
    void cut_what_is_late();
    void read_results();
    void pump(endpoints::iterator at);
    void pump_all();
    bool start(endpoints::iterator at, place_in_batch which,
               const endpoint_health::permission& with);
    void end(std::list<transfer>::iterator which, const transfer::end& how);
    void answer(webhook_batch& of, std::size_t index, publish_answer what);
    void tell(endpoints::const_reference about, bool was_left, std::optional<duration> pause,
              const publish_answer& last) const;
    void tell_owner(const std::string& endpoint, bool is_left) const;
    void say(log_level level, const std::string& line) const;
    void forget(endpoints::iterator which);
    void finish_batches();
    [[nodiscard]] easy_handle an_easy_handle();
    [[nodiscard]] int wait_ms() const;

    const transfer_setting setting_;
    const environment world_;
    const breaker_options breaker_;

    // Of the thread alone.
    std::unique_ptr<CURLM, multi_closer> multi_;
    std::vector<easy_handle> spare_;
    std::list<transfer> running_; // last: each holds what is above
    endpoints endpoints_;
    std::vector<webhook_batch*> batches_;
    bool default_is_well_ = false; ///< the last time that somebody answered
    bool pump_everything_ = false;
    std::string served_last_;

    // Shared.
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<webhook_batch*> incoming_;
    bool stopping_ = false;

    std::thread thread_;
};

} // namespace posthorn::transports
