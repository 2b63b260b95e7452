// What a daemon tells its operators: one line per event, for people or for programs. Never a
// payload, and never a secret: those of the configuration are taken out of every line.
#pragma once

#include "app/daemon/config.hpp"
#include <posthorn/environment.hpp>
#include <posthorn/handler.hpp>

#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::daemon {

/// Something that belongs to an event, such as the id of its message.
struct fact {
    std::string_view name;
    std::string value;
};

/// Threads: safe to use from any.
class journal : public std::enable_shared_from_this<journal> {
public:
    explicit journal(const configuration& first);

    /// What another configuration says. Secrets of the ones before stay secret.
    void follow(const configuration& next);
    void hide(const std::vector<std::string>& secrets);

    [[nodiscard]] bool tells(log_level level) const;
    void write(log_level level, std::string_view what, std::initializer_list<fact> facts = {});

    /// What a handler of this message says: as it is among text, and a line each among JSON.
    void pass(std::string_view text, const delivery_view& which);

    [[nodiscard]] std::string without_secrets(std::string text) const;
    [[nodiscard]] std::size_t secret_bytes_max() const;

    /// For libraries. Keeps the journal alive.
    [[nodiscard]] log_sink sink();

private:
    [[nodiscard]] std::string as_json(log_level level, std::string_view what,
                                      std::initializer_list<fact> facts) const;
    [[nodiscard]] std::string as_text(log_level level, std::string_view what,
                                      std::initializer_list<fact> facts) const;
    static void put(std::string_view text);

    const environment world_ = environment::system();
    const bool coloured_;
    mutable std::mutex mutex_;
    log_form form_ = log_form::text;
    log_level level_ = log_level::info;
    redaction secrets_;
};

} // namespace posthorn::daemon
