// From a request to an entry in the inbox and a status: everything but HTTP itself.
#pragma once

#include <posthorn/environment.hpp>
#include <posthorn/inbox_endpoint.hpp>
#include <posthorn/message.hpp>

#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace posthorn::endpoint {

/// What is said to the sender: JSON, and nothing of what it sent.
struct response {
    int status = 0;
    std::string body = {};
    bool try_again = false; ///< with `Retry-After`
};

[[nodiscard]] response refusal_of(int status, std::string_view error, std::string_view advice);

/// Threads: safe to use from any.
class reception {
public:
    reception(inbox_endpoint::router where, inbox_endpoint_options options, environment world);

    /// Nothing: nobody posts there.
    [[nodiscard]] const inbox_path* find(std::string_view path) const;

    [[nodiscard]] response receive(const inbox_path& at, const headers& received, std::string body);

    [[nodiscard]] const inbox_endpoint_options& options() const noexcept { return options_; }
    [[nodiscard]] const environment& world() const noexcept { return world_; }
    [[nodiscard]] feed_report report() const;

private:
    [[nodiscard]] std::optional<response> distrusted(const inbox_path& at, const headers& received,
                                                     std::string_view body) const;
    [[nodiscard]] response store_it(const inbox_path& at, fed_message what);
    void note(const inbox_path& at, const feed_report& done);
    void warn(const std::string& line) const;

    const inbox_endpoint::router where_;
    const inbox_endpoint_options options_;
    const environment world_;
    mutable std::mutex mutex_;
    feed_report report_;
};

} // namespace posthorn::endpoint
