// Reads the configuration: unknown keys and values out of bounds are errors, all told at once.
#include "settings.hpp"

#include <toml++/toml.h>

#include <cstdint>
#include <set>
#include <stdexcept>
#include <string_view>

namespace users {
namespace {

class settings_reader {
public:
    explicit settings_reader(const std::string& file) : file_(file)
    {
        try {
            table_ = toml::parse_file(file);
        } catch (const toml::parse_error& failure) {
            complain(failure.source(), std::string(failure.description()));
            finish();
        }
    }

    void read(const std::string& key, std::string& into)
    {
        const auto found = find(key);
        if (!found)
            return;
        const auto text = found.value_exact<std::string>();
        if (text && !text->empty())
            into = *text;
        else
            complain(found.node()->source(), key + " must be a text that is not empty");
    }

    [[nodiscard]] std::int64_t number(const std::string& key, std::int64_t otherwise,
                                      std::int64_t least, std::int64_t most)
    {
        const auto found = find(key);
        if (!found)
            return otherwise;
        const auto number = found.value_exact<std::int64_t>();
        if (number && *number >= least && *number <= most)
            return *number;
        complain(found.node()->source(), key + " must be a whole number from " +
                                             std::to_string(least) + " to " + std::to_string(most));
        return otherwise;
    }

    template <typename Duration>
    void read(const std::string& key, Duration& into, std::int64_t least, std::int64_t most)
    {
        into = Duration(number(key, into.count(), least, most));
    }

    void finish()
    {
        look_for_unknown(table_, "");
        if (!complaints_.empty())
            throw std::runtime_error(complaints_.substr(0, complaints_.size() - 1));
    }

private:
    toml::node_view<toml::node> find(const std::string& key)
    {
        known_.insert(key);
        known_.insert(key.substr(0, key.find('.')));
        return table_.at_path(key);
    }

    void look_for_unknown(const toml::table& in, const std::string& path)
    {
        for (const auto& [name, value] : in) {
            const auto key = path + std::string(name.str());
            if (!known_.contains(key))
                complain(name.source(), "there is no setting " + key);
            else if (path.empty() && !value.is_table())
                complain(name.source(), key + " is a section: write [" + key + "]");
            else if (value.is_table() && path.empty())
                look_for_unknown(*value.as_table(), key + ".");
        }
    }

    void complain(const toml::source_region& where, const std::string& what)
    {
        const auto line = where.begin ? ":" + std::to_string(where.begin.line) : "";
        complaints_ += file_ + line + ": " + what + "\n";
    }

    std::string file_;
    toml::table table_;
    std::set<std::string> known_;
    std::string complaints_;
};

} // namespace

settings read_settings(const std::string& file)
{
    settings_reader from(file);
    settings result;
    auto& service = result.service;
    service.port = static_cast<int>(from.number("service.port", service.port, 0, 65'535));
    from.read("service.store", service.store);
    from.read("service.mail_folder", service.mail_folder);
    from.read("service.directory_folder", service.directory_folder);

    auto& outbox = result.outbox_processor;
    from.read("outbox_processor.polling_interval_seconds", outbox.polling_interval, 1, 3'600);
    from.read("outbox_processor.lease_seconds", outbox.lease, 1, 3'600);
    outbox.batch_size = static_cast<std::size_t>(from.number(
        "outbox_processor.batch_size", static_cast<std::int64_t>(outbox.batch_size), 1, 1'000));

    auto& idempotency = result.idempotency;
    from.read("idempotency.ttl_hours", idempotency.ttl, 1, 24 * 365);
    from.read("idempotency.lock_seconds", idempotency.lock, 1, 3'600);
    from.read("idempotency.wait_seconds", idempotency.wait, 0, 60);

    from.read("otp.ttl_seconds", result.otp.ttl, 1, 24 * 3'600);
    from.finish();
    return result;
}

} // namespace users
