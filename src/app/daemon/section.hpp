// Reading one table of a configuration file: each key is asked for with what it may be, everything
// that is wrong is noted with its place, and what nobody asked for is unknown.
#pragma once

#include "app/daemon/document.hpp"
#include "app/daemon/secret.hpp"
#include <posthorn/time.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::daemon {

struct problem {
    place at;
    std::string key; ///< as `handlers[1].command`; empty: the file as a whole
    std::string message;
};

/// What is wrong with a file, and what was read from elsewhere because it said so. Never holds a
/// secret: one that has found its way into a message is taken out again.
class findings {
public:
    using lookup = std::function<std::optional<std::string>(const std::string& name)>;

    explicit findings(lookup variables) : variables_(std::move(variables)) {}

    void refuse(place at, std::string key, std::string message);
    void warn(place at, std::string key, std::string message);

    /// Texts that must not be shown.
    [[nodiscard]] redaction& secrets() { return secrets_; }
    [[nodiscard]] const redaction& secrets() const { return secrets_; }

    /// Whether the file itself holds a secret, and where the first one stands.
    void found_plain_secret(place at, const std::string& key);
    [[nodiscard]] const std::optional<problem>& plain_secret() const { return plain_; }

    [[nodiscard]] std::optional<std::string> variable(const std::string& name) const
    {
        return variables_(name);
    }

    /// In the order of the file.
    [[nodiscard]] std::vector<problem> problems() const { return presentable(problems_); }
    [[nodiscard]] std::vector<problem> warnings() const { return presentable(warnings_); }
    [[nodiscard]] bool clean() const { return problems_.empty(); }
    [[nodiscard]] bool clean_below(std::string_view key) const;

private:
    [[nodiscard]] std::vector<problem> presentable(std::vector<problem> of) const;

    lookup variables_;
    std::vector<problem> problems_;
    std::vector<problem> warnings_;
    redaction secrets_;
    std::optional<problem> plain_;
};

/// Requires: the document and the findings outlive it.
class section {
public:
    section(const value& table, std::string path, findings& noted)
        : table_(&table), path_(std::move(path)), noted_(&noted)
    {}

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] place at() const { return table_->at; }
    [[nodiscard]] place at(std::string_view name) const;
    [[nodiscard]] bool has(std::string_view name) const { return table_->find(name) != nullptr; }
    [[nodiscard]] findings& noted() const { return *noted_; }

    // All of these: nothing if the key is not there, or wrong, which is noted.
    std::optional<std::string> text(std::string_view name);
    std::optional<std::string> file(std::string_view name); ///< the path of one that can be read
    std::optional<bool> flag(std::string_view name);
    std::optional<std::int64_t> whole(std::string_view name, std::int64_t least, std::int64_t most);
    std::optional<double> fraction(std::string_view name); ///< from 0 to 1
    std::optional<duration> time(std::string_view name, duration least = {},
                                 duration most = std::chrono::hours{24 * 36'500});
    std::optional<std::string> one_of(std::string_view name, std::span<const std::string> words);
    std::optional<secret> hidden(std::string_view name);
    std::optional<secret_url> url(std::string_view name);
    std::optional<section> table(std::string_view name);

    [[nodiscard]] bool is_empty_list(std::string_view name) const;

    /// One string, or a list of them.
    std::vector<std::string> texts(std::string_view name);
    std::vector<secret> all_hidden(std::string_view name);
    std::vector<std::pair<std::string, std::string>> pairs(std::string_view name);

    /// Of values that stand in the file itself only those are secrets whose name says so, if
    /// `is_secret` is given.
    std::vector<std::pair<std::string, secret>> hidden_pairs(
        std::string_view name, bool (*is_secret)(std::string_view) = nullptr);

    /// `[[name]]`
    std::vector<section> tables(std::string_view name);
    /// `[name.EACH]`
    std::vector<std::pair<std::string, section>> named_tables(std::string_view name);

    /// A text that must be there, and not be empty; `why` says what it is for.
    std::string required_text(std::string_view name, std::string_view why);

    /// Notes that a key is missing; `why` says what it is for.
    void require(std::string_view name, std::string_view why);
    void refuse(std::string_view name, std::string message);
    void warn(std::string_view name, std::string message);

    /// Runs what throws `error` for a text that is not right, and notes it.
    void check(std::string_view name, const std::function<void()>& what);

    /// Whether nothing has been noted here so far.
    [[nodiscard]] bool is_clean() const;

    /// Notes the keys that nobody asked for. To be called last.
    void finish();

private:
    const value* ask(std::string_view name, value::kind expected, std::string_view in_words);
    const value* ask_any(std::string_view name);
    [[nodiscard]] std::string key(std::string_view name) const;
    std::optional<std::string> from_elsewhere(const value& from, const std::string& key,
                                              std::string_view meant);
    std::optional<secret> hidden_value(const value& from, const std::string& key);
    [[nodiscard]] std::optional<std::string> filled(const value& from, const std::string& key,
                                                    bool is_url);

    const value* table_;
    std::string path_;
    findings* noted_;
    std::vector<std::string> asked_;
};

} // namespace posthorn::daemon
