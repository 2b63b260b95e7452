// Values that must not be shown. They can be neither printed nor compared: whoever needs the text
// says `reveal`, which is easy to search for. And texts from which they are taken out again,
// because other libraries do not know that type.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

/// A URL that may hold a password, or several of them with commas between.
class secret_url {
public:
    secret_url() = default;
    explicit secret_url(std::string text) : text_(std::move(text)) {}

    [[nodiscard]] const std::string& reveal() const noexcept { return text_; }
    [[nodiscard]] bool empty() const noexcept { return text_.empty(); }

    /// What stands before the first colon; empty if there is none.
    [[nodiscard]] std::string scheme() const;

    /// As it may stand in a log: with `***` for the password or token, without parameters, which
    /// may hold one, too, and of a webhook without its path.
    [[nodiscard]] std::string shown() const;

    /// What of it must not be shown, as it stands there and decoded: a library may quote any part.
    [[nodiscard]] std::vector<std::string> secrets() const;

    /// Whether somebody who reads it learns a password or a token. The path of a webhook is none
    /// as far as anybody knows.
    [[nodiscard]] bool holds_password() const;

private:
    std::string text_;
};

/// Letters, digits and `-._~` as they are, everything else as `%` and two digits.
[[nodiscard]] std::string percent_encoded(std::string_view text);

/// Passwords of databases in the environment. Commands that handle messages inherit them.
[[nodiscard]] std::vector<std::string> inherited_passwords();

/// What is to be taken out of whatever leaves the process.
class redaction {
public:
    /// Also as it would stand in a URL, and each of its lines. Texts of less than four bytes stay:
    /// they would be found in half of all words.
    void add(std::string text);

    [[nodiscard]] std::string cleaned(std::string text) const;
    [[nodiscard]] const std::vector<std::string>& all() const noexcept { return secrets_; }

    /// How long the longest one is.
    [[nodiscard]] std::size_t bytes_max() const noexcept
    {
        return secrets_.empty() ? 0 : secrets_.front().size();
    }

private:
    void add_one(std::string text);

    std::vector<std::string> secrets_; ///< the longest first: one may be a part of another
};

} // namespace posthorn::daemon
