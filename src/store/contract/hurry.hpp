// Whether the caller would rather hear that a row is held than wait for it.
#pragma once

#include <utility>

namespace posthorn::contract {

/// While one lives, what its thread settles, renews or takes back waits for no lock of another
/// transaction, as far as the engine can avoid that. Workers are in a hurry: they have more to do.
class hurry {
public:
    hurry() noexcept : before_(std::exchange(on_, true)) {}
    hurry(const hurry&) = delete;
    hurry& operator=(const hurry&) = delete;
    ~hurry() { on_ = before_; }

    [[nodiscard]] static bool is_on() noexcept { return on_; }

private:
    inline static thread_local bool on_ = false;
    bool before_;
};

} // namespace posthorn::contract
