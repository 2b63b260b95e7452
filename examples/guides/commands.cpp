// The code of docs/guides/idempotency.md, docs/guides/commands.md and docs/guides/unit-of-work.md.
#include "run.hpp"
#include <posthorn/json.hpp>
#include <posthorn/posthorn.hpp>
#include <posthorn/testing/testing.hpp>
#include <posthorn/worker.hpp>

#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ph = posthorn;
namespace pt = posthorn::testing;
using namespace std::chrono_literals;

struct user_registered {
    std::string email;

    NLOHMANN_DEFINE_TYPE_INTRUSIVE(user_registered, email)
};

template <>
struct posthorn::message_type<user_registered> {
    static constexpr std::string_view topic = "user.registered";
};

struct register_user {
    std::string email;
    std::string idempotency_key;
};

template <>
struct posthorn::command_type<register_user> {
    static constexpr std::string_view name = "users.register";
    using result = std::string;
};

namespace {

void expect(bool given)
{
    if (!given)
        throw std::runtime_error("not as expected");
}

// -------------------------------------------------------------------------------- idempotency.md

std::string charge(ph::transaction& tx, int cents)
{
    run(tx, "UPDATE account SET cents = cents - ?1", {std::to_string(cents)});
    ph::enqueue(tx, {"payments.charged", std::to_string(cents)});
    return "receipt for " + std::to_string(cents);
}

struct response {
    int status = 200;
    std::string body = {};
};

response answer_to(ph::store& store, const std::string& key, const std::string& hash, int cents)
{
    const auto charged =
        ph::run_once(store, {.command = "charge", .key = key, .fingerprint = hash, .wait = 5s},
                     [&](ph::transaction& tx) { return charge(tx, cents); });
    switch (charged.answer) {
    case ph::command_answer::executed:
    case ph::command_answer::replayed: return {200, *charged.result};
    case ph::command_answer::mismatch: return {422, "this key was used for another request"};
    case ph::command_answer::in_progress:
    case ph::command_answer::lost:
    case ph::command_answer::stopped: break;
    }
    return {409, "try again"};
}

std::string charge_in(ph::transaction& tx, const std::string& key, int cents)
{
    return ph::run_once(tx, {.command = "charge", .key = key}, [&] { return charge(tx, cents); })
        .value();
}

void charge_in_steps(ph::store& store, const ph::command_key& which)
{
    const auto held = ph::reserve(store, which);
    if (held.answer != ph::command_answer::executed)
        return;
    auto tx = store.begin();
    if (ph::complete(tx, which, held, charge(tx, 100)))
        tx.commit();
    else
        tx.rollback(); // somebody took over: nothing of this may stay
}

// ------------------------------------------------------------------------------ unit-of-work.md

struct user {
    std::string email;
    ph::domain_events events;

    static user registered(std::string email)
    {
        user result{.email = std::move(email), .events = ph::domain_events()};
        result.events.raise(user_registered{result.email});
        return result;
    }
};

struct users {
    static void add(ph::unit_of_work& work, user& who)
    {
        work.write([&who](ph::transaction& tx) {
            run(tx, "INSERT INTO users (email) VALUES (?1)", {who.email});
            return std::size_t{1};
        });
        work.track(who.events);
    }
};

std::size_t register_two(ph::store& store)
{
    auto anna = user::registered("anna@example.org");
    auto bert = user::registered("bert@example.org");
    ph::store_unit_of_work work(store);
    users::add(work, anna);
    users::add(work, bert);
    work.on_commit([] { std::cout << "two are registered\n"; });
    return work.save_changes(); // two rows and two events: 4
}

// ---------------------------------------------------------------------------------- commands.md

void add_behaviours(ph::command_pipeline& commands)
{
    commands.validate<register_user>([](const register_user& c, ph::problems& found) {
        if (c.email.find('@') == std::string::npos)
            found.add("email", "is no address");
    });
    commands.handle<register_user>([](const register_user& c, ph::transaction& tx) {
        auto who = user::registered(c.email);
        ph::store_unit_of_work work(tx);
        users::add(work, who);
        work.save_changes();
        return "welcome, " + c.email;
    });
    commands.use(ph::stage::validation,
                 [](ph::command_context& which, const ph::next_behaviour& next) {
                     std::cout << which.name << " begins\n";
                     next();
                     std::cout << which.name << " has ended\n";
                 });
}

response register_over_http(ph::command_pipeline& commands, const register_user& command)
{
    const auto sent = commands.send(command, command.email);
    if (sent.refused())
        return {400, sent.problems.front().field + " " + sent.problems.front().what};
    if (!sent.outcome.result)
        return {409, std::string(ph::to_string(sent.outcome.answer))};
    return {200, *sent.outcome.result};
}

void test_without_a_store()
{
    auto anna = user::registered("anna@example.org");
    pt::fake_unit_of_work work;
    users::add(work, anna);
    work.save_changes();
    expect(work.saved.size() == 1 && work.saved[0].message.topic == "user.registered");
}

} // namespace

int main()
try {
    pt::store_for_tests store;
    {
        auto tx = store.begin();
        run(tx, "CREATE TABLE account (cents INTEGER)");
        run(tx, "CREATE TABLE users (email TEXT)");
        tx.commit();
    }
    const auto first = answer_to(store, "k1", "100 cents", 100);
    expect(first.status == 200 && first.body == answer_to(store, "k1", "100 cents", 100).body);
    expect(answer_to(store, "k1", "200 cents", 200).status == 422);
    {
        auto tx = store.begin();
        expect(charge_in(tx, "k2", 5) == charge_in(tx, "k2", 6));
        tx.commit();
    }
    charge_in_steps(store, {.command = "charge", .key = "k3"});
    expect(ph::find_key(store, "charge", "k3")->state == ph::key_state::completed);

    expect(register_two(store) == 4);
    ph::command_pipeline commands(store);
    add_behaviours(commands);
    const std::string key = "6f1c3a52-7c1b-4a5e-9c58-2f5a37c60b11";
    expect(register_over_http(commands, {"carol", key}).status == 400);
    expect(register_over_http(commands, {"carol@example.org", "no key"}).status == 400);
    expect(register_over_http(commands, {"carol@example.org", key}).status == 200);
    expect(register_over_http(commands, {"carol@example.org", key}).status == 200);
    expect(register_over_http(commands, {"dora@example.org", key}).status == 409);
    expect(ph::list_messages(store, {.topic = "user.registered"}).size() == 3);
    test_without_a_store();
} catch (const std::exception& failure) {
    std::cerr << failure.what() << "\n";
    return 1;
}
