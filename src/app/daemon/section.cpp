// Asking for keys. A message says what is wrong and what would be right.
#include "app/daemon/section.hpp"

#include "app/cli/text.hpp"
#include "store/contract/url.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace posthorn::daemon {
namespace {

constexpr std::size_t secret_file_bytes_max = 64 * 1024;

// User and password stand between `//` and the last `@`. What is put in there, or into a parameter,
// may hold anything, and is encoded; elsewhere it is taken as it is. What is put into the path of a
// webhook is a secret all the same.
bool is_in_credentials(std::string_view url, std::size_t at)
{
    const auto authority = url.find("//");
    const auto end = url.rfind('@');
    return authority != std::string_view::npos && end != std::string_view::npos && at > authority &&
           at < end;
}

bool is_in_path_of_webhook(std::string_view url, std::size_t at)
{
    const auto authority = url.find("//");
    return url.starts_with("http") && authority != std::string_view::npos &&
           url.find('/', authority + 2) < at;
}

bool is_name(std::string_view text)
{
    return !text.empty() && std::ranges::all_of(text, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_';
    });
}

std::string length_in_words(duration length)
{
    using std::chrono::milliseconds;
    return length < std::chrono::seconds{1} ? fmt::format("{}ms", length / milliseconds{1})
                                            : cli::age(length);
}

// Empty: it can be read. A folder can be opened like a file, and is none.
std::string why_unreadable(const std::string& path)
{
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0 || ::access(path.c_str(), R_OK) != 0)
        return std::generic_category().message(errno);
    return S_ISDIR(found.st_mode) ? "it is a directory" : "";
}

std::optional<std::string> contents_of(const std::string& path)
{
    std::ifstream file(path, std::ios::binary);
    if (!file)
        return std::nullopt;
    std::string text(secret_file_bytes_max, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (file.bad())
        return std::nullopt;
    text.resize(static_cast<std::size_t>(file.gcount()));
    while (text.ends_with('\n') || text.ends_with('\r'))
        text.pop_back();
    return text;
}

} // namespace

const member* value::find(std::string_view name) const
{
    const auto found = std::ranges::find(members, name, &member::name);
    return found == members.end() ? nullptr : &*found;
}

std::string_view in_words(value::kind kind) noexcept
{
    switch (kind) {
    case value::kind::table: return "a table";
    case value::kind::array: return "a list";
    case value::kind::text: return "a string";
    case value::kind::whole: return "a whole number";
    case value::kind::real: return "a number with a point";
    case value::kind::flag: return "true or false";
    case value::kind::time: return "a date or time";
    }
    return "something else";
}

void findings::refuse(place at, std::string key, std::string message)
{
    problems_.push_back({at, std::move(key), std::move(message)});
}

void findings::warn(place at, std::string key, std::string message)
{
    warnings_.push_back({at, std::move(key), std::move(message)});
}

bool findings::clean_below(std::string_view key) const
{
    return std::ranges::none_of(problems_, [&](const problem& each) {
        return key.empty() || (each.key.starts_with(key) &&
                               (each.key.size() == key.size() || each.key[key.size()] == '.'));
    });
}

void findings::found_plain_secret(place at, const std::string& key)
{
    if (!plain_)
        plain_ = problem{at, key, {}};
}

std::vector<problem> findings::presentable(std::vector<problem> of) const
{
    std::ranges::stable_sort(of, {}, &problem::at);
    for (auto& each : of)
        each.message = cli::printable(secrets_.cleaned(std::move(each.message)));
    return of;
}

