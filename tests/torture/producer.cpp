// Every message is told before its commit is asked for, and every answer after it.
#include "torture/producer.hpp"

#include <posthorn/error.hpp>

#include <chrono>
#include <utility>

namespace posthorn::torture {
namespace {

using namespace std::chrono_literals;
using checker::transaction_end;

constexpr unsigned keys = 6;

} // namespace

producer::producer(store where, checker::history_writer& notes, std::string name, unsigned seed)
    : store_(std::move(where)), notes_(notes), name_(std::move(name)), draw_(seed)
{}

void producer::run(const std::stop_token& stop)
{
    for (int number = 0; !stop.stop_requested(); ++number) {
        const auto token = name_ + "/" + std::to_string(number);
        draw_() % 3 == 0 ? one_by_itself(token) : one_transaction(token);
        store_.environment().clock->pause(std::chrono::microseconds{draw_() % 10'000});
    }
}

outgoing producer::draw_message()
{
    const auto small = [this](unsigned below) { return draw_() % below; };
    outgoing result{{"ordinary", "x"}, {}};
    switch (small(10)) {
    case 0: result.message = {"slow", std::to_string(small(40))}; break;
    case 1: result.message = {"failing", std::to_string(1 + small(2))}; break;
    case 2:
    case 3: result.message = {"effect", "x"}; break;
    case 4: result.options.delay = std::chrono::milliseconds{small(300)}; break;
    default: break;
    }
    if (small(3) == 0)
        result.options.ordering_key = "key " + std::to_string(small(keys));
    return result;
}

void producer::note(const outgoing& what, message_id id, const std::string& token,
                    timestamp asked_at)
{
    checker::enqueue_event event{.id = id,
                                 .topic = what.message.topic,
                                 .key = what.options.ordering_key,
                                 .transaction = token};
    if (what.options.delay)
        event.due_at = asked_at + *what.options.delay;
    notes_.record(event, asked_at);
}

// What could not be done was not; what is in doubt may have been.
template <typename Action>
void producer::end(const std::string& token, transaction_end as, Action&& action)
{
    const auto asked_at = notes_.now();
    try {
        action();
    } catch (const error& failure) {
        as = failure.in_doubt() ? transaction_end::unknown : transaction_end::rolled_back;
        store_.environment().clock->pause(20ms);
    }
    notes_.record(checker::transaction_event{token, as}, asked_at);
}

void producer::one_transaction(const std::string& token)
{
    end(token, transaction_end::committed, [&] {
        auto tx = store_.begin();
        for (auto count = 1 + draw_() % 3; count > 0; --count) {
            const auto what = draw_message();
            const auto asked_at = notes_.now();
            note(what, enqueue(tx, what.message, what.options).id, token, asked_at);
        }
        tx.commit();
    });
}

void producer::one_by_itself(const std::string& token)
{
    auto what = draw_message();
    what.options.id = message_id{uuid::version_7(notes_.now(), *store_.environment().random)};
    note(what, *what.options.id, token, notes_.now());
    if (draw_() % 4 != 0) {
        end(token, transaction_end::committed,
            [&] { enqueue(store_, what.message, what.options); });
        return;
    }
    end(token, transaction_end::rolled_back, [&] {
        auto tx = store_.begin();
        enqueue(tx, what.message, what.options);
        tx.rollback();
    });
}

} // namespace posthorn::torture
