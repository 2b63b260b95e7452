// The code of docs/testing.md.
#include <posthorn/json.hpp>
#include <posthorn/posthorn.hpp>
#include <posthorn/testing/testing.hpp>
#include <posthorn/worker.hpp>

#include <stdexcept>
#include <string>

namespace ph = posthorn;
namespace pt = posthorn::testing;
using namespace std::chrono_literals;

struct welcome {
    std::string email;

    NLOHMANN_DEFINE_TYPE_INTRUSIVE(welcome, email)
};

template <>
struct posthorn::message_type<welcome> {
    static constexpr std::string_view topic = "mail.welcome";
};

namespace {

// EXPECT_TRUE, REQUIRE or CHECK in a test framework.
void expect(const pt::verdict& given)
{
    if (!given)
        throw std::runtime_error(given.why());
}

void expect(bool given)
{
    if (!given)
        throw std::runtime_error("not as expected");
}

// The code that is tested.
void register_user(ph::store& store, const std::string& email)
{
    auto tx = store.begin();
    ph::enqueue(tx, welcome{email}, {.delay = 1h});
    tx.commit();
}

ph::outcome send(const ph::delivery_view& d)
{
    return d.attempt() < 3 ? ph::retry("busy") : ph::done();
}

void a_new_user_is_welcomed()
{
    pt::store_for_tests store;
    register_user(store, "ada@example.org");
    expect(pt::was_enqueued<welcome>(store, {{"ada@example.org"}}));
}

void a_busy_server_is_tried_again()
{
    pt::store_for_tests store;
    pt::recorder seen;
    ph::worker worker(store, seen.watching());
    worker.handle("mail.welcome", send);
    register_user(store, "ada@example.org");

    pt::drain(worker);
    expect(pt::are_in_state(store, ph::message_state::ready, 1));

    const auto report = pt::drain_for(worker, store, 2h);
    expect(pt::everything_is_done(store));
    expect(report.retrying == 2);
    expect(seen.handled("mail.welcome").back().attempt == 3);
}

void a_handler_alone()
{
    const pt::sample_delivery third({"mail.welcome", "{}"}, 3);
    expect(send(third).verdict == ph::outcome::kind::done);
}

} // namespace

int main()
{
    a_new_user_is_welcomed();
    a_busy_server_is_tried_again();
    a_handler_alone();
}