std::string section::key(std::string_view name) const
{
    return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

place section::at(std::string_view name) const
{
    const auto* found = table_->find(name);
    return found == nullptr ? table_->at : found->at;
}

const value* section::ask_any(std::string_view name)
{
    asked_.emplace_back(name);
    const auto* found = table_->find(name);
    return found == nullptr ? nullptr : &found->is;
}

const value* section::ask(std::string_view name, value::kind expected, std::string_view meant)
{
    const auto* found = ask_any(name);
    if (found == nullptr || found->is == expected ||
        (found->is_typed && expected == value::kind::text))
        return found;
    noted_->refuse(found->at, key(name),
                   fmt::format("is {}; it should be {}", in_words(found->is), meant));
    return nullptr;
}

std::optional<std::string> section::text(std::string_view name)
{
    const auto* found = ask(name, value::kind::text, "a string");
    return found == nullptr ? std::nullopt : std::optional(found->text);
}

std::optional<std::string> section::file(std::string_view name)
{
    auto result = text(name);
    const auto wrong = result ? why_unreadable(*result) : std::string();
    if (wrong.empty())
        return result;
    refuse(name, fmt::format("the file '{}' cannot be read: {}", *result, wrong));
    return std::nullopt;
}

std::optional<bool> section::flag(std::string_view name)
{
    const auto* found = ask(name, value::kind::flag, "true or false, without quotes");
    return found == nullptr ? std::nullopt : std::optional(found->flag);
}

std::optional<std::int64_t> section::whole(std::string_view name, std::int64_t least,
                                           std::int64_t most)
{
    const auto range = fmt::format("a whole number from {} to {}", least, most);
    const auto* found = ask(name, value::kind::whole, range);
    if (found == nullptr)
        return std::nullopt;
    if (found->whole < least || found->whole > most) {
        noted_->refuse(found->at, key(name),
                       fmt::format("is {}; it should be {}", found->whole, range));
        return std::nullopt;
    }
    return found->whole;
}

std::optional<double> section::fraction(std::string_view name)
{
    const auto* found = ask_any(name);
    if (found == nullptr)
        return std::nullopt;
    const bool is_whole = found->is == value::kind::whole;
    const auto number = is_whole ? static_cast<double>(found->whole) : found->real;
    if ((is_whole || found->is == value::kind::real) && number >= 0 && number <= 1)
        return number;
    noted_->refuse(found->at, key(name),
                   is_whole || found->is == value::kind::real
                       ? std::string("should be a number from 0 to 1, such as 0.5")
                       : fmt::format("is {}; it should be a number from 0 to 1, such as 0.5",
                                     in_words(found->is)));
    return std::nullopt;
}

std::optional<duration> section::time(std::string_view name, duration least, duration most)
{
    const auto* found = ask(name, value::kind::text,
                            "a length of time in quotes, such as \"250ms\", \"30s\", "
                            "\"10m\", \"2h\" or \"7d\"");
    if (found == nullptr)
        return std::nullopt;
    std::optional<duration> result;
    check(name, [&] { result = contract::parse_duration(found->text); });
    if (result && (*result < least || *result > most)) {
        noted_->refuse(found->at, key(name),
                       *result < least ? fmt::format("is '{}'; it should be at least {}",
                                                     found->text, length_in_words(least))
                                       : fmt::format("is '{}'; it should be at most {}",
                                                     found->text, length_in_words(most)));
        return std::nullopt;
    }
    return result;
}

std::optional<std::string> section::one_of(std::string_view name,
                                           std::span<const std::string> words)
{
    auto found = text(name);
    if (!found || std::ranges::find(words, *found) != words.end())
        return found;
    const auto meant = cli::nearest(*found, words);
    noted_->refuse(table_->find(name)->is.at, key(name),
                   fmt::format("is '{}'; it should be one of {}{}", *found, fmt::join(words, ", "),
                               meant.empty() ? "" : fmt::format("; did you mean '{}'?", meant)));
    return std::nullopt;
}

// `{ env = "NAME" }` or `{ file = "PATH" }`: what is there, but never told.
std::optional<std::string> section::from_elsewhere(const value& from, const std::string& key,
                                                   std::string_view meant)
{
    const auto* env = from.find("env");
    const auto* file = from.find("file");
    const auto* chosen = env != nullptr ? env : file;
    if (from.members.size() != 1 || chosen == nullptr || chosen->is.is != value::kind::text) {
        noted_->refuse(
            from.at, key,
            fmt::format("should be {}, {{ env = \"NAME\" }} or {{ file = \"PATH\" }}", meant));
        return std::nullopt;
    }
    if (env != nullptr) {
        auto found = noted_->variable(env->is.text);
        if (!found)
            noted_->refuse(from.at, key,
                           fmt::format("the environment variable '{}' is not set", env->is.text));
        return found;
    }
    const auto path = filled(file->is, key, false);
    if (!path)
        return std::nullopt;
    const auto wrong = why_unreadable(*path);
    auto found = wrong.empty() ? contents_of(*path) : std::nullopt;
    if (!found)
        noted_->refuse(from.at, key,
                       fmt::format("the file '{}' cannot be read{}{}", *path,
                                   wrong.empty() ? "" : ": ", wrong));
    else if (found->empty())
        noted_->refuse(from.at, key, fmt::format("the file '{}' is empty", *path));
    return found;
}

// `${NAME}` in a text becomes what the variable holds; `$$` is a dollar.
std::optional<std::string> section::filled(const value& from, const std::string& key, bool is_url)
{
    const auto& text = from.text;
    std::string result;
    bool complete = true;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text.compare(at, 2, "$$") == 0) {
            result.push_back(text[at++]);
            continue;
        }
        if (text.compare(at, 2, "${") != 0) {
            result.push_back(text[at]);
            continue;
        }
        const auto end = text.find('}', at);
        const auto name =
            end == std::string::npos ? std::string{} : text.substr(at + 2, end - at - 2);
        if (!is_name(name)) {
            noted_->refuse(from.at, key,
                           "has a '${' that no name and '}' follow; write ${NAME}, or $$ for a "
                           "dollar");
            return std::nullopt;
        }
        if (auto found = noted_->variable(name)) {
            const bool inside = is_url && (is_in_credentials(text, at) || text.find('?') < at);
            if (inside || is_in_path_of_webhook(text, at))
                noted_->secrets().add(*found);
            result += inside ? percent_encoded(*found) : *found;
        } else {
            noted_->refuse(from.at, key,
                           fmt::format("the environment variable '{}' is not set", name));
            complete = false;
        }
        at = end;
    }
    return complete ? std::optional(std::move(result)) : std::nullopt;
}

