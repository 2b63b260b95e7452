// Each effect is a row of the application, named after what it is the effect of.
#include "torture/outsiders.hpp"

#include "torture/effects.hpp"
#include <posthorn/error.hpp>
#include <posthorn/idempotency.hpp>

#include <barrier>
#include <chrono>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <random>
#include <stdexcept>
#include <thread>
#include <unistd.h>
#include <vector>

namespace posthorn::torture {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr int threads_each = 4;

// Appends whole lines, also when the process is killed the next moment.
class note_file {
public:
    explicit note_file(const std::filesystem::path& path)
        : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600))
    {
        if (file_ < 0)
            throw std::runtime_error("cannot write " + path.string());
    }
    note_file(const note_file&) = delete;
    note_file& operator=(const note_file&) = delete;
    ~note_file() { ::close(file_); }

    void add(const std::string& text) const
    {
        if (::write(file_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
            throw std::runtime_error("a note was not written");
    }

private:
    int file_;
};

std::filesystem::path beside(const outsider_options& how, const char* extension)
{
    auto path = how.notes;
    return path.replace_extension(extension);
}

void rest_for(duration length)
{
    environment::system().clock->pause(length);
}

void write_effect(transaction& tx, const outsider_options& how, const std::string& of)
{
    execute_in(tx, how.url,
               "INSERT INTO " + how.effects + " (message, worker) VALUES ('" + of + "', '" +
                   how.name + "')");
}

// Whether it can be said again: nothing of it was kept, or nobody knows, and then its name does.
bool worth_repeating(const error& failure)
{
    return failure.retryable() || failure.in_doubt() ||
           failure.code() == error_code::connection_lost;
}

// A sender without an answer sends again.
void until_answered(const std::stop_token& stop, const std::function<void()>& action)
{
    while (!stop.stop_requested()) {
        try {
            return action();
        } catch (const error& failure) {
            if (!worth_repeating(failure))
                throw;
            rest_for(2ms);
        }
    }
}

void deliver_one(store& where, const outsider_options& how, const std::string& id)
{
    const inbound from{.source = outside_source, .id = id};
    if (how.through == "queue") {
        enqueue_inbound(where, from, {"effect", id});
    } else {
        once(where, from.source, from.id, [&](transaction& tx) {
            write_effect(tx, how, id);
            rest_for(5ms); // where it is worth being killed
        });
    }
}

// All of them at once; what one of them throws ends the process.
void in_threads(const std::function<void(int)>& work)
{
    std::vector<std::jthread> all;
    for (int i = 0; i < threads_each; ++i)
        all.emplace_back([&work, i] { work(i); });
}

// As an inbox is often written: whoever finds nothing goes ahead. Here all of them look before one
// of them writes.
void look_and_write(store& where, const outsider_options& how, const std::string& id)
{
    std::barrier all_have_looked(threads_each);
    in_threads([&](int) {
        const inbound from{.source = outside_source, .id = id};
        const bool known = already_processed(where, from);
        all_have_looked.arrive_and_wait();
        if (known)
            return;
        auto tx = where.begin();
        write_effect(tx, how, id);
        tx.commit();
        mark_processed(where, from);
    });
}

} // namespace

void deliver(store where, const outsider_options& how, const std::stop_token& stop)
{
    if (how.through == "looking") {
        look_and_write(where, how, "looking-0");
        note_file(beside(how, ".done")).add("x");
        return;
    }
    const note_file count(beside(how, ".count"));
    while (!stop.stop_requested()) {
        for (int id = 0; id < how.ids && !stop.stop_requested(); ++id) {
            in_threads([&](int) {
                for (int i = 0; i < how.times / threads_each && !stop.stop_requested(); ++i) {
                    count.add("x");
                    until_answered(stop, [&] {
                        deliver_one(where, how, how.through + "-" + std::to_string(id));
                    });
                }
            });
        }
        if (!stop.stop_requested())
            note_file(beside(how, ".done")).add("x");
    }
}

void send_commands(store where, const outsider_options& how, const std::stop_token& stop)
{
    const note_file replies(beside(how, ".replies"));
    const auto one = [&](std::mt19937& draw, int thread, const std::string& key) {
        const command_key which{
            .command = "charge", .key = key, .lock = milliseconds{how.lock}, .wait = 10s};
        const auto answer = run_once(where, which, [&](transaction& tx) {
            const bool late = draw() % 4 == 0;
            write_effect(tx, how, key);
            rest_for(milliseconds{late ? how.lock + 100 : static_cast<int>(draw() % 20)});
            return key + " by " + how.name + "/" + std::to_string(thread) + "/" +
                   std::to_string(draw());
        });
        if (answer.result)
            replies.add(key + "\t" + *answer.result + "\n");
    };
    while (!stop.stop_requested()) {
        in_threads([&](int thread) {
            std::mt19937 draw(static_cast<unsigned>(environment::system().random->bits()));
            for (int id = 0; id < how.ids && !stop.stop_requested(); ++id)
                until_answered(stop, [&] { one(draw, thread, "key-" + std::to_string(id)); });
        });
        if (!stop.stop_requested())
            note_file(beside(how, ".done")).add("x");
    }
}

void hold_command(store where, const outsider_options& how)
{
    const command_key which{.command = "charge", .key = "held", .lock = milliseconds{how.lock}};
    const auto held = reserve(where, which);
    if (held.answer != command_answer::executed)
        throw std::runtime_error("somebody has the key already");
    std::ofstream(how.gate.string() + ".inside").put('\n');
    while (!std::filesystem::exists(how.gate))
        rest_for(2ms);
    auto tx = where.begin();
    write_effect(tx, how, "held");
    const bool completed = complete(tx, which, held, "by " + how.name);
    completed ? tx.commit() : tx.rollback();
    note_file(beside(how, ".replies")).add(completed ? "completed\n" : "refused\n");
}

} // namespace posthorn::torture
