// Webhooks: http: and https:.
#include "app/transports/readers.hpp"
#include <posthorn/webhook.hpp>

namespace posthorn::daemon {
namespace {

using namespace std::chrono_literals;

} // namespace

transport_opener webhook_transport(section& from, std::string_view url_key, const secret_url& url)
{
    webhook_options options{.url = url.reveal()};
    for (const auto& each : from.all_hidden("secrets"))
        options.secrets.push_back(each.reveal());
    from.check("secrets", [&] { check_webhook({.secrets = options.secrets}); });
    take_source(options.source, from);
    take(options.content_type, from.text("content_type"));
    take(options.user_agent, from.text("user_agent"));
    for (const auto& [name, text] : from.hidden_pairs("headers"))
        options.headers.emplace(name, text.reveal());
    from.check("headers",
               [&] { check_webhook({.url = "https://localhost", .headers = options.headers}); });
    options.allow_private = from.texts("allow_private");
    from.check("allow_private", [&] { check_webhook({.allow_private = options.allow_private}); });
    take(options.ca_file, from.file("ca_file"));
    take(options.certificate_file, from.file("certificate_file"));
    take(options.key_file, from.file("key_file"));
    take(options.connect_within, from.time("connect_within", 1ms));
    take(options.answer_within, from.time("answer_within", 1ms));
    take_size(options.parallel_per_endpoint, from, "parallel_per_endpoint", 1'000);
    take_size(options.parallel, from, "parallel", 10'000);
    take_size(options.failures_max, from, "failures_max", 1'000'000);
    take(options.pause_min, from.time("pause_min", 1ms));
    take(options.pause_max, from.time("pause_max", 1ms));
    take(options.retry_after_max, from.time("retry_after_max", 1ms));
    take_size(options.payload_bytes_max, from, "payload_bytes_max", 1'000'000'000);
    check_all(from, url_key, options, &check_webhook);
    return [options](const environment& world, const endpoint_listener& on_endpoint) {
        auto with = options;
        with.on_endpoint = on_endpoint;
        return open_webhook(std::move(with), world);
    };
}

} // namespace posthorn::daemon
