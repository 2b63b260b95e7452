// How a feed tells its story: each message before it is stored, and the end of each batch.
#pragma once

#include "checker/history.hpp"
#include <posthorn/feeds.hpp>

#include <stdexcept>
#include <string>
#include <utility>

namespace posthorn::torture {

/// For `feed_inbox`, which stores what it received, and then acknowledges it.
class talking_feed final : public feed {
public:
    talking_feed(feed& behind, std::string source, std::string name,
                 const checker::history_writer& notes)
        : behind_(behind), source_(std::move(source)), name_(std::move(name)), notes_(notes)
    {}

    std::vector<fed_message> receive(std::size_t at_most, const time_limit& how_long) override
    {
        auto brought = behind_.receive(at_most, how_long);
        asked_at_ = notes_.now();
        token_ = name_ + "/" + std::to_string(++batches_);
        for (const auto& each : brought)
            notes_.record(checker::feed_event{.from = {.source = source_, .id = each.id},
                                              .topic = each.topic,
                                              .key = each.key,
                                              .transaction = token_},
                          asked_at_);
        return brought;
    }

    void acknowledge(std::span<const std::uint64_t> tickets) override
    {
        end(checker::transaction_end::committed);
        behind_.acknowledge(tickets);
    }

    /// The store failed, and may have stored them all the same.
    void give_back(std::span<const std::uint64_t> tickets, duration pause) override
    {
        end(checker::transaction_end::unknown);
        behind_.give_back(tickets, pause);
    }

    void refuse(std::span<const std::uint64_t> /*tickets*/, const std::string& reason) override
    {
        throw std::logic_error("nothing here is to be refused: " + reason);
    }

    void close() override { behind_.close(); }
    [[nodiscard]] std::string name() const override { return behind_.name(); }

private:
    void end(checker::transaction_end as)
    {
        notes_.record(checker::transaction_event{token_, as}, asked_at_);
    }

    feed& behind_;
    std::string source_;
    std::string name_;
    const checker::history_writer& notes_;
    timestamp asked_at_;
    std::string token_;
    int batches_ = 0;
};

} // namespace posthorn::torture
