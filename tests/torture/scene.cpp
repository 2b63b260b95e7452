// Processes are named after their turn; each writes a history of its name.
#include "torture/scene.hpp"

#include "torture/effects.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <utility>

namespace posthorn::torture {

using namespace std::chrono_literals;
using namespace posthorn::checker;

bool wait_until(const std::function<bool()>& condition, duration at_most)
{
    const auto end = std::chrono::steady_clock::now() + at_most;
    while (!condition()) {
        if (std::chrono::steady_clock::now() >= end)
            return false;
        environment::system().clock->pause(5ms);
    }
    return true;
}

std::vector<conformance::store_kind> kinds_for_processes()
{
    std::vector<conformance::store_kind> result;
    for (const auto& each : conformance::store_kinds())
        if (each.can.other_processes)
            result.push_back(each);
    return result;
}

scene::scene(const conformance::store_kind& kind)
    : under_test_(kind.make()),
      url_(under_test_->url()),
      effects_(under_test_->table_of_application())
{
    create_effects();
}

scene::scene(const std::string& url, const std::string& effects) : url_(url), effects_(effects)
{
    create_effects();
}

scene::~scene()
{
    resume_all();
    running_.clear();
}

void scene::create_effects()
{
    store_ = open(url_);
    notes_ =
        std::make_unique<history_writer>(file("driver.jsonl"), "driver", db().environment().clock);
    auto tx = db().begin();
    execute_in(tx, url_, "CREATE TABLE " + effects_ + " (message CHAR(36), worker VARCHAR(40))");
    if (!url_.starts_with("mariadb:")) // there a new table commits, and ends the transaction
        tx.commit();
}

// ------------------------------------------------------------------------------------- processes

std::string scene::start(const std::string& role, const std::string& name,
                         const std::vector<std::string>& options)
{
    std::vector<std::string> arguments{TORTURE_PROCESS, role, url_, file(name + ".jsonl"), name};
    std::ofstream(file(name + ".jsonl"), std::ios::app); // it may not live to make it
    arguments.insert(arguments.end(), options.begin(), options.end());
    running_.emplace(name, process(arguments, file("log")));
    return name;
}

std::string scene::start_worker(const std::vector<std::string>& options)
{
    std::vector<std::string> all{"--effects", effects_};
    all.insert(all.end(), options.begin(), options.end());
    return start("work", "worker" + std::to_string(++number_), all);
}

std::string scene::start_producer(unsigned seed)
{
    return start("produce", "producer" + std::to_string(++number_),
                 {"--seed", std::to_string(seed)});
}

std::string scene::start_outsider(const std::string& role, const std::vector<std::string>& options)
{
    std::vector<std::string> all{"--effects", effects_};
    all.insert(all.end(), options.begin(), options.end());
    return start(role, role + std::to_string(++number_), all);
}

void scene::kill(const std::string& name)
{
    const auto asked_at = now();
    of(name).send(SIGKILL);
    EXPECT_EQ(of(name).wait(20s), -SIGKILL) << name << " had ended before\n" << log();
    running_.erase(name);
    tell(fault_event{.kind = fault_kind::killed, .worker = name}, asked_at);
}

void scene::pause(const std::string& name)
{
    paused_[name] = now();
    of(name).stop_and_wait();
}

void scene::resume(const std::string& name)
{
    of(name).send(SIGCONT);
    tell(fault_event{.kind = fault_kind::paused, .worker = name}, paused_.at(name));
    paused_.erase(name);
}

void scene::resume_all()
{
    while (!paused_.empty())
        resume(std::string(paused_.begin()->first));
}

void scene::stop(const std::string& name, duration within)
{
    of(name).send(SIGTERM);
    expect_good_end(name, within);
}

void scene::expect_good_end(const std::string& name, duration within)
{
    EXPECT_EQ(of(name).wait(within), 0) << name << " does not end well\n" << log();
    running_.erase(name);
}

void scene::stop_all()
{
    for (const auto& [name, each] : running_)
        each.send(SIGTERM);
    while (!running_.empty())
        expect_good_end(std::string(running_.begin()->first), 20s);
}

std::optional<int> scene::see_end(const std::string& name, duration within)
{
    auto alive_at = now();
    std::optional<int> how;
    wait_until(
        [&] {
            const auto asked_at = now();
            how = of(name).ended();
            if (!how)
                alive_at = asked_at;
            return how.has_value();
        },
        within);
    if (!how)
        return how;
    running_.erase(name);
    if (*how < 0)
        tell(fault_event{.kind = fault_kind::killed, .worker = name}, alive_at);
    return how;
}

// -------------------------------------------------------------------------------------- messages

message_id scene::add(const message& what, const enqueue_options& how)
{
    const auto token = "driver/" + std::to_string(++number_);
    const auto asked_at = now();
    auto tx = db().begin();
    const auto id = enqueue(tx, what, how).id;
    tell(enqueue_event{.id = id,
                       .topic = what.topic,
                       .key = how.ordering_key,
                       .due_at = how.delay ? std::optional{asked_at + *how.delay} : std::nullopt,
                       .transaction = token},
         asked_at);
    tx.commit();
    tell(transaction_event{token, transaction_end::committed}, asked_at);
    return id;
}

message_record scene::look(message_id id)
{
    return find_message(db(), id).value();
}

bool scene::is_drained()
{
    const auto stats = count_messages(db());
    return stats.ready + stats.delayed + stats.waiting + stats.parked + stats.claimed == 0;
}

// ------------------------------------------------------------------------------------- judgement

history scene::told(const std::vector<std::filesystem::path>& files)
{
    return read_history(files);
}

std::vector<settled_as> scene::answers_to(const std::string& name) const
{
    std::vector<settled_as> result;
    for (const auto& each : told({file(name + ".jsonl")}).events)
        if (const auto* what = std::get_if<settle_event>(&each.what))
            result.push_back(what->answer.value());
    return result;
}

history scene::told_by_all() const
{
    std::vector<std::filesystem::path> files;
    for (const auto& each : std::filesystem::directory_iterator(folder_.file("")))
        if (each.path().extension() == ".jsonl")
            files.push_back(each.path());
    return told(files);
}

judgement scene::judged(const bounds& allowed) const
{
    auto where = *store_;
    return judge(told_by_all(), read_final(where), allowed);
}

judgement scene::judged(const bounds& allowed, const std::string& source) const
{
    auto where = *store_;
    auto found = read_final(where);
    found.effects.emplace();
    auto tx = where.begin();
    for (const auto& each : texts_in(tx, url_, "SELECT message FROM " + effects_))
        found.effects->push_back({.source = source, .id = each});
    return judge(told_by_all(), found, allowed);
}

std::string scene::select_effects(const std::string& of) const
{
    return fmt::format("SELECT count(*) FROM {} WHERE message = '{}'", effects_, of);
}

std::int64_t scene::effects_named(const std::string& what)
{
    auto tx = db().begin();
    return count_in(tx, url_, select_effects(what));
}

std::vector<std::string> scene::wrong_effects()
{
    std::vector<std::string> wrong;
    std::int64_t expected = 0;
    auto tx = db().begin();
    for (const auto& each : read_final(db()).messages) {
        if (each.topic != "effect" && each.topic != "inside" && each.topic != "holding")
            continue;
        const auto rows = count_in(tx, url_, select_effects(to_string(each.id)));
        const std::int64_t right = each.state == message_state::done ? 1 : 0;
        expected += rows;
        if (rows != right)
            wrong.push_back(to_string(each.id) + " is " + std::string(to_string(each.state)) +
                            " and has taken effect " + std::to_string(rows) + " times");
    }
    const auto all = count_in(tx, url_, "SELECT count(*) FROM " + effects_);
    if (all != expected)
        wrong.push_back(std::to_string(all - expected) + " effects are of no message");
    return wrong;
}

} // namespace posthorn::torture
