// A producer, the thread that hears what became of its messages, and whether anybody is there.
#pragma once

#include "transport/kafka/configuration.hpp"
#include <posthorn/transport.hpp>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace posthorn::kafka {

/// What became of one message.
struct delivery_report {
    std::size_t index = 0;
    rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_NO_ERROR;
    rd_kafka_msg_status_t status = RD_KAFKA_MSG_STATUS_NOT_PERSISTED;
};

/// Where the reports for one call arrive. They may do so after the call has returned.
struct mailbox : std::enable_shared_from_this<mailbox> {
    /// What a message carries: whom its report is for.
    struct stamp {
        mailbox* to = nullptr;
        std::size_t index = 0;
    };

    explicit mailbox(std::size_t messages);

    std::vector<stamp> stamps; ///< does not change any more
    std::mutex mutex;
    std::condition_variable_any changed;
    std::vector<delivery_report> arrived;
    std::size_t received = 0;

    /// Nobody waits any more: so many will have come when the last has, and then it ends itself.
    std::size_t expected = 0;
    std::shared_ptr<mailbox> self = {}; // only then, until the last has come
};

/// Whoever waits for reports. However it ends, the mailbox stays until the last of them has come.
class recipient {
public:
    explicit recipient(std::size_t messages) : mailbox_(std::make_shared<mailbox>(messages)) {}
    recipient(const recipient&) = delete;
    recipient& operator=(const recipient&) = delete;
    ~recipient();

    [[nodiscard]] mailbox* operator->() const noexcept { return mailbox_.get(); }

    /// To be said of each message that was taken, before anything can throw.
    void expect_one_more() noexcept { ++sent_; }
    [[nodiscard]] std::size_t sent() const noexcept { return sent_; }

private:
    std::shared_ptr<mailbox> mailbox_; // shared with reports on their way
    std::size_t sent_ = 0;
};

class producer {
public:
    /// Whether a message travels with others, or alone: then an answer is about it and no other.
    enum class company { many, alone };

    /// What making one would refuse, as far as that shows without a client.
    /// Throws: `error` with `invalid_argument`.
    static void check(const kafka_options& options);

    /// Throws: `error` with `invalid_argument`.
    producer(const kafka_options& options, std::shared_ptr<const environment> surroundings,
             company how);
    producer(const producer&) = delete;
    producer& operator=(const producer&) = delete;
    ~producer();

    struct letter {
        const std::string& topic;
        const std::string& key;
        const std::string& payload;
        const headers& envelope;
    };

    /// Puts a message into the queue; its report comes to the stamp. Returns: why not.
    [[nodiscard]] rd_kafka_resp_err_t send(const letter& what, mailbox::stamp& stamp);

    /// Everything is in the queue: what is there need not wait for company any longer.
    void hurry();

    /// Takes back what was not sent, of everybody. Reports say so.
    void purge_queue();

    /// Whether nothing can be sent by it any more.
    [[nodiscard]] bool is_broken() const;

    [[nodiscard]] company how() const noexcept { return how_; }

    /// Something was not answered: nobody knows whether a broker is there, until one answers.
    void doubt();

    /// Waits until a broker has answered since the last doubt. False: not by then, or woken.
    [[nodiscard]] bool wait_until_connected(const time_limit& how_long,
                                            const std::atomic<bool>& enough);
    void wake(); ///< those who wait look at `enough`

    /// What a broker or the network complained about last; empty: nothing since the last answer.
    [[nodiscard]] std::string trouble() const;

private:
    using topic_handle = std::shared_ptr<rd_kafka_topic_t>; // shared with calls in progress

    [[nodiscard]] topic_handle topic(const std::string& name);
    void listen();
    void hand_out(rd_kafka_event_t& reports) const;
    void hear(rd_kafka_event_t& trouble);
    void probe();

    client_context context_;
    company how_;
    std::string where_;

    mutable std::mutex mutex_;
    std::condition_variable_any changed_;
    bool connected_ = false;
    bool lost_ = false;        ///< and somebody was told
    std::uint64_t doubts_ = 0; ///< an answer to an older question settles nothing
    std::size_t waiting_ = 0;
    std::string trouble_;
    std::map<std::string, topic_handle, std::less<>> topics_;

    std::atomic<bool> ending_ = false;
    client_handle client_;
    queue_handle queue_;
    std::jthread listener_;
    std::jthread prober_; ///< only works while somebody waits
};

} // namespace posthorn::kafka