std::optional<secret> section::hidden_value(const value& from, const std::string& key)
{
    std::optional<std::string> found;
    if (from.is == value::kind::text || from.is_typed) {
        found = from.text;
        noted_->found_plain_secret(from.at, key);
    } else if (from.is == value::kind::table) {
        found = from_elsewhere(from, key, "a string");
    } else {
        noted_->refuse(from.at, key,
                       fmt::format("is {}; it should be a string, {{ env = \"NAME\" }} or {{ file "
                                   "= \"PATH\" }}",
                                   in_words(from.is)));
    }
    if (!found)
        return std::nullopt;
    noted_->secrets().add(*found);
    return secret(*std::move(found));
}

std::optional<secret> section::hidden(std::string_view name)
{
    const auto* found = ask_any(name);
    return found == nullptr ? std::nullopt : hidden_value(*found, key(name));
}

std::vector<secret> section::all_hidden(std::string_view name)
{
    std::vector<secret> result;
    const auto* found = ask_any(name);
    if (found == nullptr)
        return result;
    if (found->is != value::kind::array) {
        if (auto one = hidden_value(*found, key(name)))
            result.push_back(*std::move(one));
        return result;
    }
    for (std::size_t i = 0; i < found->items.size(); ++i)
        if (auto one = hidden_value(found->items[i], fmt::format("{}[{}]", key(name), i)))
            result.push_back(*std::move(one));
    return result;
}

std::optional<secret_url> section::url(std::string_view name)
{
    const auto* found = ask_any(name);
    if (found == nullptr)
        return std::nullopt;
    std::optional<std::string> text;
    if (found->is == value::kind::text) {
        if (secret_url(found->text).holds_password() && found->text.find("${") == std::string::npos)
            noted_->found_plain_secret(found->at, key(name));
        text = filled(*found, key(name), true);
    } else if (found->is == value::kind::table) {
        text = from_elsewhere(*found, key(name), "a URL");
    } else {
        noted_->refuse(found->at, key(name),
                       fmt::format("is {}; it should be a URL", in_words(found->is)));
    }
    if (!text)
        return std::nullopt;
    secret_url result(*std::move(text));
    for (auto& each : result.secrets())
        noted_->secrets().add(std::move(each));
    return result;
}

std::optional<section> section::table(std::string_view name)
{
    // A table inside of [[name]] has no heading that people would guess.
    const bool is_listed = path_.find('[') != std::string::npos;
    const auto* found = ask(name, value::kind::table,
                            is_listed ? fmt::format("a table: {} = {{ … }}", name)
                                      : fmt::format("a table: [{}]", key(name)));
    return found == nullptr ? std::nullopt : std::optional(section(*found, key(name), *noted_));
}

bool section::is_empty_list(std::string_view name) const
{
    const auto* found = table_->find(name);
    return found != nullptr && found->is.is == value::kind::array && found->is.items.empty();
}

