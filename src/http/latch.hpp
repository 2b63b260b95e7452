// A flag that can be waited for together with sockets.
#pragma once

namespace posthorn::http {

/// Threads: safe to use from any.
class latch {
public:
    latch(); ///< Throws: `error` with `unavailable` if the process has no file left.
    latch(const latch&) = delete;
    latch& operator=(const latch&) = delete;
    ~latch();

    void set() noexcept;
    void clear() noexcept;
    [[nodiscard]] bool is_set() const noexcept;
    [[nodiscard]] int file() const noexcept { return file_; } ///< can be read while it is set

private:
    int file_;
};

} // namespace posthorn::http
