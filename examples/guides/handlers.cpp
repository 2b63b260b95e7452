// The code of docs/guides/handlers.md.
#include <posthorn/json.hpp>
#include <posthorn/posthorn.hpp>
#include <posthorn/testing/testing.hpp>
#include <posthorn/worker.hpp>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>

namespace ph = posthorn;
using namespace std::chrono_literals;

struct order_placed {
    std::int64_t order_id = 0;
    std::string customer;

    NLOHMANN_DEFINE_TYPE_INTRUSIVE(order_placed, order_id, customer)
};

template <>
struct posthorn::message_type<order_placed> {
    static constexpr std::string_view topic = "orders.placed";
};

namespace {

class address_unknown : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

bool mail_server_is_down()
{
    return false;
}

void send_mail(const ph::delivery_view& /*which*/) {}

bool write_page(int page)
{
    return page < 3;
}

void forms(ph::worker& worker)
{
    worker.handle("mail.welcome", [](const ph::delivery_view& d) -> ph::outcome {
        if (mail_server_is_down())
            return ph::postpone(30s);
        send_mail(d);
        return ph::done();
    });

    worker.handle("mail.*", [](const ph::delivery_view& d) { send_mail(d); });
    worker.handle_if([](std::string_view topic) { return topic.ends_with(".audit"); },
                     [](const ph::delivery_view& d) { std::cout << d.topic() << "\n"; });

    worker.handle<order_placed>([](const order_placed& order) {
        std::cout << "order " << order.order_id << " of " << order.customer << "\n";
    });
}

void limits(ph::worker& worker)
{
    worker.handle("reports", [](const ph::delivery_view&) {},
                  {.timeout = 5min, .abandon_after = 10min, .concurrency = 2});

    worker.handle("webhooks", [](const ph::delivery_view&) {},
                  {.per_key = 1, .key = [](const ph::delivery& d) { return d.ordering_key; }});
}

void patient(ph::worker& worker)
{
    worker.handle("export", [](const ph::delivery_view& d) -> ph::outcome {
        for (int page = 0; write_page(page); ++page)
            if (d.stop_token().stop_requested())
                return ph::retry("asked to stop");
        return ph::done();
    });
}

ph::worker_options options()
{
    ph::worker_options options;
    options.around.push_back([](const ph::delivery_view& d, const auto& next) {
        std::clog << "begin " << to_string(d.id()) << "\n";
        auto said = next();
        std::clog << "end " << to_string(d.id()) << "\n";
        return said;
    });
    options.on.settled = [](const ph::delivery_view& d, ph::settled_as answer) {
        if (answer == ph::settled_as::dead)
            std::clog << d.topic() << " has failed for good\n";
    };
    options.classify = [](const std::exception_ptr& thrown) -> ph::outcome {
        try {
            std::rethrow_exception(thrown);
        } catch (const address_unknown& why) {
            return ph::fail(why.what());
        } catch (const std::exception& why) {
            return ph::retry(why.what());
        } catch (...) {
            return ph::retry("unknown exception");
        }
    };
    return options;
}

} // namespace

int main()
{
    ph::testing::store_for_tests store;
    ph::worker worker(store, options());
    forms(worker);
    limits(worker);
    patient(worker);
    worker.handle("bad", [](const ph::delivery_view&) { throw address_unknown("nobody"); });

    ph::enqueue(store, order_placed{7, "ada"});
    for (const auto* topic : {"mail.welcome", "mail.bye", "door.audit", "reports", "webhooks",
                              "webhooks", "export", "bad"})
        ph::enqueue(store, {topic, "x"});
    const auto report = ph::testing::drain_to_the_end(worker, store);
    std::cout << report.done << " done, " << report.dead << " dead\n";
    return report.done == 8 && report.dead == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
