// A delivery made by hand, to call a handler without a store and a worker.
#pragma once

#include <posthorn/handler.hpp>
#include <posthorn/message.hpp>

#include <memory>

namespace posthorn::testing {

/// What a handler would be given for a message. Threads: safe to use from any.
class sample_delivery {
public:
    /// Of `how`, what a handler can see is used: id, keys, headers, priority.
    explicit sample_delivery(message what, int attempt = 1, const enqueue_options& how = {});

    [[nodiscard]] delivery_view view() const;
    operator delivery_view() const { return view(); } // NOLINT: meant to convert

    /// As when its time is up or the worker must go.
    void ask_to_stop() const;

    /// As when somebody else has taken the message over.
    void lose() const;

private:
    std::shared_ptr<runtime::running_delivery> running_; // shared with every view
};

} // namespace posthorn::testing
