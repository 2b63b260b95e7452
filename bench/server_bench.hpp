// Posthorn on a database server next to what people write by hand there.
#pragma once

#include "bench/figures.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace bench {

struct server_plan {
    std::size_t rounds = 5;
    std::size_t single_messages = 3'000;
    std::size_t bulk_messages = 100'000;
    std::size_t long_drain_messages = 1'000'000;
};

/// The other side on one server: tables of its own, made fresh for every round.
class hand_written {
public:
    virtual ~hand_written() = default;

    /// Rows with the columns of a Posthorn message and a primary key, and nothing else.
    virtual void plain_insert(std::size_t messages, std::size_t per_transaction) = 0;

    /// The usual queue: claims with FOR UPDATE SKIP LOCKED, and marks as done.
    virtual void fill_queue(std::size_t messages) = 0;
    virtual void claim_and_mark_done(std::size_t messages, std::size_t batch) = 0;

    /// Cleans up after a fill, so that no background work disturbs what follows.
    virtual void settle_down() = 0;

    /// Bytes of log that the server has written so far, if it tells.
    [[nodiscard]] virtual std::optional<std::int64_t> log_bytes() = 0;
};

struct server_under_bench {
    std::string name; ///< of the engine, for the figures
    std::function<std::unique_ptr<hand_written>()> other_side;
    /// Of a new empty place of this name for Posthorn's tables.
    std::function<std::string(const std::string& name)> fresh_url;
};

void run_server(const server_under_bench& which, const server_plan& plan, figures& into);

} // namespace bench