std::vector<std::string> section::texts(std::string_view name)
{
    const auto* found = ask_any(name);
    if (found == nullptr)
        return {};
    if (found->is == value::kind::text || found->is_typed)
        return {found->text};
    std::vector<std::string> result;
    bool all = found->is == value::kind::array;
    for (const auto& each : found->items) {
        all = all && each.is == value::kind::text;
        result.push_back(each.text);
    }
    if (all)
        return result;
    noted_->refuse(found->at, key(name),
                   fmt::format("is {}; it should be a string, or a list of strings",
                               found->is == value::kind::array ? "a list with other things in it"
                                                               : in_words(found->is)));
    return {};
}

std::vector<std::pair<std::string, std::string>> section::pairs(std::string_view name)
{
    std::vector<std::pair<std::string, std::string>> result;
    const auto* found = ask(name, value::kind::table, "a table of strings");
    if (found == nullptr)
        return result;
    for (const auto& each : found->members)
        if (each.is.is == value::kind::text)
            result.emplace_back(each.name, each.is.text);
        else
            noted_->refuse(each.is.at, fmt::format("{}.{}", key(name), each.name),
                           fmt::format("is {}; it should be a string", in_words(each.is.is)));
    return result;
}

std::vector<std::pair<std::string, secret>> section::hidden_pairs(
    std::string_view name, bool (*is_secret)(std::string_view))
{
    std::vector<std::pair<std::string, secret>> result;
    const auto* found = ask(name, value::kind::table, "a table of strings");
    if (found == nullptr)
        return result;
    for (const auto& each : found->members) {
        const bool open = is_secret != nullptr &&
                          (each.is.is == value::kind::text || each.is.is_typed) &&
                          !is_secret(each.name);
        if (open)
            result.emplace_back(each.name, secret(each.is.text));
        else if (auto text = hidden_value(each.is, fmt::format("{}.{}", key(name), each.name)))
            result.emplace_back(each.name, *std::move(text));
    }
    return result;
}

std::vector<section> section::tables(std::string_view name)
{
    std::vector<section> result;
    const auto* found = ask_any(name);
    if (found == nullptr)
        return result;
    const bool right =
        found->is == value::kind::array && std::ranges::all_of(found->items, [](const value& each) {
            return each.is == value::kind::table;
        });
    if (!right)
        noted_->refuse(at(name), key(name),
                       fmt::format("should be a list of tables: write [[{}]]", key(name)));
    for (std::size_t i = 0; right && i < found->items.size(); ++i)
        result.emplace_back(found->items[i], fmt::format("{}[{}]", key(name), i), *noted_);
    return result;
}

std::vector<std::pair<std::string, section>> section::named_tables(std::string_view name)
{
    std::vector<std::pair<std::string, section>> result;
    const auto* found =
        ask(name, value::kind::table, fmt::format("tables with names: [{}.NAME]", key(name)));
    if (found == nullptr)
        return result;
    for (const auto& each : found->members) {
        const auto path = fmt::format("{}.{}", key(name), each.name);
        if (each.is.is == value::kind::table)
            result.emplace_back(each.name, section(each.is, path, *noted_));
        else
            noted_->refuse(
                each.at, path,
                fmt::format("is {}; it should be a table: [{}]", in_words(each.is.is), path));
    }
    return result;
}

bool section::is_clean() const
{
    return noted_->clean_below(path_);
}

std::string section::required_text(std::string_view name, std::string_view why)
{
    require(name, why);
    auto result = text(name);
    if (result && result->empty())
        refuse(name, fmt::format("is empty: {}", why));
    return result.value_or("");
}

void section::require(std::string_view name, std::string_view why)
{
    if (!has(name))
        noted_->refuse(table_->at, key(name), fmt::format("is missing: {}", why));
}

void section::refuse(std::string_view name, std::string message)
{
    const auto* found = table_->find(name);
    noted_->refuse(found == nullptr ? table_->at : found->is.at, key(name), std::move(message));
}

void section::warn(std::string_view name, std::string message)
{
    noted_->warn(at(name), key(name), std::move(message));
}

void section::check(std::string_view name, const std::function<void()>& what)
{
    try {
        what();
    } catch (const error& wrong) {
        refuse(name, wrong.what());
    }
}

void section::finish()
{
    for (const auto& each : table_->members) {
        if (std::ranges::find(asked_, each.name) != asked_.end())
            continue;
        const auto meant = cli::nearest(each.name, asked_);
        noted_->refuse(each.at, key(each.name),
                       fmt::format("is unknown{}; {} {}",
                                   meant.empty() ? "" : fmt::format(": did you mean '{}'?", meant),
                                   path_.empty() ? "the sections are" : "known here are",
                                   fmt::join(asked_, ", ")));
    }
}

} // namespace posthorn::daemon
