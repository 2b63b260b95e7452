// What a daemon tells its operators: one line per event, for people or for programs. Never a
// payload, and never a secret: those of the configuration are taken out of every line.
#pragma once

#include "app/daemon/config.hpp"
#include <posthorn/environment.hpp>
#include <posthorn/handler.hpp>

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace posthorn::daemon {

/// Something that belongs to an event, such as the id of its message: a text, or a number.
struct fact {
    fact(std::string_view called, std::string text) : name(called), value(std::move(text)) {}
    fact(std::string_view called, std::string_view text) : name(called), value(std::string(text)) {}
    fact(std::string_view called, const char* text) : name(called), value(std::string(text)) {}
    template <std::integral Number>
    fact(std::string_view called, Number number)
        : name(called), value(static_cast<std::int64_t>(number))
    {}

    std::string_view name;
    std::variant<std::string, std::int64_t> value;
};

/// How many lines were logged, by level.
using line_counts = std::array<std::uint64_t, 4>;

/// Threads: safe to use from any.
class journal : public std::enable_shared_from_this<journal> {
public:
    explicit journal(const configuration& first);
    journal(const journal&) = delete;
    journal& operator=(const journal&) = delete;

    /// What another configuration says. Secrets of the ones before stay secret.
    void follow(const configuration& next);
    void hide(const std::vector<std::string>& secrets);

    [[nodiscard]] bool tells(log_level level) const;
    void write(log_level level, std::string_view what, std::initializer_list<fact> facts = {});

    /// What a handler of this message says: each of its lines is logged, whatever the level.
    void pass(std::string_view text, const delivery_view& which);

    [[nodiscard]] std::string without_secrets(std::string text) const;
    [[nodiscard]] std::size_t secret_bytes_max() const;

    [[nodiscard]] line_counts lines() const;

    /// For libraries. Keeps the journal alive.
    [[nodiscard]] log_sink sink();

private:
    using some_facts = std::initializer_list<fact>;
    struct event {
        timestamp at;
        log_level level{};
        std::string_view what;
    };

    [[nodiscard]] std::string as_json(const event& which, some_facts facts) const;
    [[nodiscard]] std::string as_text(const event& which, some_facts facts) const;
    void put(const event& which, some_facts facts);

    const environment world_ = environment::system();
    const bool coloured_;
    mutable std::mutex mutex_;
    log_form form_ = log_form::text;
    log_level level_ = log_level::info;
    redaction secrets_;
    line_counts lines_{};
};

} // namespace posthorn::daemon
