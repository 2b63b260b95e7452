// A feed whose next batch can be held back: until it is known where it belongs, the messages wait
// here, and none of them is overtaken.
#pragma once

#include <posthorn/feeds.hpp>

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace posthorn::daemon {

/// Threads: as a feed.
class held_feed final : public feed {
public:
    explicit held_feed(feed& behind) : behind_(behind) {}

    /// From now on: whoever asks for messages gets none if this is true when there are some. They
    /// are the first ones for whoever asks next.
    void hold_if(std::function<bool()> condition)
    {
        holds_ = std::move(condition);
        is_closed_ = false;
    }

    /// Whether the last one who asked got nothing, and not because something was held back.
    [[nodiscard]] bool is_closed() const noexcept { return is_closed_; }

    /// Nobody will ask for a while.
    void give_held_back(duration pause)
    {
        std::vector<std::uint64_t> tickets;
        for (const auto& each : std::exchange(held_, {}))
            tickets.push_back(each.ticket);
        if (!tickets.empty())
            behind_.give_back(tickets, pause);
    }

    [[nodiscard]] std::vector<fed_message> receive(std::size_t at_most,
                                                   const time_limit& how_long) override
    {
        auto next = held_.empty() ? behind_.receive(at_most, how_long) : std::exchange(held_, {});
        is_closed_ = next.empty();
        if (!next.empty() && holds_ && holds_())
            held_ = std::exchange(next, {});
        return next;
    }
    void acknowledge(std::span<const std::uint64_t> tickets) override
    {
        behind_.acknowledge(tickets);
    }
    void give_back(std::span<const std::uint64_t> tickets, duration pause) override
    {
        behind_.give_back(tickets, pause);
    }
    void refuse(std::span<const std::uint64_t> tickets, const std::string& reason) override
    {
        behind_.refuse(tickets, reason);
    }
    void close() override { behind_.close(); }
    [[nodiscard]] std::string name() const override { return behind_.name(); }

private:
    feed& behind_;
    std::function<bool()> holds_;
    std::vector<fed_message> held_;
    bool is_closed_ = false;
};

} // namespace posthorn::daemon
