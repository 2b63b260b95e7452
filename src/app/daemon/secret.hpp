// Values that must not be shown. They can be neither printed nor compared: whoever needs the text
// says `reveal`, which is easy to search for.
#pragma once

#include "store/contract/url.hpp"

#include <string>
#include <utility>

namespace posthorn::daemon {

class secret {
public:
    secret() = default;
    explicit secret(std::string text) : text_(std::move(text)) {}

    [[nodiscard]] const std::string& reveal() const noexcept { return text_; }
    [[nodiscard]] bool empty() const noexcept { return text_.empty(); }

private:
    std::string text_;
};

/// A URL that may hold a password.
class secret_url {
public:
    secret_url() = default;
    explicit secret_url(std::string text) : text_(std::move(text)) {}

    [[nodiscard]] const std::string& reveal() const noexcept { return text_; }
    [[nodiscard]] bool empty() const noexcept { return text_.empty(); }

    /// What stands before the first colon; empty if there is none.
    [[nodiscard]] std::string scheme() const
    {
        const auto colon = text_.find(':');
        return colon == std::string::npos ? std::string{} : text_.substr(0, colon);
    }

    /// As it may stand in a log: with `***` for the password, and without parameters, which may
    /// hold one, too.
    [[nodiscard]] std::string shown() const
    {
        return contract::without_password(text_.substr(0, text_.find('?')));
    }

private:
    std::string text_;
};

} // namespace posthorn::daemon
