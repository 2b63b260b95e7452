// Listening for webhooks, with the server of the library.
#include "app/daemon/endpoints.hpp"

#include <posthorn/error.hpp>
#include <posthorn/inbox_endpoint.hpp>

#include <fmt/format.h>

#include <map>
#include <utility>

namespace posthorn::daemon {
namespace {

class webhook_listener final : public listening {
public:
    webhook_listener(inbox_endpoint::router where, inbox_endpoint_options how,
                     const environment& world)
        : address_{.host = how.address}, server_(std::move(where), std::move(how), world)
    {
        address_.port = server_.start();
    }

    [[nodiscard]] listen_address address() const override { return address_; }
    [[nodiscard]] bool is_listening() const noexcept override { return server_.is_listening(); }
    void stop_accepting() override { server_.stop_accepting(); }

private:
    listen_address address_;
    inbox_endpoint server_;
};

inbox_path path_of(const endpoint_settings& which)
{
    inbox_path result{.path = which.path, .source = which.source};
    for (const auto& secret : which.secrets)
        result.secrets.push_back(secret.reveal());
    result.unsigned_allowed = which.unsigned_allowed;
    result.topic = which.topic;
    result.topic_wins = which.topic_wins;
    return result;
}

} // namespace

bool can_listen_for_webhooks() noexcept
{
    return true;
}

void check_endpoint(const endpoint_settings& which)
{
    // One that is not started listens nowhere, and finds no store.
    const inbox_endpoint::router nowhere = [](const fed_message&, const std::string&) -> store {
        throw error(error_code::not_found, "nobody is asked");
    };
    (void)inbox_endpoint(nowhere, {.paths = {path_of(which)}});
}

duration replay_window() noexcept
{
    return 2 * inbox_endpoint_options{}.tolerance; // as much before our clock as after it
}

std::unique_ptr<listening> listen_for_webhooks(const std::vector<endpoint_settings>& paths,
                                               const router& stores,
                                               const std::shared_ptr<metrics>& numbers,
                                               const environment& world)
{
    std::map<std::string, std::string, std::less<>> store_of; ///< by source
    inbox_endpoint_options options{.paths = {},
                                   .address = paths.front().listen.host,
                                   .port = static_cast<std::uint16_t>(paths.front().listen.port)};
    for (const auto& each : paths) {
        store_of.emplace(each.source, each.store);
        options.paths.push_back(path_of(each));
    }
    options.progress = [numbers](const feed_report& what, const std::string& source) {
        numbers->fed(source, what);
    };
    auto find = [among = router(stores), store_of](const fed_message&,
                                                   const std::string& source) mutable {
        const auto found = store_of.find(source);
        if (found == store_of.end())
            throw error(error_code::not_found,
                        fmt::format("no store takes messages of '{}'", source));
        try {
            return among.store(found->second);
        } catch (const error& failure) {
            // A store that is not listed now may be listed soon: nothing is lost by waiting.
            throw error(error_code::unavailable, failure.what());
        }
    };
    return std::make_unique<webhook_listener>(std::move(find), std::move(options), world);
}

} // namespace posthorn::daemon
