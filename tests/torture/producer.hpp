// A producer: transactions of a few messages of every kind, some of which it rolls back.
#pragma once

#include "checker/history.hpp"
#include <posthorn/enqueue.hpp>
#include <posthorn/store.hpp>

#include <random>
#include <stop_token>
#include <string>

namespace posthorn::torture {

class producer {
public:
    producer(store where, checker::history_writer& notes, std::string name, unsigned seed);

    /// Enqueues until it is told to stop; a database that is away is waited for.
    void run(const std::stop_token& stop);

private:
    outgoing draw_message();
    void one_transaction(const std::string& token);
    void one_by_itself(const std::string& token);
    void note(const outgoing& what, message_id id, const std::string& token, timestamp asked_at);

    template <typename Action>
    void end(const std::string& token, checker::transaction_end as, Action&& action);

    store store_;
    checker::history_writer& notes_;
    std::string name_;
    std::mt19937 draw_;
};

} // namespace posthorn::torture
