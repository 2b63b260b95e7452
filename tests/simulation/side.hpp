// The two sides of a simulation. Each answers every step in words; the words must be equal.
#pragma once

#include "core/queue_model.hpp"
#include "simulation/operation.hpp"
#include <posthorn/messages.hpp>
#include <posthorn/outbox.hpp>
#include <posthorn/testing/manual_clock.hpp>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace posthorn::simulation {

/// What a story is played with: retry rules without chance, so that both sides decide alike.
[[nodiscard]] outbox_options deterministic_options(dead_key on_dead);

/// Every message in the order of enqueueing, and the counts, in words.
struct picture {
    std::vector<std::string> messages;
    std::string totals;

    friend bool operator==(const picture&, const picture&) = default;
};

/// The reference.
class model_side {
public:
    explicit model_side(outbox_options options) : options_(std::move(options)) {}

    [[nodiscard]] std::string carry_out(const operation& step);
    [[nodiscard]] picture look() const;

    /// What the generator looks at to choose steps that mean something.
    struct handed_out {
        posthorn::receipt receipt;
        std::string owner;
    };
    [[nodiscard]] const std::vector<handed_out>& history() const { return history_; }
    [[nodiscard]] const core::queue_model& model() const { return model_; }
    [[nodiscard]] timestamp now() const { return now_; }

private:
    std::string on(const enqueue_step& step);
    std::string on(const claim_step& step);
    std::string on(const start_step& step);
    std::string on(const settle_step& step);
    std::string on(const renew_step& step);
    std::string on(const advance_step& step);
    std::string on(const reap_step& step);
    std::string on(const expire_step& step);
    std::string on(const cancel_step& step);
    std::string on(const redrive_step& step);
    std::string on(const purge_step& step);
    std::string on(const retry_key_step& step);
    std::string on(const skip_key_step& step);
    [[nodiscard]] core::delivery_facts facts_of(message_id id) const;

    outbox_options options_;
    core::queue_model model_;
    timestamp now_ = beginning;
    std::vector<handed_out> history_;
};

/// A real store on a clock that the story moves.
class store_side {
public:
    store_side(store where, std::shared_ptr<testing::manual_clock> clock, outbox_options options)
        : store_(std::move(where)), clock_(std::move(clock)), outbox_(store_, std::move(options))
    {}

    [[nodiscard]] std::string carry_out(const operation& step);
    [[nodiscard]] picture look();

private:
    std::string on(const enqueue_step& step);
    std::string on(const claim_step& step);
    std::string on(const start_step& step);
    std::string on(const settle_step& step);
    std::string on(const renew_step& step);
    std::string on(const advance_step& step);
    std::string on(const reap_step& step);
    std::string on(const expire_step& step);
    std::string on(const cancel_step& step);
    std::string on(const redrive_step& step);
    std::string on(const purge_step& step);
    std::string on(const retry_key_step& step);
    std::string on(const skip_key_step& step);

    // The story speaks of messages by the model's ids; a store may have made others.
    void remember(message_id named, const enqueued& real);
    [[nodiscard]] message_id named(message_id real) const;
    [[nodiscard]] locator real(message_id named) const;
    [[nodiscard]] receipt real(const receipt& which) const;

    store store_;
    std::shared_ptr<testing::manual_clock> clock_; // shared with the store's environment
    outbox outbox_;
    std::map<message_id, locator> real_;
    std::map<message_id, message_id> named_;
};

} // namespace posthorn::simulation
