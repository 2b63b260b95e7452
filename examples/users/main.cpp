// User management over HTTP: register, prove the address with a one-time password, be known
// elsewhere. README.md beside it tells how to try it.
//
// usage: example_users [users.toml]
#include "event_handlers.hpp"
#include "http.hpp"
#include "settings.hpp"
#include "user_commands.hpp"
#include "user_table.hpp"
#include <posthorn/posthorn.hpp>
#include <posthorn/worker.hpp>

#include <iostream>
#include <mutex>
#include <string>

namespace {

namespace ph = posthorn;

ph::log_sink log_to_stderr()
{
    const auto write = [](ph::log_level, std::string_view line) {
        static std::mutex one_at_a_time;
        const std::lock_guard lock(one_at_a_time);
        std::cerr << line << "\n";
    };
    return {write, ph::log_level::info};
}

void serve(const users::settings& how)
{
    const ph::stop_on_signals signals; // before any thread is started
    ph::store_options options;
    options.environment.log = log_to_stderr();
    ph::migrate(how.service.store, options);
    auto store = ph::open(how.service.store, options);
    ph::clean(store); // old events and keys, as a nightly job would

    const users::user_table table(store, how.service.store);
    auto commands = users::make_commands(store, table, how.idempotency);
    auto worker = users::make_worker(store, table, how);
    users::http_service http(commands, table, store);
    const auto port = http.start(how.service.port);
    std::cout << "listening on http://127.0.0.1:" << port << std::endl;
    worker.run(signals);
}

} // namespace

int main(int argc, char** argv)
try {
    serve(argc > 1 ? users::read_settings(argv[1]) : users::settings{});
    return 0;
} catch (const std::exception& failure) {
    std::cerr << "example_users: " << failure.what() << "\n";
    return 1;
}
